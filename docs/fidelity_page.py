"""The page on fidelity, written from `params/`, the strings below the keys' declarations, and the text of `fidelity.md.j2`.

The site's build writes it anew into this folder: sphinx-build -W docs site.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined, Template
from pydantic import BaseModel

from vsepp.base.components import describe, module_name, parsed
from vsepp.base.run_spec import COMPONENTS
from vsepp.pipeline.files import Mistakes, read_yaml, validate
from vsepp.pipeline.settings import FidelityFile, Overlay, PaperFidelityFile

TEXT = Path(__file__).with_name("fidelity.md.j2")
DESCRIBED = "vsepp"
"""The paper that the strings below the keys are about, where they begin with no other's name."""
PAPERS = {
    "GOAL": ("components.loss.goal", "runs.goal"),
    "VSE∞": ("runs.vse-infinity", "runs.inf-"),
    DESCRIBED: ("",),
}
"""Paper → how the keys of its runs begin."""


def overlays(folder: Path) -> dict[str, dict[str, Any]]:
    """Fidelity → `section.entry.key` → value: what `params/fidelity/` and the papers' own `fidelity.yaml` decide.

    Raises
    ------
    VseppError
        If a file cannot be read, or one names a key that the other does not.
    """
    values = {
        name: _flat(_read(folder / "fidelity" / f"{name}.yaml", FidelityFile)) for name in ("paper", "code")
    }
    _check_same_keys(values, folder / "fidelity")
    for path in sorted(folder.glob("papers/*/fidelity.yaml")):
        own = {name: _flat(sections) for name, sections in _read(path, PaperFidelityFile).items()}
        _check_same_keys(own, path)
        for name, additions in own.items():
            values[name] |= additions
    return values


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
    decided: dict[str, list[list[str]]] = {title: [] for title in PAPERS}
    last: list[str] = []
    for key in paper:
        if paper[key] != code[key]:
            title = _paper_of(key)
            quotes = [_about(text, title) for text in _quotes(key)]
            if quotes == last:
                quotes = ["as above"] * 2
            else:
                last = quotes
            decided[title].append([f"`{key}`", *quotes, _shown(paper[key]), _shown(code[key])])
    runs = folder / "papers" / DESCRIBED / "runs.yaml"
    agreed, silent, contrary = [], [], []
    for key, value in _shared(runs, set(paper)).items():
        of_text, of_code = (_about(quote, DESCRIBED) for quote in _quotes(key))
        if of_code in (of_text, "the same"):
            agreed.append(f"`{key}: {_shown(value)}`")
        elif of_text == "not mentioned":
            silent.append(f"`{key}: {_shown(value)}`")
        else:
            contrary.append(f"`{key}: {_shown(value)}` (text: {of_text}; code: {of_code})")
    heads = ["key", "the paper's text", "the released code"]
    named = ["combination of GOAL", "loss that the paper names", "the loss's gradient"]
    text = Template(TEXT.read_text(encoding="utf-8"), keep_trailing_newline=True, undefined=StrictUndefined)
    return text.render(
        decided={title: _table([*heads, "`paper`", "`code`"], rows) for title, rows in decided.items()},
        agreed=", ".join(agreed),
        silent=", ".join(silent),
        contrary=", ".join(contrary),
        losses=_table(named, _known_losses()),
    )


def _paper_of(key: str) -> str:
    """The paper whose runs a key decides."""
    return next(title for title, starts in PAPERS.items() if key.startswith(starts))


def _about(quote: str, title: str) -> str:
    """What a quote says of one paper: the clauses that begin with its name, else those that begin with none."""
    clauses = re.split(r"; |\. (?=VSE∞|X-VLM)", quote.rstrip("."))
    own = [clause.removeprefix(f"{title} ") for clause in clauses if clause.startswith(f"{title} ")]
    general = [clause for clause in clauses if not clause.startswith(("VSE∞ ", "X-VLM "))]
    return "; ".join(own or general)


def _known_losses() -> list[list[str]]:
    """GOAL's combinations that the paper names after a loss, from the table that the tests of their gradients read."""
    factors = {"": "another one", "1": "the same"}
    rows = []
    for combination, known in describe("loss", "goal").constants["KNOWN"].items():
        options = "".join(f", `{option}: {_shown(value)}`" for option, value in known["options"].items())
        factor = factors.get(known["factor"], f"{known['factor']} times GOAL's")
        rows.append(
            [
                f"T {combination.replace(', ', ', P ')}{options}",
                f"{known['title']} (`{known['loss']}`)",
                factor,
            ]
        )
    return rows


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


def _check_same_keys(overlays: Mapping[str, Mapping[str, Any]], where: Path) -> None:
    """Note keys that only one overlay names: under the other, such a key would have no value of its own."""
    mistakes = Mistakes()
    for name, other in (("paper", "code"), ("code", "paper")):
        for key in [key for key in overlays[name] if key not in overlays[other]]:
            mistakes.add(f"{where}: {key}", f"missing in {other}; {name} names it, so give it there too")
    mistakes.raise_if_any()


def _shared(path: Path, decided: set[str]) -> dict[str, Any]:
    """Values of base entries where paper or code say something and no overlay does, of no entry."""
    entries = _read(path, Overlay, "runs")
    values = _flat({"runs": {name: keys for name, keys in entries.items() if keys.get("abstract")}})
    names = {
        key.rpartition(".")[2] for key in decided if key.startswith("runs.") and _paper_of(key) == DESCRIBED
    }
    return {
        key: value
        for key, value in values.items()
        if key.rpartition(".")[2] not in names and any(_quotes(key))
    }


def _quotes(key: str) -> list[str]:
    """What the paper's text and the released code say of a key; empty where the key's description quotes neither."""
    section, *middle, name = key.split(".")
    if section == "components":
        text = descriptions(module_name(COMPONENTS[middle[0]], middle[1]))["Options"].get(name, "")
    else:
        fields = descriptions("vsepp.base.spec", "vsepp.base.run_spec", "vsepp.pipeline.settings")
        text = fields["RunKeys" if section == "runs" else "CorpusOfRole"][name]
    parts = re.fullmatch(r".*?(?: Text: (.*?))?(?: Code: (.*))?", text)
    return [part or "" for part in parts.groups()] if parts else ["", ""]


@cache
def descriptions(*modules: str) -> dict[str, dict[str, str]]:
    """Declaration → key, also of its bases → string below the key, in one line. pydantic does not read them."""
    texts: dict[str, dict[str, str]] = {}
    for module in modules:
        for node in parsed(module).body:
            if isinstance(node, ast.ClassDef):
                above = (texts.get(ast.unparse(base).rpartition(".")[2], {}) for base in node.bases)
                texts[node.name] = {key: text for base in above for key, text in base.items()}
                for statement, after in pairwise(node.body):
                    if isinstance(statement, ast.AnnAssign) and isinstance(after, ast.Expr):
                        texts[node.name][ast.unparse(statement.target)] = " ".join(
                            str(ast.literal_eval(after.value)).split()
                        )
    return texts


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{Decimal(repr(value)):f}"  # .00002 and not 2e-05
    return value if isinstance(value, str) else json.dumps(value)


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)
