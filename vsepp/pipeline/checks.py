"""Checks across keys: whether runs, corpora, tables and released checkpoints fit each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatch
from itertools import chain
from pathlib import Path

from vsepp.base.components import checked, describe
from vsepp.base.declared import FOLDS, PIECES, WORDS
from vsepp.base.errors import did_you_mean
from vsepp.base.spec import EncoderKeys
from vsepp.models.text.inputs import tokens_of
from vsepp.pipeline.files import Mistakes
from vsepp.pipeline.papers import Paper
from vsepp.pipeline.parameters import Parameters
from vsepp.pipeline.settings import RunKeys
from vsepp.report.entries import Row, Table
from vsepp.report.figures.base import FigureOfRuns
from vsepp.shipped.folders import encoder_weights

# A fine-tuned run goes on with the weights and the words of the run that it starts from.
_SHARED_WITH_START = (
    "trainset",
    "resize",
    "vocabulary_threshold",
    "caption_projection",
    "image_bias",
    "image_head",
    "image_pooling",
    "caption_pooling",
    "matcher",
    "dataset",
    "encoder",
    "text",
    "joint_dim",
    "vocabulary",
    "clean_captions",
    "first_words",
    "end_token",
    "caption_bias",
)
_Wrong = Iterator[tuple[str, str]]
"""Mistakes: the file (or `--config`) and key, and what is wrong."""


def check(parameters: Parameters, owners: Mapping[str, Path], mistakes: Mistakes) -> None:
    """Check parameters against each other: first that all names exist, then that the named entries fit together.

    Parameters
    ----------
    parameters
        Resolved, not yet selected from.
    owners
        Entry of any paper, reproduced or not → the `runs.yaml` that has it.
    mistakes
        Collects what is wrong and raises it.
    """
    for where, what in _ensembles(parameters):
        mistakes.add(where, what)
    mistakes.raise_if_any()
    for where, what in chain(_preset(parameters), _datasets(parameters), _roles(parameters)):
        mistakes.add(where, what)
    mistakes.raise_if_any()
    for where, what in _only(parameters):
        mistakes.add(where, what)
    for paper in parameters.papers.values():
        checks = (
            _runs(paper, parameters),
            _tables(paper, parameters, owners),
            _claims(paper, parameters, owners),
            _released(paper, parameters),
        )
        for where, what in chain(*checks):
            mistakes.add(where, what)
    mistakes.raise_if_any()


def _ensembles(parameters: Parameters) -> _Wrong:
    """Entries whose two runs make no ensemble."""
    runs = parameters.all_runs
    for paper in parameters.papers.values():
        for run, keys in parameters.runs_of(paper).items():
            where = f"{paper.runs_file}: runs.{run}.ensemble"
            for member in keys.ensemble or ():
                if member not in runs:
                    yield where, f"got {member!r}; expected another run of a paper that is reproduced"
                elif runs[member].ensemble:
                    yield where, f"{member} is an ensemble itself; expected a run that is trained"
                elif (name := runs[member].similarity.name) != "dot":
                    yield where, f"{member} has similarity {name}; only inner products add up: expected dot"
                elif runs[member].matcher:
                    yield where, f"{member} is re-ranked by a matcher; an ensemble has embeddings alone"
                elif (other := runs[member].dataset) != (own := keys.dataset):
                    yield where, f"{member} is evaluated on {other}; expected {own}, as {run}"


def _preset(parameters: Parameters) -> _Wrong:
    """Data sets, generators and weights that a preset names and that do not exist, and crops larger than the image."""
    preset, datasets = parameters.preset, parameters.datasets
    for role, keys in parameters.corpora.items():
        where = f"{parameters.place('corpora')}: corpora.{role}"
        entry = datasets.get(keys.dataset or "")
        if entry is None:
            yield f"{where}.dataset", f"got {keys.dataset!r}; datasets.yaml has {', '.join(sorted(datasets))}"
        elif entry.generator and (preset.scenes is None or entry.generator not in preset.scenes.images):
            yield where, f"the preset's `scenes` has no layout {entry.generator}, which {keys.dataset} has"
    for name, encoder in preset.encoders.items():
        where = f"{parameters.place('encoders')}: encoders.{name}"
        if encoder is not None and _without_weights(encoder):
            what = f"got {encoder.weights!r}; there are no such weights of {encoder.architecture}: expected random, or file/<name>"
            yield f"{where}.weights", what
        if encoder is not None and encoder.input_size > encoder.store_side:
            size, side = encoder.input_size, encoder.store_side
            yield f"{where}.input_size", f"got {size}; images of a side of {side} have no such crop"


def _without_weights(encoder: EncoderKeys) -> bool:
    """Whether an encoder's weights neither come with vsepp nor are published nor given."""
    source = encoder.weights.partition("/")[0]
    if source == "scenes":
        return not encoder_weights(encoder.architecture).is_file()
    published = describe("image encoder", encoder.family.name).constants.get("PUBLISHED")
    return source not in ("random", "file", published)


def _datasets(parameters: Parameters) -> _Wrong:
    """Files, crops and published features that an entry of datasets.yaml names and that do not exist."""
    datasets, sources = parameters.datasets, parameters.sources
    for name, entry in datasets.items():
        where = f"{parameters.place('datasets')}: datasets.{name}"
        for role, file in entry.files.items():
            if not entry.generator and file not in sources:
                known = ", ".join(sources)
                yield f"{where}.files.{role}", f"got {file!r}; expected an entry of `sources`: {known}"
        roles = describe("reader", entry.reader.name).constants.get("FILES", ())
        if absent := set(roles) - set(entry.files):
            yield (
                f"{where}.files",
                f"the reader {entry.reader.name} also needs {' and '.join(sorted(absent))}",
            )
        if (entry.reader.name == "precomp") != (entry.crops is not None):
            yield f"{where}.crops", "required by the reader precomp, and not allowed with any other reader"
        for crops, other in entry.precomputed.items():
            if other not in datasets or datasets[other].crops != crops:
                what = f"got {other!r}; expected an entry of published features with crops {crops}"
                yield f"{where}.precomputed.{crops}", what


def _roles(parameters: Parameters) -> _Wrong:
    """Roles that a paper names and that a preset neither fills nor sets to null."""
    for paper in parameters.papers.values():
        for where, section, role, who in _named_roles(paper, parameters):
            if role not in getattr(parameters.preset, section):
                wanted = f"{parameters.preset_file} has no {section}.{role}; give it, or null to leave out its runs"
                yield where, f"{who}: {wanted}"


def _named_roles(paper: Paper, parameters: Parameters) -> Iterator[tuple[str, str, str, str]]:
    """Place where a paper names a role, section of a preset that fills it, the role, and what names it."""
    for key, section in (("dataset", "corpora"), ("encoder", "encoders")):
        runs: dict[str, list[str]] = {}
        for run, keys in parameters.runs_of(paper).items():
            runs.setdefault(getattr(keys, key), []).append(run)
        for role, named in runs.items():
            yield f"{paper.runs_file}: {key} {role}", section, role, f"of {', '.join(named)}"
    encoder = paper.tables.default_encoder
    yield f"{paper.tables_file}: default_encoder", "encoders", encoder, f"got {encoder!r}"
    for part, entries in (("tables", paper.tables.tables), ("figures", paper.tables.figures)):
        for name, entry in entries.items():
            if isinstance(entry, Table | FigureOfRuns):
                where = f"{paper.tables_file}: {part}.{name}.dataset"
                yield where, "corpora", entry.dataset, f"got {entry.dataset!r}"


def _only(parameters: Parameters) -> _Wrong:
    """Patterns that choose no run."""
    possible = parameters.possible_runs
    for pattern in parameters.settings.only or ():
        if not any(fnmatch(run, pattern) for run in possible):
            known = f"{', '.join(possible)}{did_you_mean(pattern, possible)}"
            preset = parameters.settings.preset
            yield "only", f"{pattern!r} matches no run of preset {preset}; there are {known}"


def _runs(paper: Paper, parameters: Parameters) -> _Wrong:
    """Mistakes in a paper's runs, and rows that are fed twice."""
    feeders: dict[str, str] = {}
    for run, keys in parameters.runs_of(paper).items():
        where = f"{paper.runs_file}: runs.{run}"
        yield from _run(run, keys, parameters, where)
        for row in keys.feeds:
            if row not in paper.rows:
                yield f"{where}.feeds", f"row {row} is not in {paper.published}"
            if row in feeders:
                yield f"{where}.feeds", f"row {row} is already fed by {feeders[row]}"
            feeders[row] = run


def _run(run: str, keys: RunKeys, parameters: Parameters, where: str) -> _Wrong:
    """Mistakes across the keys of a run: starting point, dimensions, splits."""
    if keys.finetune_from is not None:
        for key, what in _start(run, keys, parameters):
            yield f"{where}.{key}", what
    dim = getattr(checked("text encoder", keys.text), "dim", None)
    if dim is None:
        yield (
            f"{where}.text",
            f"text encoder {keys.text.name} has no option `dim`, its state's size; give it one",
        )
    elif dim != keys.joint_dim and not keys.caption_projection:
        what = f"got {keys.joint_dim} with a text encoder of dim {dim}; make them equal, or set caption_projection"
        yield f"{where}.joint_dim", what
    if keys.caption_bias and not keys.caption_projection:
        yield f"{where}.caption_bias", "got true; without caption_projection there is no map that has a bias"
    for key, what in _sets(keys):
        yield f"{where}.{key}", what
    if not parameters.protocols[run]:
        yield f"{where}.protocols", "got none, and the run feeds no row; name some to evaluate it under"
    if keys.dataset in parameters.corpora:
        yield from _data(run, keys, parameters, where)


def _sets(keys: RunKeys) -> _Wrong:
    """Key and reason where a run's text encoder, poolings, matcher or dropped vectors do not fit its images and captions."""
    crops, text = keys.crops, keys.text.name
    image_pooling, caption_pooling = keys.image_pooling, keys.caption_pooling
    if (kind := tokens_of(keys.text)) not in (WORDS, PIECES):
        yield "text", f"text encoder {text} takes {kind}, which no step makes yet"
    if crops == "regions" and not image_pooling:
        yield "image_pooling", "got none; regions are sets of vectors, which a pooling maps to one: mean, gpo"
    if crops == "10C" and image_pooling:
        yield "image_pooling", "10C is one vector an image; expected null, or 1C, RC or regions"
    if image_pooling and crops == "RC" and keys.finetune_from is None and keys.rc_features == "tape":
        what = "a tape has one vector a crop, and image_pooling takes grids; expected inline"
        yield "rc_features", what
    if keys.drop_vectors and not image_pooling:
        yield "drop_vectors", "an image is one vector; expected 0, or an image_pooling"
    gives_sets = describe("text encoder", text).constants.get("GIVES_SETS", False)
    if gives_sets and not caption_pooling:
        what = f"got none; text encoder {text} gives a state of each token, which a pooling maps to one"
        yield "caption_pooling", what
    for key, pooling in (("image_pooling", image_pooling), ("caption_pooling", caption_pooling)):
        if keys.matcher and not pooling:
            yield key, "got none; a matcher takes sets of vectors, of images and of captions"
    trains_temperature = describe("loss", keys.loss.name).constants.get("TRAINS_TEMPERATURE", False)
    if (
        keys.matcher
        and not trains_temperature
        and getattr(checked("matcher", keys.matcher), "temperature", 0) is None
    ):
        yield "matcher.temperature", f"got null; loss {keys.loss.name} trains none: give one, such as 0.07"
    if caption_pooling and not gives_sets:
        yield "caption_pooling", f"text encoder {text} gives one state a caption; expected null"


def _start(run: str, keys: RunKeys, parameters: Parameters) -> _Wrong:
    """Key and reason where a run cannot be fine-tuned from the run that it names."""
    start, runs = keys.finetune_from, parameters.all_runs
    if start not in runs or start == run:
        yield "finetune_from", f"got {start!r}; expected the id of another run of a paper that is reproduced"
    elif runs[start].finetune_from is not None:
        yield "finetune_from", f"{start} is fine-tuned itself; expected a frozen run"
    else:
        for key in _SHARED_WITH_START:
            own, its = getattr(keys, key), getattr(runs[start], key)
            if own != its:
                yield key, f"got {own!r}, but {start}, which it starts from, has {its!r}"
        if missing := sorted(set(parameters.seeds(run)) - set(parameters.seeds(start))):
            yield "seeds", f"{start}, which it starts from, has no seed {missing[0]}"
    if keys.crops != "RC":
        yield "trainset", f"got {keys.trainset!r}; a fine-tuned run needs images: RC or RC+rV"


def _data(run: str, keys: RunKeys, parameters: Parameters, where: str) -> _Wrong:
    """A training set, protocols and re-ranking that a role's data cannot serve: noted before anything is trained."""
    fold_size, corpus = parameters.preset.evaluation.fold_size, parameters.corpora[keys.dataset]
    if keys.restval and "restval" not in parameters.splits(corpus.dataset):
        yield f"{where}.trainset", f"got {keys.trainset!r}; {corpus.dataset} has no restval images (rV)"
    known = parameters.images(corpus.dataset), corpus.first_images
    counts = [images["test"] for images in known if "test" in images]
    k = getattr(checked("matcher", keys.matcher), "k", 0) if keys.matcher else 0
    for protocol in parameters.protocols[run]:
        folds = FOLDS.get(protocol, 0)
        if counts and (test := min(counts)) < folds * fold_size:
            yield (
                f"{parameters.place('evaluation')}: evaluation.fold_size",
                f"got {fold_size}; protocol {protocol} needs {folds} such folds, more than the {test} test images "
                f"of {corpus.dataset} ({where})",
            )
        ranked = min([*counts, fold_size] if folds else counts, default=None)
        if ranked and k > ranked:
            what = f"got {k}; protocol {protocol} ranks {ranked} images of {corpus.dataset} among each other"
            yield f"{where}.matcher.k", what


def _tables(paper: Paper, parameters: Parameters, owners: Mapping[str, Path]) -> _Wrong:
    """Unknown runs and rows in a paper's tables and figures, rows without a run, and unknown names in a preset's choice."""
    tables, file = paper.tables, paper.tables_file
    feeders = parameters.feeders(paper)
    for name, table in tables.tables.items():
        where = f"{file}: tables.{name}"
        for row in table.rows:
            if isinstance(row, Row):
                yield from _unknown_runs(row.runs, where, parameters, owners)
            elif paper.rows.get(row) == "trained" and row not in feeders:
                yield where, f"row {row} is trained here, but no run feeds it"
            published = row.row if isinstance(row, Row) else row
            if published is not None and published not in paper.rows:
                yield where, f"row {published} is not in {paper.published}"
    for name, figure in tables.figures.items():
        where = f"{file}: figures.{name}"
        if name in tables.tables:
            yield where, "is also a table; choose another name"
        yield from _unknown_runs(figure.named, where, parameters, owners)
        yield from _unknown_labels(figure.rows, f"{where}.labels", paper)
    names = [*tables.tables, *tables.figures]
    for name in parameters.preset.tables.get(paper.name, []):
        if name not in names:
            where = f"{parameters.place('tables')}: tables.{paper.name}"
            yield where, f"got {name!r}; {file} has {', '.join(names)}"


def _claims(paper: Paper, parameters: Parameters, owners: Mapping[str, Path]) -> _Wrong:
    """Unknown runs in a paper's claims, and protocols that a claim's runs are not evaluated under."""
    for name, claim in paper.claims.items():
        where = f"{paper.claims_file}: claims.{name}"
        yield from _unknown_runs(claim.named, where, parameters, owners)
        for run in claim.named if claim.protocol else ():
            under = parameters.protocols.get(run)
            assert claim.protocol
            if under is not None and claim.protocol not in under and parameters.applies(run, claim.protocol):
                yield f"{where}.protocol", f"{run} has protocols {', '.join(under)}, not {claim.protocol}"


def _unknown_runs(
    named: Iterable[str], where: str, parameters: Parameters, owners: Mapping[str, Path]
) -> _Wrong:
    """Runs that an entry names and that are not trained."""
    for run in named:
        if run in parameters.all_runs:
            continue
        if (file := owners.get(run)) is None:
            yield where, f"{run} is no run of any paper"
        elif (owner := file.parent.name) in parameters.papers:
            yield where, f"{run} is abstract: it is never trained, only inherited from"
        else:
            yield where, f"{run} is a run of {file}, which is not reproduced; add {owner} to `papers`"


def _unknown_labels(labels: Iterable[str], where: str, paper: Paper) -> _Wrong:
    """Labels of a figure that no row has."""
    known = [row.label for row in paper.tables.own_rows if row.label]
    for label in labels:
        if label not in known:
            yield where, f"got {label!r}; expected the label of a row: {', '.join(known) or 'none'}"


def _released(paper: Paper, parameters: Parameters) -> _Wrong:
    """Checkpoints that name no run, that have the name of a run, or whose run has mistakes under the overlay `code` alone."""
    where = paper.folder / "released.yaml"
    as_code = replace(parameters, all_runs=parameters.as_code)
    for name, keys in paper.released.items():
        if name in parameters.all_runs:
            yield f"{where}: {name}", "is already the id of a run; choose another name"
        if keys.run not in parameters.all_runs:
            yield f"{where}: {name}.run", f"got {keys.run!r}; expected the id of a run"
            continue
        place = f"{where}: {name}, under fidelity code: {keys.run}"
        known = set(_run(keys.run, parameters.all_runs[keys.run], parameters, place))
        for wrong in _run(keys.run, as_code.all_runs[keys.run], as_code, place):
            if wrong not in known:
                yield wrong
