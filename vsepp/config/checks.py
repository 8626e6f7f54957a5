"""What no single key can tell: whether runs, corpora, tables and released checkpoints fit each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch

from vsepp.config.component_options import check_entry
from vsepp.config.files import Mistakes, Value
from vsepp.config.papers import Paper
from vsepp.config.parameters import Parameters
from vsepp.config.schema import FigureKeys
from vsepp.declared import FOLDS
from vsepp.errors import did_you_mean
from vsepp.models import unmade_inputs
from vsepp.reporting.figures import kind_of

# A fine-tuned run goes on with the weights and the words of the run that it starts from.
_SHARED_WITH_START = (
    "trainset",
    "resize",
    "vocabulary_threshold",
    "caption_projection",
    "image_bias",
    "image_head",
    "dataset",
    "encoder",
    "text",
    "joint_dim",
    "vocabulary",
)


def check(parameters: Parameters, papers: Mapping[str, Paper], mistakes: Mistakes) -> None:
    """Check parameters against each other: first that all names exist, then that what they name fits together.

    Parameters
    ----------
    parameters
        Resolved, not yet selected from.
    papers
        All there are, reproduced or not.
    mistakes
        Collects what is wrong and raises it.
    """
    _check_preset(parameters, mistakes)
    _check_datasets(parameters, mistakes)
    _check_roles(parameters, mistakes)
    mistakes.raise_if_any()
    _check_only(parameters, mistakes)
    for paper in parameters.papers.values():
        _check_runs(paper, parameters, mistakes)
        _check_tables(paper, parameters, papers, mistakes)
        _check_claims(paper, parameters, papers, mistakes)
        _check_released(paper, parameters.all_runs, mistakes)
    mistakes.raise_if_any()


def _check_preset(parameters: Parameters, mistakes: Mistakes) -> None:
    """Note data sets, generators, encoders and options that a preset names and that do not exist."""
    preset, datasets = parameters.preset, parameters.datasets
    for role, keys in parameters.corpora.items():
        place = f"{parameters.place('corpora')}: corpora.{role}"
        entry = datasets.get(keys.dataset or "")
        if entry is None:
            known = ", ".join(sorted(datasets))
            mistakes.add(f"{place}.dataset", f"got {keys.dataset!r}; datasets.yaml has {known}")
        elif entry.generator and (preset.scenes is None or entry.generator not in preset.scenes.images):
            mistakes.add(
                place,
                f"{keys.dataset} is generated in the layout {entry.generator}, but the preset's section `scenes` has no "
                "such layout",
            )
    for name, encoder in preset.encoders.items():
        where = f"{parameters.place('encoders')}: encoders.{name}"
        if encoder is not None and encoder.weights == "scenes" and preset.pretraining is None:
            mistakes.add(f"{where}.weights", "got 'scenes', but the preset has no section `pretraining`")
        if encoder is not None and encoder.input_size > encoder.store_side:
            size, side = encoder.input_size, encoder.store_side
            mistakes.add(f"{where}.input_size", f"got {size}; images of a side of {side} have no such crop")


def _check_datasets(parameters: Parameters, mistakes: Mistakes) -> None:
    """Note files, crops and published features that an entry of datasets.yaml names and that do not exist."""
    datasets, sources = parameters.datasets, parameters.sources
    for name, entry in datasets.items():
        place = f"{parameters.place('datasets')}: datasets.{name}"
        for role, file in entry.files.items():
            if not entry.generator and file not in sources:
                mistakes.add(
                    f"{place}.files.{role}",
                    f"got {file!r}; expected an entry of `sources`: {', '.join(sources)}",
                )
        if (entry.reader.name == "precomp") != (entry.crops is not None):
            mistakes.add(
                f"{place}.crops",
                "required by the reader precomp (crops of the published features), not allowed with any other reader",
            )
        for crops, other in entry.precomputed.items():
            if other not in datasets or datasets[other].crops != crops:
                mistakes.add(
                    f"{place}.precomputed.{crops}",
                    f"got {other!r}; expected an entry of published features with crops {crops}",
                )


def _check_roles(parameters: Parameters, mistakes: Mistakes) -> None:
    """Note roles that a paper names and that a preset neither fills nor sets to null."""
    for paper in parameters.papers.values():
        for where, section, role, who in _roles(paper, parameters):
            if role not in getattr(parameters.preset, section):
                mistakes.add(
                    where,
                    f"{who}: {parameters.preset_file} says nothing of it; give {section}.{role} there, or `{role}: null` to "
                    "leave out what names it",
                )


def _roles(paper: Paper, parameters: Parameters) -> Iterator[tuple[str, str, str, str]]:
    """Where a paper names a role, the section of a preset that fills it, the role, and what names it."""
    assert paper.tables is not None
    for key, section in (("dataset", "corpora"), ("encoder", "encoders")):
        runs: dict[str, list[str]] = {}
        for run, values in parameters.of(paper).items():
            runs.setdefault(values[key].value, []).append(run)
        for role, named in runs.items():
            yield f"{paper.runs_file}: {key} {role}", section, role, f"of {', '.join(named)}"
    encoder = paper.tables.default_encoder
    yield f"{paper.tables_file}: default_encoder", "encoders", encoder, f"got {encoder!r}"
    for part, entries in (("tables", paper.tables.tables), ("figures", paper.tables.figures)):
        for name, entry in entries.items():
            if entry.dataset:
                where = f"{paper.tables_file}: {part}.{name}.dataset"
                yield where, "corpora", entry.dataset, f"got {entry.dataset!r}"


def _check_only(parameters: Parameters, mistakes: Mistakes) -> None:
    """Note patterns that choose no run."""
    possible = parameters.possible_runs
    for pattern in parameters.settings.only or ():
        if not any(fnmatch(run, pattern) for run in possible):
            mistakes.add(
                "only",
                f"{pattern!r} matches no run of preset {parameters.settings.preset}; there are {', '.join(possible)}"
                + did_you_mean(pattern, possible),
            )


def _check_runs(paper: Paper, parameters: Parameters, mistakes: Mistakes) -> None:
    """Note what no single key can tell of a paper's runs: starting points, dimensions, splits, rows fed twice."""
    feeders: dict[str, str] = {}
    for run, values in parameters.of(paper).items():
        place = f"{paper.runs_file}: runs.{run}"
        if values["finetune_from"].value is not None:
            _check_start(run, values, parameters, place, mistakes)
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
        for key, said in unmade_inputs(values["image_head"].value, values["text"].value).items():
            mistakes.add(f"{place}.{key}", said)
        if not parameters.protocols[run]:
            mistakes.add(
                f"{place}.protocols",
                "got none, and the run feeds no row; name the protocols to evaluate it under",
            )
        if values["dataset"].value in parameters.corpora:
            _check_data(values, parameters.protocols[run], parameters, place, mistakes)
        for row in values["feeds"].value:
            if row in feeders:
                mistakes.add(f"{place}.feeds", f"row {row} is already fed by {feeders[row]}")
            feeders[row] = run


def _check_start(
    run: str,
    values: Mapping[str, Value],
    parameters: Parameters,
    place: str,
    mistakes: Mistakes,
) -> None:
    """Note a run that cannot be fine-tuned from the run that it names."""
    start, runs = values["finetune_from"].value, parameters.all_runs
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
        if missing := sorted(set(parameters.seeds(run)) - set(parameters.seeds(start))):
            mistakes.add(f"{place}.seeds", f"{start}, which it starts from, has no seed {missing[0]}")
    if not values["trainset"].value.startswith("RC"):
        mistakes.add(
            f"{place}.trainset",
            f"got {values['trainset'].value!r}; a fine-tuned run needs images: RC or RC+rV",
        )


def _check_data(
    values: Mapping[str, Value],
    protocols: tuple[str, ...],
    parameters: Parameters,
    place: str,
    mistakes: Mistakes,
) -> None:
    """Note a training set and protocols that a role's data cannot serve: noted before anything is trained."""
    role, fold_size = values["dataset"].value, parameters.preset.evaluation.fold_size
    keys = parameters.corpora[role]
    images = parameters.images(keys.dataset)
    if "+rV" in values["trainset"].value and "restval" not in parameters.splits(keys.dataset):
        mistakes.add(
            f"{place}.trainset",
            f"got {values['trainset'].value!r}; {keys.dataset} has no restval images (rV)",
        )
    for split, first in (keys.first_images or {}).items():
        images[split] = min(first, images.get(split, first))
    for protocol in protocols:
        folds = FOLDS.get(protocol, 0)
        if "test" in images and images["test"] < folds * fold_size:
            mistakes.add(
                f"{parameters.place('evaluation')}: evaluation.fold_size",
                f"got {fold_size}; protocol {protocol} needs {folds} such folds, more than the {images['test']} test images "
                f"of {keys.dataset} ({place})",
            )


def _check_tables(
    paper: Paper, parameters: Parameters, papers: Mapping[str, Paper], mistakes: Mistakes
) -> None:
    """Note what a paper's tables and figures, and a preset's choice of them, name and nobody has."""
    assert paper.tables is not None
    for run, values in parameters.of(paper).items():
        for row in sorted(set(values["feeds"].value) - set(paper.rows)):
            mistakes.add(f"{paper.runs_file}: runs.{run}.feeds", f"row {row} is not in {paper.published}")
    _check_rows(paper, parameters, papers, mistakes)
    for label, runs in paper.tables.tuned.items():
        for run in runs:
            _check_named(run, f"{paper.tables_file}: tuned.{label}", parameters.all_runs, papers, mistakes)
    for name, figure in paper.tables.figures.items():
        where = f"{paper.tables_file}: figures.{name}"
        for run in figure.named:
            _check_named(run, where, parameters.all_runs, papers, mistakes)
        _check_kind(figure, where, paper, mistakes)
    names = [*paper.tables.tables, *paper.tables.figures]
    for name in parameters.preset.tables.get(paper.name, []):
        if name not in names:
            where = f"{parameters.place('tables')}: tables.{paper.name}"
            mistakes.add(where, f"got {name!r}; {paper.tables_file} has {', '.join(names)}")


def _check_rows(
    paper: Paper, parameters: Parameters, papers: Mapping[str, Paper], mistakes: Mistakes
) -> None:
    """Note rows of tables that name no run, tuned method or published row, and trained rows that no run feeds."""
    assert paper.tables is not None
    feeders = parameters.feeders(paper)
    for name, table in paper.tables.tables.items():
        where = f"{paper.tables_file}: tables.{name}"
        for row in table.rows:
            if isinstance(row, str):
                published: str | None = row
                if paper.rows.get(row) == "trained" and row not in feeders:
                    mistakes.add(where, f"row {row} is trained here, but no run feeds it")
            else:
                published = row.row
                if row.run:
                    _check_named(row.run, where, parameters.all_runs, papers, mistakes)
                else:
                    _check_tuned([row.tuned or ""], where, paper, mistakes)
            if published is not None and published not in paper.rows:
                mistakes.add(where, f"row {published} is not in {paper.published}")


def _check_kind(figure: FigureKeys, where: str, paper: Paper, mistakes: Mistakes) -> None:
    """Note options and losses that a kind of figure does not take."""
    kind = kind_of(figure.kind.name)
    if kind.runs == "tuned":
        _check_tuned(figure.labels, f"{where}.labels", paper, mistakes)
    check_entry("figure", figure.kind.name, figure.kind.options, where, "kind", mistakes)
    for loss in figure.losses:
        options = check_entry("loss", loss.name, loss.options, where, "losses", mistakes)
        missing = [option for option in kind.losses_need if options and option not in options]
        for option in missing:
            mistakes.add(
                f"{where}.losses",
                f"loss {loss.name} has no option `{option}`, which a figure of kind {figure.kind.name} draws",
            )


def _check_tuned(labels: Sequence[str], place: str, paper: Paper, mistakes: Mistakes) -> None:
    """Note tuned methods that a row or figure names and that there are not."""
    assert paper.tables is not None
    for label in labels:
        if label not in paper.tables.tuned:
            known = ", ".join(paper.tables.tuned) or "none"
            mistakes.add(place, f"got {label!r}; expected an entry of `tuned`: {known}")


def _check_claims(
    paper: Paper, parameters: Parameters, papers: Mapping[str, Paper], mistakes: Mistakes
) -> None:
    """Note runs that a paper's claims name and nobody has, and protocols that these are not evaluated under."""
    runs = parameters.all_runs
    for name, claim in paper.claims.items():
        place = f"{paper.claims_file}: claims.{name}"
        for run in claim.named:
            _check_named(run, place, runs, papers, mistakes)
            under = parameters.protocols.get(run, ())
            if run in runs and claim.protocol and claim.protocol not in under:
                mistakes.add(
                    f"{place}.protocol", f"{run} is evaluated under {', '.join(under)}, not {claim.protocol}"
                )


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
        mistakes.add(place, f"{run} is abstract: it is never trained, only inherited from")
    else:
        mistakes.add(
            place,
            f"{run} is a run of {owner.runs_file}, which is not reproduced; add {owner.name} to `papers`",
        )


def _check_released(paper: Paper, runs: Mapping[str, object], mistakes: Mistakes) -> None:
    """Note checkpoints that name no run, or whose name a run has."""
    where = paper.folder / "released.yaml"
    for name, keys in paper.released.items():
        if keys.run not in runs:
            mistakes.add(f"{where}: {name}.run", f"got {keys.run!r}; expected the id of a run")
        if name in runs:
            mistakes.add(f"{where}: {name}", "is already the id of a run; choose another name")
