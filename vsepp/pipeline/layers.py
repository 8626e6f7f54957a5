"""Inheritance and layers: from the files of `params/` and `--config` to one set of values for each run.

Order of precedence: base → run → fidelity → preset → `--config`. In every layer, an entry that a run inherits from
is applied before the entry of the run itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel

from vsepp.base.components import known as known_components
from vsepp.base.components import refused_options, resolved
from vsepp.base.errors import VseppError, did_you_mean
from vsepp.base.files import is_there
from vsepp.base.run_spec import COMPONENTS
from vsepp.base.spec import Component
from vsepp.pipeline.checks import check
from vsepp.pipeline.files import Mistakes, read_model, read_yaml, validate
from vsepp.pipeline.papers import Entries, Paper, bases_of, owners_of_entries, read_papers
from vsepp.pipeline.parameters import HARMLESS, Origins, Parameters
from vsepp.pipeline.settings import (
    CorpusOfRole,
    DatasetsFile,
    FidelityFile,
    Overlay,
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
    "label": "label=mine, no number",
    "only": "'only=[coco-vse0-1c,flickr-*]'",
    "archives": "archives=/data/flickr8k",
}
"""Key of `config.yaml` → how it is given as `--config`."""
_UNNAMED = {key.name: key.default for key in fields(RunKeys) if key.name in COMPONENTS}
"""Key → component of the runs that name none; `MISSING` where one must be named."""
_REQUIRED = {key.name for key in fields(RunKeys) if key.default is key.default_factory is MISSING}


class _File(NamedTuple):
    label: str
    content: Overlay
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
        `encoders`, `evaluation`, `scenes`, `resources`, `sources`, `datasets`, `tables`).

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

    owners = owners_of_entries(folder / "papers")
    papers, parsed = read_papers(folder / "papers", settings.papers, owners, mistakes)
    owners |= {entry: paper.runs_file for paper in parsed.values() for entry in paper.entries}
    # The chosen fidelity, and `code`, which released models follow.
    fidelities: dict[str, FidelityFile] = {
        name: file
        for name in dict.fromkeys((settings.fidelity, "code"))
        if (file := read_model(FidelityFile, folder / "fidelity" / f"{name}.yaml", mistakes))
    }
    preset_path = folder / "presets" / f"{settings.preset}.yaml"
    preset = _merged(PresetFile, preset_path, sections, mistakes, but=("runs", "components"))
    datasets = _merged(DatasetsFile, folder / "datasets.yaml", sections, mistakes)
    overlay: dict[str, Any] = {key: sections[key] for key in ("runs", "components") if key in sections}
    override = validate(Overlay, overlay, "--config", mistakes)
    mistakes.raise_if_any()
    assert preset and datasets and override  # else there were mistakes

    def layers(fidelity: str) -> _Layers:
        own = [paper for paper in parsed.values() if paper.fidelity]
        return [
            [_File(str(paper.runs_file), paper.runs) for paper in parsed.values()],
            [_File(str(folder / "fidelity" / f"{fidelity}.yaml"), fidelities[fidelity])],
            [
                _File(str(paper.folder / "fidelity.yaml"), paper.fidelity[fidelity], paper.name)
                for paper in own
            ],
            [_File(str(preset_path), preset)],
            [_File("--config", override)],
        ]

    all_runs, origins = _resolve_runs(layers(settings.fidelity), parsed, papers, owners, mistakes)
    mistakes.raise_if_any()
    released = any(paper.released for paper in papers.values())
    parameters = Parameters(
        folder=folder,
        settings=settings,
        preset=preset,
        papers=papers,
        sources=datasets.sources,
        datasets=datasets.datasets,
        corpora=_resolve_corpora(fidelities[settings.fidelity], preset),
        all_runs=all_runs,
        origins=origins,
        as_code=_resolve_runs(layers("code"), parsed, papers, owners, mistakes)[0] if released else {},
        overrides=sections,
    )
    check(parameters, owners, mistakes)
    return parameters


def _settings(folder: Path, overrides: Mapping[str, Any], mistakes: Mistakes) -> Settings:
    values = dict(overrides)
    # `only=*-1c` and `papers=goal` on a command line are one-element lists; `seeds=3` could mean three seeds.
    for key in ("only", "papers"):
        if isinstance(values.get(key), str):
            values[key] = [values[key]]
    settings = _merged(Settings, folder / "config.yaml", values, mistakes)
    mistakes.messages = [_with_the_way_to_write_it(message) for message in mistakes.messages]
    mistakes.raise_if_any()
    archives = Path(settings.archives or ".")
    if not (is_there(archives) and archives.is_dir()):
        where = "--config" if "archives" in values else folder / "config.yaml"
        what = "which is no folder; expected the folder that holds the downloaded files, packed or unpacked"
        mistakes.add(f"{where}: archives", f"got {settings.archives!r}, {what}")
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
    if content is None:
        return None
    unchanged = validate(model, content, str(path), mistakes)
    changes = {key: value for key, value in sections.items() if key in model.model_fields and key not in but}
    if unchanged is None or not changes:
        return unchanged
    return validate(model, _merge(content, changes), "--config", mistakes)


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`below` with the values of `above` on top, mapping by mapping."""
    merged = dict(below)
    for key, value in above.items():
        nested = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merge(merged[key], value) if nested else value
    return merged


def _lineage(run: str, entries: Mapping[str, Mapping[str, Any]], seen: tuple[str, ...] = ()) -> list[str]:
    """The entries that make up a run, from the most general to its own."""
    if run in seen:
        raise VseppError(f"inherits from itself: {' → '.join([*seen, run])}")
    lineage: list[str] = []
    for name in bases_of(run, entries[run]):
        if name not in entries:
            raise VseppError(f"base: got {name!r}, which is not an entry of any paper")
        lineage += [entry for entry in _lineage(name, entries, (*seen, run)) if entry not in lineage]
    return [*lineage, run]


def _check_names(
    layers: _Layers, parsed: Mapping[str, Entries], owners: Mapping[str, Path], mistakes: Mistakes
) -> None:
    """Note entries and components that a layer names and that do not exist."""
    for file in chain(*layers):
        known = parsed[file.paper].entries if file.paper else owners
        for name in file.content.runs:
            if name not in known:
                where = f"{parsed[file.paper].runs_file}" if file.paper else "any paper's runs.yaml"
                mistakes.add(f"{file.label}: runs.{name}", f"no such entry in {where}")
        for key, components in file.content.components.items():
            for name in components:
                if name not in (existing := known_components(COMPONENTS[key])):
                    mistakes.add(
                        f"{file.label}: components.{key}.{name}",
                        f"no {COMPONENTS[key]} is named {name!r}; there are {', '.join(existing)}",
                    )


def _resolve_runs(
    layers: _Layers,
    parsed: Mapping[str, Entries],
    papers: Mapping[str, Paper],
    owners: Mapping[str, Path],
    mistakes: Mistakes,
) -> tuple[dict[str, RunKeys], dict[str, Origins]]:
    _check_names(layers, parsed, owners, mistakes)
    entries = {name: keys for paper in parsed.values() for name, keys in paper.entries.items()}
    runs, origins = {}, {}
    for paper in papers.values():
        for run, entry in paper.entries.items():
            if entry.get("abstract"):
                continue
            place = f"{paper.runs_file}: runs.{run}"
            try:
                lineage = _lineage(run, entries)
            except VseppError as error:
                mistakes.add(place, str(error))
                continue
            values, origins[run] = _merge_layers(run, paper.name, lineage, layers)
            _resolve_components(run, values, origins[run], mistakes)
            if missing := sorted(_REQUIRED - values.keys()):
                mistakes.add(place, f"no layer gives {', '.join(missing)}")
            else:
                runs[run] = RunKeys(**values)
    return runs, origins


def _merge_layers(
    run: str, paper: str, lineage: list[str], layers: _Layers
) -> tuple[dict[str, Any], Origins]:
    """A run's values as all layers together give them, and where each was set."""
    changes_of_layers = [_changes(run, lineage, layer) for layer in layers]
    named = {key: getattr(component, "name", None) for key, component in _UNNAMED.items()}
    named |= {
        key: value["name"]
        for key, value, _ in chain(*changes_of_layers)
        if key in COMPONENTS and "name" in value
    }
    values: dict[str, Any] = {key: Component(name) for key, name in named.items() if name is not None}
    origins: Origins = {}
    # The component whose options come next: the one named last so far or, before any is named, the run's.
    meant = dict(named)
    for layer, changes in zip(layers, changes_of_layers, strict=True):
        # A paper's values of components apply to its own runs alone.
        options = [
            (key, defaults, f"{file.label}: components.{key}.{name}")
            for file in layer
            if file.paper in (None, paper)
            for key, name in named.items()
            if (defaults := file.content.components.get(key, {}).get(name or ""))
        ]
        for key, value, origin in changes:
            if key not in COMPONENTS:
                values[key], origins[key,] = value, origin
                continue
            if "name" in value:
                meant[key], origins[key,] = value["name"], origin
            if meant[key] == named[key]:
                named_options = {option: setting for option, setting in value.items() if option != "name"}
                options.append((key, named_options, origin))
        for key, new_options, origin in options:
            if key in values:
                values[key].options.update(new_options)
                origins.update({(key, option): origin for option in new_options})
    return values, origins


def _changes(run: str, lineage: list[str], layer: list[_File]) -> list[tuple[str, Any, str]]:
    """Keys and values that a layer gives to a run and where, in order: a later value wins. Components as mappings."""
    return [
        (
            key,
            {"name": value} if key in COMPONENTS and not isinstance(value, dict) else value,
            f"{file.label}: {entry}",
        )
        for entry in lineage
        for file in layer
        for key, value in file.content.runs.get(entry, {}).items()
        if entry == run or key not in _NOT_INHERITED
    ]


def _resolve_components(run: str, values: dict[str, Any], origins: Origins, mistakes: Mistakes) -> None:
    """Check the options of a run's components, and leave out those that equal their default."""
    for key in COMPONENTS.keys() & values.keys():
        try:
            refused = refused_options(COMPONENTS[key], values[key])
        except VseppError as error:
            refused = {"": str(error)}
        for option, what in refused.items():
            origin = origins.get((key, option)) or origins.get((key,), "default")
            mistakes.add(f"{origin}: runs.{run}.{key}", what)
        if not refused:
            values[key] = resolved(COMPONENTS[key], values[key])


def _resolve_corpora(fidelity: FidelityFile, preset: PresetFile) -> dict[str, CorpusOfRole]:
    return {
        role: fidelity.corpora.get(role, CorpusOfRole()).model_copy(
            update=keys.model_dump(exclude_unset=True)
        )
        for role, keys in preset.corpora.items()
        if keys is not None
    }
