"""What no single key can tell: whether runs, corpora, tables and released checkpoints fit each other."""

from __future__ import annotations

from collections.abc import Mapping

from vsepp.config.files import Mistakes, Value
from vsepp.config.schema import CorpusKeys, DatasetsFile, PresetFile, ReleasedKeys, TablesFile

# A fine-tuned run goes on with the weights and the words of the run that it starts from.
_SHARED_WITH_START = (
    "trainset",
    "resize",
    "vocabulary_threshold",
    "caption_projection",
    "image_bias",
    "dataset",
    "encoder",
    "text_encoder",
    "word_dim",
    "text_dim",
    "joint_dim",
    "vocabulary",
)


def check_corpora(
    corpora: Mapping[str, CorpusKeys], preset: PresetFile, datasets: DatasetsFile, mistakes: Mistakes
) -> None:
    """Note data sets, files and generators that a preset names and nobody has."""
    for role, keys in corpora.items():
        entry = datasets.datasets.get(keys.dataset or "")
        if entry is None:
            known = ", ".join(sorted(datasets.datasets))
            mistakes.add(
                f"preset: corpora.{role}.dataset", f"got {keys.dataset!r}; datasets.yaml has {known}"
            )
            continue
        if entry.generator and preset.scenes is None:
            mistakes.add(
                f"preset: corpora.{role}",
                f"{keys.dataset} is generated, but the preset has no section `scenes`",
            )
        _check_fold(role, keys, preset, datasets, mistakes)
    for name, encoder in preset.encoders.items():
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
        if (entry.reader == "precomp") != (entry.crops is not None):
            mistakes.add(
                f"datasets.yaml: datasets.{name}.crops",
                "the crops of published features: needed with reader precomp, and with no other",
            )
        for crops, other in entry.precomputed.items():
            if other not in datasets.datasets or datasets.datasets[other].crops != crops:
                mistakes.add(
                    f"datasets.yaml: datasets.{name}.precomputed.{crops}",
                    f"got {other!r}; expected an entry with reader precomp and crops {crops}",
                )


def _check_fold(
    role: str, keys: CorpusKeys, preset: PresetFile, datasets: DatasetsFile, mistakes: Mistakes
) -> None:
    """Note a fold that the test set cannot fill: found here, and not after the last training."""
    entry = datasets.datasets[keys.dataset]
    images = dict(entry.expected_images)
    if entry.generator and preset.scenes:
        images = dict(preset.scenes.images.get(entry.generator, {}))
    for split, first in (keys.first_images or {}).items():
        images[split] = min(first, images.get(split, first))
    folds = 5 if role == "coco" else 1
    if "test" in images and images["test"] < folds * preset.evaluation.fold_size:
        mistakes.add(
            "evaluation.fold_size",
            f"got {preset.evaluation.fold_size}; {folds} such folds need more than the {images['test']} test images "
            f"of {keys.dataset}",
        )


def check_runs(runs: Mapping[str, Mapping[str, Value]], where: str, mistakes: Mistakes) -> None:
    """Note what no single key can tell: starting points, dimensions, rows that are fed twice."""
    feeders: dict[str, str] = {}
    for run, values in runs.items():
        place = f"{where}: runs.{run}"
        start = values["finetune_from"].value
        if start is not None:
            if start not in runs or start == run:
                mistakes.add(f"{place}.finetune_from", f"got {start!r}; expected the id of another run")
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
        if values["text_dim"].value != values["joint_dim"].value and not values["caption_projection"].value:
            mistakes.add(
                f"{place}.joint_dim",
                f"got {values['joint_dim'].value} with text_dim {values['text_dim'].value}; they must be equal without caption_projection",
            )
        if "+rV" in values["trainset"].value and values["dataset"].value != "coco":
            mistakes.add(
                f"{place}.trainset", f"got {values['trainset'].value!r}; only COCO has restval images (rV)"
            )
        if not values["feeds"].value and not values["protocols"].value:
            mistakes.add(
                f"{place}.protocols", "got none and feeds no row; name the protocols to evaluate it under"
            )
        for row in values["feeds"].value:
            if row in feeders:
                mistakes.add(f"{place}.feeds", f"row {row} is fed by {feeders[row]} already")
            feeders[row] = run


def check_tables(
    runs: Mapping[str, Mapping[str, Value]],
    rows: Mapping[str, str],
    tables: TablesFile,
    preset: PresetFile,
    where: str,
    mistakes: Mistakes,
) -> None:
    """Note rows and runs that the tables name and nobody has, and trained rows that no run feeds."""
    fed = {row for values in runs.values() for row in values["feeds"].value}
    for run, values in runs.items():
        for row in sorted(set(values["feeds"].value) - set(rows)):
            mistakes.add(f"params/runs.yaml: runs.{run}.feeds", f"row {row} is not in published.csv")
    for name, table in tables.tables.items():
        for row in (row for group in table.groups for row in group.rows):
            if row not in rows:
                mistakes.add(f"{where}: tables.{name}", f"row {row} is not in published.csv")
            elif rows[row] == "trained" and row not in fed:
                mistakes.add(f"{where}: tables.{name}", f"row {row} is trained here, but no run feeds it")
    for name, figure in tables.figures.items():
        named = list(figure.runs.values() if isinstance(figure.runs, dict) else figure.runs)
        for run in [*named, *([figure.baseline] if figure.baseline else [])]:
            if run not in runs:
                mistakes.add(f"{where}: figures.{name}", f"{run} is no run")
    for name in preset.tables:
        if name not in tables.tables and name not in tables.figures:
            known = ", ".join([*tables.tables, *tables.figures])
            mistakes.add("preset: tables", f"got {name!r}; tables.yaml has {known}")


def check_released(
    released: Mapping[str, ReleasedKeys],
    runs: Mapping[str, Mapping[str, Value]],
    where: str,
    mistakes: Mistakes,
) -> None:
    """Note checkpoints that name no run, or whose name a run has."""
    for name, keys in released.items():
        if keys.run not in runs:
            mistakes.add(f"{where}: {name}.run", f"got {keys.run!r}; expected an id of runs.yaml")
        if name in runs:
            mistakes.add(f"{where}: {name}", "is the id of a run already; choose another name")
