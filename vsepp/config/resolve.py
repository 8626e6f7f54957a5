"""Inheritance and layers: from the files of `params/` and `--config` to one set of values for each run.

Order of precedence: base → run → fidelity → preset → `--config`. In every layer, an entry that a run inherits from
is applied before the entry of the run itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from vsepp.config.checks import check_corpora, check_released, check_runs, check_tables
from vsepp.config.files import Mistakes, Value, published_rows, read_yaml, validate
from vsepp.config.schema import (
    CorpusKeys,
    DatasetKeys,
    DatasetsFile,
    FidelityFile,
    PresetFile,
    ReleasedFile,
    ReleasedKeys,
    RunKeys,
    RunsFile,
    Settings,
    SourceKeys,
    TablesFile,
)
from vsepp.errors import VseppError

# These belong to the entry that names them; inheriting them would train or print a row twice.
_NOT_INHERITED = ("base", "abstract", "feeds")
HARMLESS = ("preset", "fidelity", "seeds", "label", "only", "archives", "resources", "sources")
"""Overriding these changes no result, so they need no label."""
_OPTIONAL = {"base": None, "abstract": False, "feeds": {}, "protocols": []}


@dataclass(frozen=True)
class Parameters:
    """All parameters of one invocation, resolved and checked."""

    settings: Settings
    preset: PresetFile
    sources: dict[str, SourceKeys]
    datasets: dict[str, DatasetKeys]
    corpora: dict[str, CorpusKeys]
    runs: dict[str, dict[str, Value]]
    """Selected runs: id → key → value."""
    all_runs: dict[str, dict[str, Value]]
    """Every run that `runs.yaml` declares."""
    possible_runs: tuple[str, ...]
    """Ids of the runs whose corpus and encoder the preset has, selected or not."""
    released: dict[str, ReleasedKeys]
    """Checkpoints of the authors, whether their files are there or not."""
    as_code: dict[str, dict[str, Value]]
    """The runs of the released checkpoints under the overlay `code`, which is how the authors trained them."""
    tables: TablesFile
    variant: str
    published: Path
    overrides: dict[str, Any] = field(default_factory=dict)

    def get(self, run: str, key: str) -> Any:
        """Value of one key of one run."""
        return self.all_runs[run][key].value


@dataclass(frozen=True)
class _Layer:
    label: str
    runs: Mapping[str, RunKeys]


def load(folder: Path, overrides: Mapping[str, Any] | None = None) -> Parameters:
    """Read and resolve `params/`.

    Parameters
    ----------
    folder
        The folder `params`.
    overrides
        What the command line gave: keys of `config.yaml`, or sections to change (`runs`, `corpora`, `encoders`,
        `evaluation`, `scenes`, `pretraining`, `resources`, `sources`, `datasets`, `tables`).

    Raises
    ------
    VseppError
        Listing all mistakes: file, run, key, value and what is accepted.
    """
    mistakes = Mistakes()
    overrides = _with_nulls(dict(overrides or {}))
    settings = _settings(folder, overrides, mistakes)
    sections = {key: value for key, value in overrides.items() if key not in Settings.model_fields}
    _check_sections(sections, mistakes)
    mistakes.raise_if_any()

    runs_path = folder / "runs.yaml"
    entries = validate(RunsFile, {"runs": read_yaml(runs_path, mistakes)}, str(runs_path), mistakes)
    fidelity_path = folder / "fidelity" / f"{settings.fidelity}.yaml"
    fidelity = validate(FidelityFile, read_yaml(fidelity_path, mistakes), str(fidelity_path), mistakes)
    code_path = folder / "fidelity" / "code.yaml"
    code = validate(FidelityFile, read_yaml(code_path, mistakes), str(code_path), mistakes)
    preset_path = folder / "presets" / f"{settings.preset}.yaml"
    preset = _preset(preset_path, sections, mistakes)
    datasets = _datasets(folder / "datasets.yaml", sections, mistakes)
    released_path = folder / "released.yaml"
    released = validate(
        ReleasedFile, {"released": read_yaml(released_path, mistakes)}, str(released_path), mistakes
    )
    tables_path = folder / "tables.yaml"
    tables = validate(TablesFile, read_yaml(tables_path, mistakes), str(tables_path), mistakes)
    published = folder / "published.csv"
    rows = published_rows(published, mistakes)
    override_runs = validate(RunsFile, {"runs": sections.get("runs", {})}, "--config", mistakes)
    mistakes.raise_if_any()
    # Else there were mistakes.
    assert entries and fidelity and code and preset and datasets and released and tables and override_runs

    layers = [
        _Layer(str(runs_path), entries.runs),
        _Layer(str(fidelity_path), fidelity.runs),
        _Layer(str(preset_path), preset.runs),
        _Layer("--config", override_runs.runs),
    ]
    all_runs = _resolve_runs(layers, mistakes)
    corpora = _resolve_corpora(fidelity, preset)
    mistakes.raise_if_any()
    check_corpora(corpora, preset, datasets, mistakes)
    check_runs(all_runs, str(runs_path), mistakes)
    check_tables(all_runs, rows, tables, preset, str(tables_path), mistakes)
    check_released(released.released, all_runs, str(released_path), mistakes)
    mistakes.raise_if_any()
    possible = {
        run: values for run, values in all_runs.items() if _possible(values, corpora, preset, datasets)
    }
    layers[1] = _Layer(str(code_path), code.runs)
    wanted = {keys.run for keys in released.released.values()}
    as_code = {run: values for run, values in _resolve_runs(layers, mistakes).items() if run in wanted}
    return Parameters(
        settings=settings,
        preset=preset,
        sources=datasets.sources,
        datasets=datasets.datasets,
        corpora=corpora,
        runs=_select(possible, settings),
        all_runs=all_runs,
        possible_runs=tuple(possible),
        released=released.released,
        as_code=as_code,
        tables=tables,
        variant=settings.label or settings.fidelity,
        published=published,
        overrides=sections,
    )


def _settings(folder: Path, overrides: dict[str, Any], mistakes: Mistakes) -> Settings:
    path = folder / "config.yaml"
    values = read_yaml(path, mistakes)
    validate(Settings, values, str(path), mistakes)
    given = {key: value for key, value in overrides.items() if key in Settings.model_fields}
    for key in ("only", "seeds"):  # `only=*-1c` and `seeds=3` on a command line are one-element lists
        if key in given and given[key] is not None and not isinstance(given[key], list):
            given[key] = [given[key]]
    settings = validate(Settings, {**values, **given}, "--config", mistakes)
    mistakes.raise_if_any()
    assert settings is not None
    if settings.archives is not None and not Path(settings.archives).is_dir():
        mistakes.add("archives", f"got {settings.archives!r}, which is no folder")
    changed = sorted(set(overrides) - set(HARMLESS))
    if changed and settings.label is None:
        mistakes.add(
            "--config",
            f"{', '.join(changed)} overridden without a label: add label=<name>, so that the results get a folder of "
            "their own and overwrite nothing",
        )
    if settings.label in ("paper", "code"):
        mistakes.add("--config: label", f"got {settings.label!r}, which names a fidelity; choose another")
    return settings


def _with_nulls(value: Any) -> Any:
    """Snakemake's `--config` gives the words inside mappings as text, `null` too."""
    if isinstance(value, Mapping):
        return {key: _with_nulls(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_nulls(item) for item in value]
    return None if value == "null" else value


def _check_sections(sections: Mapping[str, Any], mistakes: Mistakes) -> None:
    known = {*PresetFile.model_fields, *DatasetsFile.model_fields} - {"title", "data_note"}
    for key, value in sections.items():
        if key not in known:
            mistakes.add(
                f"--config: {key}",
                f"unknown key; known are {', '.join(sorted(known | set(Settings.model_fields)))}",
            )
        elif key != "tables" and not isinstance(value, dict):
            mistakes.add(
                f"--config: {key}",
                f"got {value!r}; expected keys and values, such as {key}='{{name: {{key: value}}}}'",
            )


def _preset(path: Path, sections: Mapping[str, Any], mistakes: Mistakes) -> PresetFile | None:
    content = read_yaml(path, mistakes)
    if not content:
        return None
    preset = validate(PresetFile, content, str(path), mistakes)
    changes = {
        key: value for key, value in sections.items() if key in PresetFile.model_fields and key != "runs"
    }
    if preset is None or not changes:
        return preset
    return validate(PresetFile, _merge(content, changes), "--config", mistakes)


def _datasets(path: Path, sections: Mapping[str, Any], mistakes: Mistakes) -> DatasetsFile | None:
    content = read_yaml(path, mistakes)
    datasets = validate(DatasetsFile, content, str(path), mistakes)
    changes = {key: value for key, value in sections.items() if key in DatasetsFile.model_fields}
    if datasets is None or not changes:
        return datasets
    return validate(DatasetsFile, _merge(content, changes), "--config", mistakes)


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`below` with the values of `above` on top, mapping by mapping."""
    merged = dict(below)
    for key, value in above.items():
        nested = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merge(merged[key], value) if nested else value
    return merged


def _given(keys: BaseModel) -> dict[str, Any]:
    return {name: getattr(keys, name) for name in keys.model_fields_set}


def _chain(run: str, entries: Mapping[str, RunKeys], seen: tuple[str, ...] = ()) -> list[str]:
    """The entries that make up a run, from the most general to its own."""
    if run in seen:
        raise VseppError(f"inherits from itself: {' → '.join([*seen, run])}")
    base = entries[run].base if "base" in entries[run].model_fields_set else None
    bases = [base] if isinstance(base, str) else list(base or ([] if run == "default" else ["default"]))
    chain: list[str] = []
    for name in bases:
        if name not in entries:
            raise VseppError(f"base: got {name!r}, which is no entry")
        chain += [entry for entry in _chain(name, entries, (*seen, run)) if entry not in chain]
    return [*chain, run]


def _resolve_runs(layers: list[_Layer], mistakes: Mistakes) -> dict[str, dict[str, Value]]:
    entries = layers[0].runs
    for layer in layers[1:]:
        for name in layer.runs:
            if name not in entries:
                mistakes.add(f"{layer.label}: runs.{name}", f"no such entry in {layers[0].label}")
    resolved = {}
    for run, entry in entries.items():
        try:
            chain = _chain(run, entries)
        except VseppError as error:
            mistakes.add(f"{layers[0].label}: runs.{run}", str(error))
            continue
        if entry.abstract:
            continue
        values = {key: Value(value, "default of the schema") for key, value in _OPTIONAL.items()}
        for layer in layers:
            for name in chain:
                for key, value in _given(layer.runs.get(name, RunKeys())).items():
                    if name == run or key not in _NOT_INHERITED:
                        values[key] = Value(value, f"{layer.label}: {name}")
        resolved[run] = values
        if missing := sorted(set(RunKeys.model_fields) - set(values)):
            mistakes.add(f"{layers[0].label}: runs.{run}", f"no layer gives {', '.join(missing)}")
    return resolved


def _resolve_corpora(fidelity: FidelityFile, preset: PresetFile) -> dict[str, CorpusKeys]:
    corpora = {}
    for role, keys in preset.corpora.items():
        layers = [fidelity.corpora.get(role, CorpusKeys()), keys]
        merged = CorpusKeys.model_validate(
            {key: value for layer in layers for key, value in _given(layer).items()}
        )
        corpora[role] = merged
    return corpora


def _possible(
    values: Mapping[str, Value], corpora: Mapping[str, CorpusKeys], preset: PresetFile, datasets: DatasetsFile
) -> bool:
    """Whether the preset has a run's data and encoder; published features come without images."""
    keys = corpora.get(values["dataset"].value)
    if keys is None or values["encoder"].value not in preset.encoders:
        return False
    crops = datasets.datasets[keys.dataset].crops
    return crops is None or values["trainset"].value.partition("+")[0] == crops


def _select(possible: dict[str, dict[str, Value]], settings: Settings) -> dict[str, dict[str, Value]]:
    """Runs that `only` names, with the runs they start from."""
    if settings.only is None:
        return possible
    wanted = {run for run in possible if any(fnmatch(run, pattern) for pattern in settings.only)}
    for pattern in settings.only:
        if not any(fnmatch(run, pattern) for run in possible):
            raise VseppError(
                f"only: {pattern!r} matches no run of preset {settings.preset}; there are {', '.join(possible)}"
            )
    wanted |= {start for run in wanted if (start := possible[run]["finetune_from"].value)}
    return {run: values for run, values in possible.items() if run in wanted}
