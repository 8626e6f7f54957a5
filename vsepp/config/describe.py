"""What `params/` may hold and what a fidelity decides, generated from the models' own descriptions."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined, Template
from pydantic import BaseModel

from vsepp.components import KINDS, describe, documented, known, parsed
from vsepp.config.components import options_schema
from vsepp.config.files import Mistakes, read_yaml, validate
from vsepp.config.schema import (
    COMPONENTS,
    ClaimsFile,
    DatasetsFile,
    FidelityFile,
    PaperFidelityFile,
    PresetFile,
    ReleasedFile,
    RunKeys,
    RunsFile,
    Settings,
    TablesFile,
)

_FILES: dict[str, type[BaseModel]] = {
    "params/config.yaml": Settings,
    "params/presets/*.yaml": PresetFile,
    "params/fidelity/*.yaml": FidelityFile,
    "params/papers/*/runs.yaml, each entry": RunKeys,
    "params/papers/*/tables.yaml": TablesFile,
    "params/papers/*/claims.yaml": ClaimsFile,
    "params/papers/*/fidelity.yaml": PaperFidelityFile,
    "params/papers/*/released.yaml, each entry": ReleasedFile,
    "params/datasets.yaml": DatasetsFile,
}

_TEXT = Path(__file__).with_name("fidelity.md.j2")
_DESCRIBED = "vsepp"
"""The paper that the descriptions in the schema are about."""


def json_schema() -> dict[str, Any]:
    """File of `params/` → JSON schema of what it may hold, and each component's options."""
    files = {file: model.model_json_schema() for file, model in _FILES.items()}
    for schema in files.values():
        for part in (schema, *schema.get("$defs", {}).values()):
            said = _descriptions().get(part.get("title", ""), {})
            for key, values in part.get("properties", {}).items():
                if key in said:
                    values["description"] = said[key]
    components = {kind: {name: options_schema(kind, name) for name in known(kind)} for kind in KINDS}
    return {**files, "components": components}


def overlays(folder: Path) -> dict[str, dict[str, Any]]:
    """Fidelity → `section.entry.key` → value: what `params/fidelity/` and the papers' own `fidelity.yaml` decide.

    Raises
    ------
    VseppError
        If a file cannot be read, or one names a key that the other does not.
    """
    found = {
        name: _flat(_read(folder / "fidelity" / f"{name}.yaml", FidelityFile)) for name in ("paper", "code")
    }
    _check_same_keys(found, folder / "fidelity")
    for path in sorted(folder.glob("papers/*/fidelity.yaml")):
        own = {name: _flat(sections) for name, sections in _read(path, PaperFidelityFile).items()}
        _check_same_keys(own, path)
        for name, values in own.items():
            found[name] |= values
    return found


def fidelity_document(folder: Path) -> str:
    """What each fidelity computes, key by key, as Markdown.

    Parameters
    ----------
    folder
        The folder `params`.

    Raises
    ------
    VseppError
        As `overlays`.
    """
    paper, code = overlays(folder).values()
    decided = [
        [*_said(key), _shown(paper[key]), _shown(code[key]), "no" if paper[key] == code[key] else "yes"]
        for key in paper
    ]
    runs = folder / "papers" / _DESCRIBED / "runs.yaml"
    shared = [[*_said(key), _shown(value)] for key, value in _shared(runs, set(paper)).items()]
    said = ["key", "what it is", "the paper's text", "the released code"]
    named = ["combination of GOAL", "with", "loss that the paper names", "module", "the loss's gradient"]
    text = Template(_TEXT.read_text(encoding="utf-8"), keep_trailing_newline=True, undefined=StrictUndefined)
    return text.render(
        decided=_table([*said, "`paper`", "`code`", "differ"], decided),
        shared=_table([*said, "value"], shared),
        losses=_table(named, _known_losses()),
    )


def _known_losses() -> list[list[str]]:
    """GOAL's combinations that the paper names after a loss, from the table that the tests of their gradients read."""
    found = describe("loss", "goal").constants["KNOWN"]
    factors = {"": "another one", "1": "the same"}
    return [
        [
            f"T {combination.replace(', ', ', P ')}",
            ", ".join(f"`{option}: {_shown(value)}`" for option, value in options.items()),
            name,
            f"`{module}`",
            factors.get(factor, f"{factor} times GOAL's"),
        ]
        for combination, (name, module, options, factor) in found.items()
    ]


def _read(path: Path, model: type[BaseModel], inside: str | None = None) -> dict[str, Any]:
    """Content of a YAML file, validated as a model or as its part below the key `inside`."""
    mistakes = Mistakes()
    content = read_yaml(path, mistakes)
    validate(model, {inside: content} if inside else content, str(path), mistakes)
    mistakes.raise_if_any()
    return content


def _flat(file: Mapping[str, Any]) -> dict[str, Any]:
    """`section.entry.key` → value; of an option `components.key.component.option`."""
    of_entries = {
        f"{section}.{entry}.{key}": value
        for section in ("runs", "corpora")
        for entry, keys in file.get(section, {}).items()
        for key, value in keys.items()
    }
    of_options = {
        f"components.{key}.{component}.{option}": value
        for key, components in file.get("components", {}).items()
        for component, options in components.items()
        for option, value in options.items()
    }
    return of_entries | of_options


def _check_same_keys(found: Mapping[str, Mapping[str, Any]], where: Path) -> None:
    """Note keys that only one overlay names: under the other, such a key would have no value of its own."""
    mistakes = Mistakes()
    for name, other in (("paper", "code"), ("code", "paper")):
        for key in [key for key in found[name] if key not in found[other]]:
            mistakes.add(f"{where}: {key}", f"missing in {other}; {name} names it, so give it there too")
    mistakes.raise_if_any()


def _shared(path: Path, decided: set[str]) -> dict[str, Any]:
    """Values of base entries where paper or code say something and no overlay does."""
    entries = _read(path, RunsFile, "runs")
    values = _flat({"runs": {name: keys for name, keys in entries.items() if keys.get("abstract")}})
    return {key: value for key, value in values.items() if key not in decided and any(_said(key)[2:])}


def _said(key: str) -> list[str]:
    """The key, its description, and what the paper's text and the released code say of it."""
    section, *middle, name = key.split(".")
    if section == "components":
        text = describe(COMPONENTS[middle[0]], middle[1]).documented.get(name, "")
    else:
        text = _descriptions()["RunKeys" if section == "runs" else "CorpusKeys"][name]
    said = re.fullmatch(r"(.*?)(?: Text: (.*?))?(?: Code: (.*))?", text)
    return [f"`{key}`", *(part or "" for part in said.groups())] if said else [f"`{key}`", "", "", ""]


@cache
def _descriptions() -> dict[str, dict[str, str]]:
    """Declaration → key → the string below it, its bases' too. pydantic would read them at each start of a command."""
    found: dict[str, dict[str, str]] = {}
    for module in ("vsepp.spec", "vsepp.reporting.specs", "vsepp.config.schema"):
        for node in parsed(module).body:
            if isinstance(node, ast.ClassDef):
                above = (found.get(ast.unparse(base).rpartition(".")[2], {}) for base in node.bases)
                found[node.name] = {
                    **{key: text for said in above for key, text in said.items()},
                    **documented(node),
                }
    shared = (found[name] for name in ("ModelSpec", "RunSpec", "ScheduleSpec", "_EntryKeys"))
    found["RunKeys"] = {
        key: text for said in shared for key, text in said.items()
    }  # as `_keys_of` gathers them
    return found


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{Decimal(repr(value)):f}"  # .00002 and not 2e-05
    return value if isinstance(value, str) else json.dumps(value)


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def data_licences(params: Path) -> dict[str, list[str]]:
    """Name of each data set of `datasets.yaml` → the licences of its files.

    Raises
    ------
    VseppError
        On mistakes in the file.
    """
    mistakes = Mistakes()
    path = params / "datasets.yaml"
    datasets = validate(DatasetsFile, read_yaml(path, mistakes), str(path), mistakes)
    mistakes.raise_if_any()
    assert datasets is not None
    return {
        name: ["generated by this project, Apache-2.0"]
        if dataset.generator
        else list(dict.fromkeys(datasets.sources[file].licence for file in dataset.files.values()))
        for name, dataset in datasets.datasets.items()
    }
