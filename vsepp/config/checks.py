"""What no single key can tell: whether runs, corpora, tables and released checkpoints fit each other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from vsepp.config.components import check_component
from vsepp.config.files import Mistakes, Value
from vsepp.config.papers import Paper
from vsepp.config.schema import CorpusKeys, DatasetKeys, DatasetsFile, PresetFile, RowKeys, Split, TableKeys
from vsepp.evaluation.folds import FOLDS

# A fine-tuned run goes on with the weights and the words of the run that it starts from.
_SHARED_WITH_START = (
    "trainset",
    "resize",
    "vocabulary_threshold",
    "caption_projection",
    "image_bias",
    "dataset",
    "encoder",
    "text",
    "joint_dim",
    "vocabulary",
)


def splits_of(keys: CorpusKeys, preset: PresetFile, datasets: Mapping[str, DatasetKeys]) -> tuple[Split, ...]:
    """Splits that a role's data have."""
    entry = datasets[keys.dataset]
    return tuple(preset.scenes.images[entry.generator]) if entry.generator and preset.scenes else entry.splits


def protocols_of(
    runs: Mapping[str, Mapping[str, Value]], papers: Mapping[str, Paper]
) -> dict[str, tuple[str, ...]]:
    """Run → protocols that it is evaluated under: its own, and those of the rows and figures that it is in."""
    found = {
        run: {*values["feeds"].value.values(), *values["protocols"].value} for run, values in runs.items()
    }
    for paper in papers.values():
        assert paper.tables is not None
        rows = [row for table in paper.tables.tables.values() for row in rows_of(table)]
        named = [(row.run, row.protocol) for row in rows if isinstance(row, RowKeys)]
        for figure in paper.tables.figures.values():
            if isinstance(figure.runs, dict):
                named += [(run, figure.protocol) for run in (*figure.runs.values(), figure.baseline)]
        for run, protocol in named:
            if run in found and protocol:
                found[run].add(protocol)
    return {run: tuple(sorted(protocols)) for run, protocols in found.items()}


def check_corpora(
    corpora: Mapping[str, CorpusKeys], preset: PresetFile, datasets: DatasetsFile, mistakes: Mistakes
) -> None:
    """Note data sets, files, generators and encoders that a preset names and nobody has."""
    for role, keys in corpora.items():
        entry = datasets.datasets.get(keys.dataset or "")
        if entry is None:
            known = ", ".join(sorted(datasets.datasets))
            mistakes.add(
                f"preset: corpora.{role}.dataset", f"got {keys.dataset!r}; datasets.yaml has {known}"
            )
        elif entry.generator and (preset.scenes is None or entry.generator not in preset.scenes.images):
            mistakes.add(
                f"preset: corpora.{role}",
                f"{keys.dataset} is generated in the layout {entry.generator}, but the preset's section `scenes` has no "
                "such layout",
            )
    for name, encoder in preset.encoders.items():
        if encoder is None:
            continue
        options = {option: Value(value, "preset") for option, value in encoder.options.items()}
        family = Value(encoder.architecture.partition("/")[0], "preset")
        check_component("image encoder", family, options, f"encoders.{name}", mistakes)
        if encoder.weights == "scenes" and preset.pretraining is None:
            mistakes.add(
                f"preset: encoders.{name}.weights",
                "got 'scenes', but the preset has no section `pretraining`",
            )
    for name, entry in datasets.datasets.items():
        for role, file in entry.files.items():
            if not entry.generator and file not in datasets.sources:
                mistakes.add(
                    f"datasets.yaml: datasets.{name}.files.{role}",
                    f"got {file!r}; expected an entry of `sources`: {', '.join(datasets.sources)}",
                )
        if (entry.reader.name == "precomp") != (entry.crops is not None):
            mistakes.add(
                f"datasets.yaml: datasets.{name}.crops",
                "the crops of published features: needed with reader precomp, and with no other",
            )
        for crops, other in entry.precomputed.items():
            if other not in datasets.datasets or datasets.datasets[other].crops != crops:
                mistakes.add(
                    f"datasets.yaml: datasets.{name}.precomputed.{crops}",
                    f"got {other!r}; expected an entry of published features with crops {crops}",
                )


def check_roles(
    runs: Mapping[str, Mapping[str, Value]],
    papers: Mapping[str, Paper],
    preset: PresetFile,
    preset_path: Path,
    mistakes: Mistakes,
) -> None:
    """Note roles that runs name and a preset neither fills nor leaves empty on purpose."""
    for key, section, filled in (
        ("dataset", "corpora", preset.corpora),
        ("encoder", "encoders", preset.encoders),
    ):
        for paper in papers.values():
            by_role: dict[str, list[str]] = {}
            for run in paper.entries:
                if run in runs and (role := runs[run][key].value) not in filled:
                    by_role.setdefault(role, []).append(run)
            for role, named in by_role.items():
                mistakes.add(
                    f"{paper.runs_file}: {key} {role}",
                    f"of {', '.join(named)}: {preset_path} says nothing of it; give {section}.{role} there, or "
                    f"`{role}: null` to leave these runs out",
                )


def check_runs(
    own: Mapping[str, Mapping[str, Value]],
    runs: Mapping[str, Mapping[str, Value]],
    protocols: Mapping[str, tuple[str, ...]],
    corpora: Mapping[str, CorpusKeys],
    preset: PresetFile,
    datasets: DatasetsFile,
    where: str,
    mistakes: Mistakes,
) -> None:
    """Note what no single key can tell of a paper's runs: starting points, dimensions, splits, rows fed twice."""
    feeders: dict[str, str] = {}
    for run, values in own.items():
        place = f"{where}: runs.{run}"
        if values["finetune_from"].value is not None:
            _check_start(run, values, runs, place, mistakes)
        if "text.dim" not in values:
            name = values["text"].value.name
            mistakes.add(
                f"{place}.text",
                f"text encoder {name} has no option `dim`, the size of its state; give it one",
            )
        elif values["text.dim"].value != values["joint_dim"].value and not values["caption_projection"].value:
            mistakes.add(
                f"{place}.joint_dim",
                f"got {values['joint_dim'].value} with a text encoder of dim {values['text.dim'].value}; they must be equal "
                "without caption_projection",
            )
        if not protocols[run]:
            mistakes.add(
                f"{place}.protocols", "got none and feeds no row; name the protocols to evaluate it under"
            )
        if keys := corpora.get(values["dataset"].value):
            _check_data(values, protocols[run], keys, preset, datasets, place, mistakes)
        for row in values["feeds"].value:
            if row in feeders:
                mistakes.add(f"{place}.feeds", f"row {row} is fed by {feeders[row]} already")
            feeders[row] = run


def _check_start(
    run: str,
    values: Mapping[str, Value],
    runs: Mapping[str, Mapping[str, Value]],
    place: str,
    mistakes: Mistakes,
) -> None:
    """Note a run that cannot be fine-tuned from where it says."""
    start = values["finetune_from"].value
    if start not in runs or start == run:
        mistakes.add(
            f"{place}.finetune_from",
            f"got {start!r}; expected the id of another run of a paper that is reproduced",
        )
    elif runs[start]["finetune_from"].value is not None:
        mistakes.add(f"{place}.finetune_from", f"{start} is fine-tuned itself; expected a frozen run")
    else:
        for key in _SHARED_WITH_START:
            if runs[start][key].value != values[key].value:
                mistakes.add(
                    f"{place}.{key}",
                    f"got {values[key].value!r}, but {start}, which it starts from, has {runs[start][key].value!r}",
                )
    if not values["trainset"].value.startswith("RC"):
        mistakes.add(
            f"{place}.trainset",
            f"got {values['trainset'].value!r}; a fine-tuned run needs images: RC or RC+rV",
        )


def _check_data(
    values: Mapping[str, Value],
    protocols: tuple[str, ...],
    keys: CorpusKeys,
    preset: PresetFile,
    datasets: DatasetsFile,
    place: str,
    mistakes: Mistakes,
) -> None:
    """Note a training set and protocols that a role's data cannot serve: found here, and not after the last training."""
    entry = datasets.datasets[keys.dataset]
    if "+rV" in values["trainset"].value and "restval" not in splits_of(keys, preset, datasets.datasets):
        mistakes.add(
            f"{place}.trainset",
            f"got {values['trainset'].value!r}; {keys.dataset} has no restval images (rV)",
        )
    images = dict(entry.expected_images)
    if entry.generator and preset.scenes:
        images = dict(preset.scenes.images[entry.generator])
    for split, first in (keys.first_images or {}).items():
        images[split] = min(first, images.get(split, first))
    for protocol in protocols:
        folds = FOLDS.get(protocol, 0)
        if "test" in images and images["test"] < folds * preset.evaluation.fold_size:
            mistakes.add(
                "evaluation.fold_size",
                f"got {preset.evaluation.fold_size}; protocol {protocol} needs {folds} such folds, more than the "
                f"{images['test']} test images of {keys.dataset} ({place})",
            )


def check_tables(
    paper: Paper,
    own: Mapping[str, Mapping[str, Value]],
    runs: Mapping[str, Mapping[str, Value]],
    papers: Mapping[str, Paper],
    preset: PresetFile,
    mistakes: Mistakes,
) -> None:
    """Note rows and runs that a paper's tables name and nobody has, and trained rows that no run feeds."""
    assert paper.tables is not None
    fed = {row for values in own.values() for row in values["feeds"].value}
    for run, values in own.items():
        for row in sorted(set(values["feeds"].value) - set(paper.rows)):
            mistakes.add(f"{paper.runs_file}: runs.{run}.feeds", f"row {row} is not in {paper.published}")
    for name, table in paper.tables.tables.items():
        place = f"{paper.tables_file}: tables.{name}"
        for row in rows_of(table):
            if isinstance(row, RowKeys):
                _check_named(row.run, place, runs, papers, mistakes)
            number = row.row if isinstance(row, RowKeys) else row
            if number is not None and number not in paper.rows:
                mistakes.add(place, f"row {number} is not in {paper.published}")
            elif isinstance(row, str) and paper.rows[row] == "trained" and row not in fed:
                mistakes.add(place, f"row {row} is trained here, but no run feeds it")
    for name, figure in paper.tables.figures.items():
        named = list(figure.runs.values() if isinstance(figure.runs, dict) else figure.runs)
        for run in [*named, *([figure.baseline] if figure.baseline else [])]:
            _check_named(run, f"{paper.tables_file}: figures.{name}", runs, papers, mistakes)
    for name in preset.tables.get(paper.name, []):
        if name not in paper.tables.tables and name not in paper.tables.figures:
            known = ", ".join([*paper.tables.tables, *paper.tables.figures])
            mistakes.add(f"preset: tables.{paper.name}", f"got {name!r}; {paper.tables_file} has {known}")


def rows_of(table: TableKeys) -> list[str | RowKeys]:
    """Rows of a table, group after group."""
    return [row for group in table.groups for row in group.rows]


def _check_named(
    run: str,
    place: str,
    runs: Mapping[str, object],
    papers: Mapping[str, Paper],
    mistakes: Mistakes,
) -> None:
    """Note a run that a row or figure names and that is not trained."""
    if run in runs:
        return
    owner = next((other for other in papers.values() if run in other.entries), None)
    if owner is None:
        mistakes.add(place, f"{run} is no run of any paper")
    elif owner.entries[run].abstract:
        mistakes.add(place, f"{run} is abstract: it is only inherited from")
    else:
        mistakes.add(
            place,
            f"{run} is a run of {owner.runs_file}, which is not reproduced; add {owner.name} to `papers`",
        )


def check_released(paper: Paper, runs: Mapping[str, object], mistakes: Mistakes) -> None:
    """Note checkpoints that name no run, or whose name a run has."""
    where = paper.folder / "released.yaml"
    for name, keys in paper.released.items():
        if keys.run not in runs:
            mistakes.add(f"{where}: {name}.run", f"got {keys.run!r}; expected the id of a run")
        if name in runs:
            mistakes.add(f"{where}: {name}", "is the id of a run already; choose another name")
