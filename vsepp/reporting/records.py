"""Read what a report is made of: of every model its metrics, its history and its provenance."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from vsepp.errors import VseppError
from vsepp.provenance.manifest import accepted_steps, dirty_parts, is_accepted
from vsepp.provenance.records import Kept, read_results, study_of
from vsepp.reporting import filters
from vsepp.reporting.specs import DIRECTIONS, TrainedSpec

if TYPE_CHECKING:
    import numpy as np

    from vsepp.evaluation.ranks import Ranks

TEST_IMAGES = ("fold_size", "n_images", "n_captions")
"""What scores must share to be compared."""
TEST_SET = (*TEST_IMAGES, "similarity")
"""What scores in one row must share."""
AT_CHANCE = "ranks like chance"
_MADE = {"run": "the model behind it was trained", "evaluation": "it was measured"}

State = tuple[str, bool]
"""Commit, and whether code or parameters differed from it."""


class Corpus(NamedTuple):
    """Which images and captions were embedded."""

    digest: str
    """Of both tables."""
    made_with: tuple[str, ...]
    """Digests of the parameters of the corpus, and of the scenes that it may be read from."""

    def equals(self, other: Corpus) -> bool:
        """Whether images and captions are the same; other libraries write equal tables with other bytes."""
        return self.digest == other.digest or bool(self.made_with and self.made_with == other.made_with)

    def __str__(self) -> str:
        return f"corpus {self.digest[:12]}"


def corpus_of(manifest: Mapping[str, Any]) -> Corpus | None:
    """The corpus behind an evaluation, by its manifest; `None` where that names none, as of embeddings of others."""
    digest = manifest.get("inputs", {}).get("corpus")
    ancestors = manifest.get("ancestors", {})
    roles = sorted(role for role in ancestors if role == "corpus" or role.startswith("corpus."))
    made_with = tuple(str(ancestors[role].get("spec_digest")) for role in roles)
    return None if digest is None else Corpus(str(digest), made_with)


@dataclass(frozen=True)
class Record:
    """What is known of one model of one seed."""

    spec: TrainedSpec
    kept: Kept
    """Manifests, history and ranks."""
    metrics: dict[str, dict[str, Any]]
    """Protocol → `i2t_r1` ... `t2i_meanr` (recalls in per cent), `rsum` and what `TEST_SET` names, unrounded."""
    trained: State
    evaluated: State
    dirty: tuple[str, ...]
    """Steps behind the metrics, the first ones first, whose code or parameters no commit holds."""
    dirty_training: tuple[str, ...]
    """The same of the steps behind the history."""
    accepted: tuple[str, ...] = ()
    """Of the steps behind the metrics that other code made and somebody accepted: step, day and reason."""
    accepted_training: tuple[str, ...] = ()
    """The same of the steps behind the history."""
    corpus: Corpus | None = None
    """What was embedded, where that is known."""
    collapsed: bool = False
    """Whether training ended with nearly equal scores and their loss; see `vsepp.training.history`."""

    def trouble(self, protocol: str) -> str:
        """Why the scores under a protocol say nothing of the method: `collapsed`, `ranks like chance`, or nothing."""
        if self.collapsed:
            return "collapsed"
        return AT_CHANCE if self.at_chance(protocol) else ""

    def at_chance(self, protocol: str) -> bool:
        """Whether no test tells its ranking of the test set from chance."""
        return _at_chance(self.kept, protocol)


def trouble_of(records: Iterable[Record], protocol: str | None = None) -> str:
    """Why scores of some seed of a model say nothing of the method, under a protocol or any; else empty."""
    for record in records:
        under = [protocol] if protocol in record.metrics else record.metrics
        if found := next(filter(None, (record.trouble(name) for name in under if name)), ""):
            return found
    return ""


@lru_cache(maxsize=4096)
def _at_chance(kept: Kept, protocol: str) -> bool:
    from vsepp.evaluation.intervals import ranks_like_chance  # here, since the configuration must start fast

    return ranks_like_chance(*_ranks(kept, protocol), kept.metrics[protocol]["fold_size"])


Records = Mapping[str, Sequence[Record]]
"""Model → a record per seed."""


def shared_seeds(models: Iterable[Iterable[Record]]) -> list[int]:
    """Seeds that all of some models have."""
    seeds = [{record.spec.seed for record in records} for records in models]
    return sorted(set.intersection(*seeds)) if seeds else []


def of_shared_seeds(models: Records) -> dict[str, Sequence[Record]]:
    """The records of each model of the seeds that all have; all records where there is no such seed."""
    seeds = shared_seeds(models.values())
    return {
        name: [record for record in records if not seeds or record.spec.seed in seeds]
        for name, records in models.items()
    }


def read_records(models: Iterable[TrainedSpec]) -> dict[str, list[Record]]:
    """Read all models; those of one run become the seeds of one entry.

    Raises
    ------
    VseppError
        Where a manifest or a file was changed, or where present parameters and code would make another model or would
        measure it otherwise: what differs, and the command that mends it.
    """
    records: dict[str, list[Record]] = {}
    for model in models:
        records.setdefault(model.model, []).append(_read_record(model))
    return records


def _read_record(model: TrainedSpec) -> Record:
    if model.study:
        kept = study_of(Path(model.study)).read(model.model, model.seed)
    else:
        kept = read_results(Path(model.run), Path(model.evaluation), trained=model.trained)
    manifest, made = kept.evaluated, kept.evaluated["ancestors"]
    if model.made_by:
        _require_same(model, "run", made.get("run", {}))
        _require_same(model, "evaluation", {**manifest, **manifest["git"]})
    rows = _rows(kept)
    started = made.get("run.init_from", {})
    return Record(
        spec=model,
        kept=kept,
        metrics={protocol: _flat(values) for protocol, values in kept.metrics.items()},
        trained=(str(made["run"]["commit"]), bool(made["run"]["dirty"] or started.get("dirty"))),
        evaluated=(str(manifest["git"]["commit"]), bool(manifest["git"]["dirty"])),
        dirty=_dirty_steps(manifest, ""),
        dirty_training=_dirty_steps(manifest, "run"),
        accepted=tuple(accepted_steps(manifest)),
        accepted_training=tuple(accepted_steps(manifest, "run")),
        corpus=corpus_of(manifest),
        collapsed=bool(rows) and rows[-1].get("collapsed") == "1",
    )


def _rows(kept: Kept) -> list[dict[str, str]]:
    """Epochs of a training."""
    return list(csv.DictReader(io.StringIO(kept.history, newline="")))


def _require_same(model: TrainedSpec, name: str, made: Mapping[str, Any]) -> None:
    """Refuse a model's weights or metrics that present parameters and code would make otherwise."""
    maker = model.made_by[name]
    if made.get("spec_digest") != maker.spec_digest:
        what, wanted, found = "parameters", maker.spec_digest, made.get("spec_digest")
    elif not is_accepted(made, maker.code_digest):
        what, wanted, found = "code", maker.code_digest, made["code_digest"]
    else:
        return
    raise VseppError(
        f"{model.evaluation}: {_MADE[name]} with other {what} than the present ones (expected digest {wanted[:12]}, got "
        f"{str(found)[:12]}, commit {str(made.get('commit'))[:10]}), as a checkout of another commit can "
        f"leave it. Get what belongs to this commit: vsepp sync; or make it: snakemake --cores all --forcerun "
        f"{maker.target} -- {model.evaluation}/metrics.json"
    )


def _dirty_steps(manifest: Mapping[str, Any], below: str) -> tuple[str, ...]:
    """Steps whose code or parameters no commit holds, the first ones first: of the roles that begin so."""
    made = {**manifest["ancestors"], "itself": manifest}
    parts = [part for part in dirty_parts(manifest) if part.startswith(below)]
    first = sorted(parts, key=lambda part: (part == "itself", -part.count("."), part))
    return tuple(dict.fromkeys(made[part]["step"] for part in first))


def dirty_steps(records: Iterable[Record], training: bool = False) -> tuple[str, ...]:
    """Steps behind the metrics of several models, or their histories, whose code or parameters no commit holds."""
    steps = (record.dirty_training if training else record.dirty for record in records)
    return tuple(dict.fromkeys(chain.from_iterable(steps)))


def marks(records: Sequence[Record], training: bool = False) -> dict[str, str]:
    """Signs at numbers of several models, or at their histories → what they mean.

    Where no commit holds all that is behind them, and where other code made it and somebody accepted that.
    """
    found = {}
    if steps := dirty_steps(records, training):
        found[filters.MARK] = filters.dirty_note(steps)
    accepted = (record.accepted_training if training else record.accepted for record in records)
    if steps := tuple(dict.fromkeys(chain.from_iterable(accepted))):
        found[filters.ACCEPTED] = filters.accepted_note(steps)
    return found


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """A section of metrics.json with the metrics of both directions side by side."""
    record = {key: values[key] for key in (*TEST_SET, "rsum")}
    for direction in DIRECTIONS:
        record |= {f"{direction}_{metric}": value for metric, value in values[direction].items()}
    return record


def scores(records: Sequence[Record], protocol: str, same: Sequence[str] = TEST_SET) -> list[dict[str, Any]]:
    """Metrics of several models under one protocol, which the same test images make comparable; `same` is what they share.

    Raises
    ------
    VseppError
        When one was not evaluated under the protocol, or when they were measured on different test sets.
    """
    found = []
    for record in records:
        file = record.kept.where
        if protocol not in record.metrics:
            raise VseppError(
                f"{file}: no protocol {protocol}; it has {', '.join(record.metrics)}. Evaluate the run under {protocol}"
            )
        found.append(record.metrics[protocol])
        if (one := records[0].corpus) and (two := record.corpus) and not one.equals(two):
            raise VseppError(
                f"{file}: its images and captions are those of {two}, but {records[0].kept.where} has those of {one}; what is "
                "compared must be measured on one test set: evaluate both again"
            )
        for key in same:
            first, other = found[0][key], found[-1][key]
            if first != other:
                raise VseppError(
                    f"{file}, {protocol}: {key} is {other}, but {first} in {records[0].kept.where}; "
                    "what stands in one row must be measured on the same test images: evaluate both again"
                )
    return found


def score(record: Record, protocol: str, metric: str) -> float:
    """A metric of a model under a protocol: as its evaluation has it, or from the ranks that were kept.

    Raises
    ------
    VseppError
        As `image_values`.
    """
    found = record.metrics[protocol]
    return found[metric] if metric in found else float(image_values(record, protocol, metric).mean())


def image_values(record: Record, protocol: str, metric: str) -> np.ndarray:
    """A metric's value for each test image, `(n_images,)`; see `vsepp.evaluation.intervals.per_image`.

    Raises
    ------
    VseppError
        When the run was not evaluated under the protocol, and when a metric needs ranks that were not kept.
    """
    from vsepp.evaluation.intervals import per_image

    (found,) = scores([record], protocol)
    ranks, owner = read_ranks(record, protocol)
    try:
        return per_image(ranks, owner, metric, found["fold_size"])
    except VseppError as error:
        raise VseppError(f"{record.kept.where}: {error}") from None


def read_ranks(record: Record, protocol: str) -> tuple[Ranks, np.ndarray]:
    """Ranks under a protocol, and the row of each ranked caption's image."""
    return _ranks(record.kept, protocol)


def _ranks(kept: Kept, protocol: str) -> tuple[Ranks, np.ndarray]:
    from vsepp.evaluation.ranks import kept_ranks

    return kept_ranks(kept.arrays, protocol), kept.arrays[f"{protocol}_caption_images"]


def read_history(record: Record, metric: str) -> dict[int, float]:
    """Epoch → a validation metric of a trained model.

    Raises
    ------
    VseppError
        When its history has no such metric.
    """
    rows = _rows(record.kept)
    if rows and metric not in rows[0]:
        raise VseppError(
            f"{record.kept.where}: its history has no column {metric}; it has {', '.join(rows[0])}"
        )
    return {int(row["epoch"]): float(row[metric]) for row in rows}
