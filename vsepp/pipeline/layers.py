"""Inheritance and layers: from the files of `params/` and `--config` to one set of values for each run.

Order of precedence: base → run → fidelity → preset → `--config`. In every layer, an entry that a run inherits from
is applied before the entry of the run itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from vsepp.base.component_options import all_options, mistakes_in, resolved
from vsepp.base.components import known as known_components
from vsepp.base.components import module_name
from vsepp.base.errors import VseppError, did_you_mean
from vsepp.base.files import is_there
from vsepp.base.spec import Component, ModelSpec, RunSpec, ScheduleSpec, SizeAugmentationSpec
from vsepp.pipeline.checks import check
from vsepp.pipeline.files import Mistakes, Value, read_model, read_yaml, validate
from vsepp.pipeline.papers import Paper, read_papers
from vsepp.pipeline.parameters import HARMLESS, Parameters
from vsepp.pipeline.settings import (
    COMPONENTS,
    ComponentKeys,
    CorpusKeys,
    DatasetsFile,
    FidelityFile,
    PaperFidelity,
    PresetFile,
    RunKeys,
    Settings,
)

# These belong to the entry that names them; inheriting them would train or print a row twice.
_NOT_INHERITED = ("base", "abstract", "ensemble", "feeds")
_WRITTEN = {
    "preset": "preset=flickr8k",
    "papers": "'papers=[vsepp,goal]'",
    "fidelity": "fidelity=code",
    "seeds": "'seeds=[0,1,2]' for three trainings of each run, 'seeds=[3]' for one with seed 3",
    "label": "label=mine",
    "only": "'only=[coco-vse0-1c,flickr-*]'",
    "archives": "archives=/data/flickr8k",
}
"""Key of `config.yaml` → how it is given as `--config`."""
_SPECS: tuple[Any, ...] = (RunSpec, ModelSpec, ScheduleSpec, SizeAugmentationSpec)
_DEFAULTS: dict[str, Any] = {
    **{field.name: field.default for spec in _SPECS for field in fields(spec)},
    **{"base": None, "abstract": False, "ensemble": None, "feeds": {}, "protocols": [], "seeds": None},
}
_OPTIONAL = {
    key: Value(default.name if isinstance(default, Component) else default, "default of the schema")
    for key, default in _DEFAULTS.items()
    if key in RunKeys.model_fields and default is not MISSING
}
"""Keys that no layer need give, so that a new one does not end the use of older files."""
_UNNAMED = {key: value for key, value in _OPTIONAL.items() if key in COMPONENTS}
"""Components of runs that name none."""


@dataclass(frozen=True)
class _File:
    """Values that one file, or the command line, gives to runs."""

    label: str
    runs: Mapping[str, Mapping[str, Value]]
    """Entry → key → value. A component is two kinds of keys: `loss`, its name, and `loss.margin`, an option."""
    components: Mapping[tuple[str, str], Mapping[str, Value]] = field(default_factory=dict)
    """Key and name of a component → `loss.margin` → value, in the runs that name it."""
    paper: str | None = None
    """Paper whose runs the file is about; `None`: the runs of all papers."""


_Layers = list[list[_File]]
"""Files of one layer have the same rank: an entry may inherit from one in another paper's file."""


def load(folder: Path, overrides: Mapping[str, Any] | None = None) -> Parameters:
    """Read and resolve `params/`.

    Parameters
    ----------
    folder
        The folder `params`.
    overrides
        Values from the command line: keys of `config.yaml`, or sections to change (`runs`, `components`, `corpora`,
        `encoders`, `evaluation`, `scenes`, `pretraining`, `resources`, `sources`, `datasets`, `tables`).

    Raises
    ------
    VseppError
        Listing all mistakes: file, run, key, value and what is accepted.
    """
    mistakes = Mistakes()
    overrides = dict(overrides or {})
    settings = _settings(folder, overrides, mistakes)
    sections = {key: value for key, value in overrides.items() if key not in Settings.model_fields}
    _check_sections(sections, mistakes)
    mistakes.raise_if_any()

    papers = read_papers(folder / "papers", settings.papers, mistakes)
    # The chosen fidelity, and `code`, which released models follow.
    fidelities: dict[str, FidelityFile] = {
        name: file
        for name in dict.fromkeys((settings.fidelity, "code"))
        if (file := read_model(FidelityFile, folder / "fidelity" / f"{name}.yaml", mistakes))
    }
    preset_path = folder / "presets" / f"{settings.preset}.yaml"
    preset = _merged(PresetFile, preset_path, sections, mistakes, but=("runs", "components"))
    datasets = _merged(DatasetsFile, folder / "datasets.yaml", sections, mistakes)
    given: dict[str, Any] = {key: sections[key] for key in ("runs", "components") if key in sections}
    override = validate(FidelityFile, given, "--config", mistakes)
    mistakes.raise_if_any()
    assert preset and datasets and override  # else there were mistakes

    def layers(fidelity: str) -> _Layers:
        own = [paper for paper in papers.values() if paper.fidelity]
        return [
            [
                _File(str(paper.runs_file), _flat(str(paper.runs_file), paper.entries))
                for paper in papers.values()
            ],
            [_file(folder / "fidelity" / f"{fidelity}.yaml", fidelities[fidelity])],
            [_file(paper.folder / "fidelity.yaml", paper.fidelity[fidelity], paper.name) for paper in own],
            [_file(preset_path, preset)],
            [_file("--config", override)],
        ]

    reproduced = {name: papers[name] for name in settings.papers}
    all_runs = _resolve_runs(layers(settings.fidelity), papers, reproduced, mistakes)
    mistakes.raise_if_any()
    released = any(paper.released for paper in reproduced.values())
    parameters = Parameters(
        folder=folder,
        settings=settings,
        preset=preset,
        papers=reproduced,
        sources=datasets.sources,
        datasets=datasets.datasets,
        corpora=_resolve_corpora(fidelities[settings.fidelity], preset),
        all_runs=all_runs,
        as_code=_resolve_runs(layers("code"), papers, reproduced, mistakes) if released else {},
        overrides=sections,
    )
    check(parameters, papers, mistakes)
    return parameters


def _settings(folder: Path, overrides: Mapping[str, Any], mistakes: Mistakes) -> Settings:
    given = dict(overrides)
    # `only=*-1c` and `papers=goal` on a command line are one-element lists; `seeds=3` could mean three seeds.
    for key in ("only", "papers"):
        if isinstance(given.get(key), str):
            given[key] = [given[key]]
    settings = _merged(Settings, folder / "config.yaml", given, mistakes)
    mistakes.found = [_with_the_way_to_write_it(said) for said in mistakes.found]
    mistakes.raise_if_any()
    archives = Path(settings.archives or ".")
    if not (is_there(archives) and archives.is_dir()):
        mistakes.add(f"{folder / 'config.yaml'}: archives", f"got {settings.archives!r}, which is no folder")
    changed = sorted(set(overrides) - set(HARMLESS))
    if changed and settings.label is None:
        mistakes.add(
            "--config",
            f"{', '.join(changed)} overridden without a label: add label=<name>, so that the results get their own "
            "folder and overwrite nothing",
        )
    if settings.label in ("paper", "code"):
        mistakes.add("--config: label", f"got {settings.label!r}, which names a fidelity; choose another")
    return settings


def _with_the_way_to_write_it(mistake: str) -> str:
    """A mistake in a setting of the command line, with the way to write the setting."""
    key = re.match(r"--config: (\w+)", mistake)
    return f"{mistake}; write {_WRITTEN[key[1]]}" if key and key[1] in _WRITTEN else mistake


def _check_sections(sections: Mapping[str, Any], mistakes: Mistakes) -> None:
    known = {*PresetFile.model_fields, *DatasetsFile.model_fields} - {"title", "data_note"}
    for key, value in sections.items():
        if key not in known:
            mistakes.add(
                f"--config: {key}",
                f"unknown key; known are {', '.join(sorted(known | set(Settings.model_fields)))}"
                + did_you_mean(key, known | set(Settings.model_fields)),
            )
        elif not isinstance(value, dict):
            mistakes.add(
                f"--config: {key}",
                f"got {value!r}; expected keys and values, such as {key}='{{name: {{key: value}}}}'",
            )


def _merged(
    model: type[BaseModel],
    path: Path,
    sections: Mapping[str, Any],
    mistakes: Mistakes,
    but: tuple[str, ...] = (),
) -> Any:
    """A file with the changes of `--config`; `None` after a mistake."""
    content = read_yaml(path, mistakes)
    if not content:
        return None
    found = validate(model, content, str(path), mistakes)
    changes = {key: value for key, value in sections.items() if key in model.model_fields and key not in but}
    if found is None or not changes:
        return found
    return validate(model, _merge(content, changes), "--config", mistakes)


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`below` with the values of `above` on top, mapping by mapping."""
    merged = dict(below)
    for key, value in above.items():
        nested = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merge(merged[key], value) if nested else value
    return merged


def _file(
    label: str | Path, keys: FidelityFile | PaperFidelity | PresetFile, paper: str | None = None
) -> _File:
    components = {
        (key, name): {
            f"{key}.{option}": Value(value, f"{label}: components.{key}.{name}")
            for option, value in given.items()
        }
        for key, named in keys.components.items()
        for name, given in named.items()
    }
    return _File(str(label), _flat(str(label), keys.runs), components, paper)


def _flat(label: str, entries: Mapping[str, RunKeys]) -> dict[str, dict[str, Value]]:
    """Entry → key → value, with a component's name and options side by side."""
    flat = {}
    for entry, keys in entries.items():
        values = _given(keys)
        for key in COMPONENTS.keys() & values.keys():
            component: ComponentKeys | None = values.pop(key)
            if component is None:
                values[key] = None
                continue
            values |= {key: component.name} if component.name else {}
            values |= {f"{key}.{option}": value for option, value in component.options.items()}
        flat[entry] = {key: Value(value, f"{label}: {entry}") for key, value in values.items()}
    return flat


def _given(keys: BaseModel) -> dict[str, Any]:
    return {name: value for name, value in keys if name in keys.model_fields_set}


def _lineage(run: str, entries: Mapping[str, RunKeys], seen: tuple[str, ...] = ()) -> list[str]:
    """The entries that make up a run, from the most general to its own."""
    if run in seen:
        raise VseppError(f"inherits from itself: {' → '.join([*seen, run])}")
    base = entries[run].base if "base" in entries[run].model_fields_set else None
    bases = [base] if isinstance(base, str) else list(base or ([] if run == "default" else ["default"]))
    lineage: list[str] = []
    for name in bases:
        if name not in entries:
            raise VseppError(f"base: got {name!r}, which is not an entry of any paper")
        lineage += [entry for entry in _lineage(name, entries, (*seen, run)) if entry not in lineage]
    return [*lineage, run]


def _resolve_runs(
    layers: _Layers, papers: Mapping[str, Paper], reproduced: Mapping[str, Paper], mistakes: Mistakes
) -> dict[str, dict[str, Value]]:
    entries = {name: keys for paper in papers.values() for name, keys in paper.entries.items()}
    for file in chain(*layers):
        known = papers[file.paper].entries if file.paper else entries
        for name in file.runs:
            if name not in known:
                of = f"{papers[file.paper].runs_file}" if file.paper else "any paper's runs.yaml"
                mistakes.add(f"{file.label}: runs.{name}", f"no such entry in {of}")
        for key, name in file.components:
            if name not in (there := known_components(COMPONENTS[key])):
                mistakes.add(
                    f"{file.label}: components.{key}.{name}",
                    f"no {COMPONENTS[key]} is named {name!r}; there are {', '.join(there)}",
                )
    runs = {}
    for paper in reproduced.values():
        for run, entry in paper.entries.items():
            if entry.abstract:
                continue
            place = f"{paper.runs_file}: runs.{run}"
            try:
                lineage = _lineage(run, entries)
            except VseppError as error:
                mistakes.add(place, str(error))
                continue
            runs[run] = _resolve_run(run, paper.name, lineage, layers, place, mistakes)
    return runs


def _resolve_run(
    run: str, paper: str, lineage: list[str], layers: _Layers, place: str, mistakes: Mistakes
) -> dict[str, Value]:
    values = {**_OPTIONAL}
    said = [_said(run, lineage, layer) for layer in layers]
    components = {**_UNNAMED, **{key: value for layer in said for key, value in layer if key in COMPONENTS}}
    # The component whose options come next: the one named last so far or, before any is named, the run's.
    meant = {key: named.value for key, named in components.items()}
    for layer, layer_said in zip(layers, said, strict=True):
        # A paper's values of components apply to its own runs alone.
        for file in (file for file in layer if file.paper in (None, paper)):
            for key, named in components.items():
                values |= file.components.get((key, named.value), {})
        for key, value in layer_said:
            of = key.partition(".")[0]
            if key in COMPONENTS:
                meant[key] = value.value
            elif of in COMPONENTS and meant.get(of) != components[of].value:
                continue
            values[key] = value
    for key, named in components.items():
        options = {
            name.partition(".")[2]: values.pop(name) for name in [*values] if name.startswith(f"{key}.")
        }
        if named.value is not None:
            values |= _with_options(key, named, options, f"runs.{run}.{key}", mistakes)
    if missing := sorted(set(RunKeys.model_fields) - set(values)):
        mistakes.add(place, f"no layer gives {', '.join(missing)}")
    return values


def _with_options(
    key: str, named: Value, given: Mapping[str, Value], where: str, mistakes: Mistakes
) -> dict[str, Value]:
    """A run's component and all its options, each with what set it."""
    kind = COMPONENTS[key]
    component = Component(named.value, {option: value.value for option, value in given.items()})
    if wrong := mistakes_in(kind, component):
        for option, what in wrong:
            mistakes.add(f"{given.get(option, named).origin}: {where}", what)
        return {key: named}
    default = f"default of {module_name(kind, named.value)}"
    options = {
        f"{key}.{option}": Value(value, given[option].origin if option in given else default)
        for option, value in all_options(kind, component).items()
    }
    return {key: Value(resolved(kind, component), named.origin), **options}


def _said(run: str, lineage: list[str], layer: list[_File]) -> list[tuple[str, Value]]:
    """Keys and values that a layer gives to a run, in order: a later value wins."""
    return [
        (key, value)
        for entry in lineage
        for file in layer
        for key, value in file.runs.get(entry, {}).items()
        if entry == run or key not in _NOT_INHERITED
    ]


def _resolve_corpora(fidelity: FidelityFile, preset: PresetFile) -> dict[str, CorpusKeys]:
    return {
        role: fidelity.corpora.get(role, CorpusKeys()).model_copy(update=_given(keys))
        for role, keys in preset.corpora.items()
        if keys is not None
    }
