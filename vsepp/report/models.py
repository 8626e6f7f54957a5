"""The models of a report: metrics, history and provenance of each model."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from vsepp.base.errors import VseppError, fixes, pull, snakemake
from vsepp.base.manifest import ancestors_of, differences, parent_of, uncommitted_steps
from vsepp.evaluation.intervals import AT_CHANCE, per_image, ranks_like_chance
from vsepp.evaluation.ranks import Ranks, kept_ranks
from vsepp.report import text
from vsepp.report.entries import ContextSpec, TrainedSpec
from vsepp.report.records import METRICS_FILE, Kept, read_results, study_of

TEST_IMAGES = ("fold_size", "n_images", "n_captions")
"""What scores must share to be compared."""
TEST_SET = (*TEST_IMAGES, "similarity")
"""What scores in one row must share."""
_MADE = {
    "run": ("the model behind it was trained", "model.safetensors"),
    "evaluation": ("it was measured", METRICS_FILE),
}

MadeBy = tuple[str, bool]
"""Commit that made a model or measured it, and whether code or parameters differed from the commit."""


@dataclass(frozen=True)
class Ranked:
    """One model of one seed, and how it ranks a test set."""

    kept: Kept
    """Manifests, history and ranks."""

    @cached_property
    def metrics(self) -> dict[str, dict[str, Any]]:
        """Protocol or truth → `i2t_r1` ... `t2i_meanr` (recalls in per cent), `rsum`, what `TEST_SET` names, `reranked` and `truth`, unrounded."""
        flat: dict[str, dict[str, Any]] = {}
        for protocol, values in self.kept.metrics.items():
            flat[protocol] = {key: values[key] for key in (*TEST_SET, "rsum")}
            flat[protocol]["reranked"] = values.get("reranked", 0)
            flat[protocol]["truth"] = values.get("truth", "own captions")
            for task in (key for key, of_task in values.items() if isinstance(of_task, dict)):
                flat[protocol] |= {f"{task}_{metric}": value for metric, value in values[task].items()}
        return flat

    @cached_property
    def at_chance(self) -> list[str]:
        """Protocols under which no test tells its ranking of the test set from chance."""
        return [
            protocol
            for protocol, values in self.metrics.items()
            if ranks_like_chance(*read_ranks(self, protocol), values["fold_size"], values["n_captions"])
        ]


@dataclass(frozen=True)
class Record(Ranked):
    """One model of a report, and what is kept of it."""

    spec: TrainedSpec

    @property
    def trained(self) -> MadeBy:
        """Commit of its training, or of the training that it starts from."""
        run = parent_of(self.kept.evaluated, "run")
        return str(run["commit"]), run["step"] in uncommitted_steps(self.kept.evaluated)

    @property
    def evaluated(self) -> MadeBy:
        """Commit of its evaluation."""
        git = self.kept.evaluated["git"]
        return str(git["commit"]), bool(git["dirty"])

    @cached_property
    def epochs(self) -> list[dict[str, str]]:
        """Rows of its history; none of a model that was not trained here."""
        return list(csv.DictReader(io.StringIO(self.kept.history, newline="")))

    @property
    def collapsed(self) -> bool:
        """Whether training ended with ranks hardly above chance's on validation; see `vsepp.training.loop.is_collapsed`."""
        return bool(self.epochs) and self.epochs[-1].get("collapsed") == "1"

    def trouble(self, protocol: str | None = None) -> str:
        """Why its scores say nothing of the method: `collapsed`, `ranks like chance`, or nothing.

        Any protocol counts where `protocol` is `None`, or is one that the model was not evaluated under.
        """
        if self.collapsed:
            return "collapsed"
        at_chance = protocol in self.at_chance or (self.at_chance and protocol not in self.metrics)
        return AT_CHANCE if at_chance else ""


def by_other_code(record: Record, other_code: Mapping[str, MadeBy]) -> list[MadeBy]:
    """Commits that made a model or measured it, as far as these folders are among those that other code made."""
    folders = (record.spec.run, record.spec.evaluation)
    return list(dict.fromkeys(other_code[folder] for folder in folders if folder in other_code))


Records = Mapping[str, Sequence[Record]]
"""Model → a record per seed."""


def seeds_in_trouble(records: Iterable[Record], protocol: str | None = None) -> dict[str, list[int]]:
    """Why scores of a model say nothing of the method → the seeds with such scores; see `Record.trouble`."""
    seeds: dict[str, list[int]] = {}
    for record in records:
        if trouble := record.trouble(protocol):
            seeds.setdefault(trouble, []).append(record.spec.seed)
    return seeds


def trouble_of(records: Iterable[Record], protocol: str | None = None) -> str:
    """Why the scores of the first seed in trouble say nothing of the method; empty where all are sound."""
    return next(iter(seeds_in_trouble(records, protocol)), "")


def named_seeds(seeds: Sequence[int]) -> str:
    """`seed 0`, `seeds 0 and 2`."""
    return f"seed{'s' * (len(seeds) > 1)} {text.listing(seeds)}"


def shared_seeds(models: Iterable[Iterable[Record]]) -> list[int]:
    """Seeds that all models have."""
    seeds = [{record.spec.seed for record in records} for records in models]
    return sorted(set.intersection(*seeds)) if seeds else []


def of_shared_seeds(models: Records) -> dict[str, Sequence[Record]]:
    """Each model's records of the seeds that all models have; all records where there is no such seed."""
    seeds = shared_seeds(models.values())
    return {
        name: [record for record in records if not seeds or record.spec.seed in seeds]
        for name, records in models.items()
    }


def best_of(runs: Sequence[str], records: Records) -> str:
    """The run with the highest rsum on validation, averaged over the seeds that all have; the first where none was run.

    The rsum of a training is its best epoch's; the weights of that epoch are evaluated.
    """
    there = of_shared_seeds({run: records[run] for run in runs if run in records})

    def level(run: str) -> float:
        return float(np.mean([max(read_history(record, "rsum").values()) for record in there[run]]))

    return max(there, key=level, default=runs[0]) if len(runs) > 1 else runs[0]


def read_records(models: Iterable[TrainedSpec], config: str = "") -> dict[str, list[Record]]:
    """Read all models; models of one run become the seeds of one entry.

    Parameters
    ----------
    models
        What the plan says of them.
    config
        The option `--config` that chose the plan, for the commands that mend.

    Raises
    ------
    VseppError
        Where a manifest or a file was changed, or where present parameters would make another model or would measure it
        otherwise, and the command that mends it.
    """
    records: dict[str, list[Record]] = {}
    for model in models:
        if model.study:
            kept = study_of(Path(model.study)).read(model.model, model.seed)
        else:
            kept = read_results(Path(model.run), Path(model.evaluation), trained=model.trained)
        _require_present(model, kept.evaluated, config)
        records.setdefault(model.model, []).append(Record(kept, model))
    return records


def _require_present(model: TrainedSpec, evaluated: Mapping[str, Any], config: str) -> None:
    """Refuse a model's weights or metrics that present parameters would make otherwise."""
    made = {"run": parent_of(evaluated, "run"), "evaluation": {**evaluated, **evaluated["git"]}}
    for name, (what_happened, file) in _MADE.items():
        for _, wanted, actual in differences(made[name], spec=model.spec_digests.get(name)).spec:
            again = f"{getattr(model, name)}/{file}"
            mend = snakemake(f"{model.evaluation}/{METRICS_FILE}", config, again)
            raise VseppError(
                f"{model.evaluation}: {what_happened} with other parameters than the present ones (expected digest "
                f"{wanted[:12]}, got {str(actual)[:12]}, commit {str(made[name].get('commit'))[:10]}), as a checkout of another "
                f"commit can leave it.{fixes(pull(), mend)}"
            )


def _manifests(records: Iterable[Record], training: bool) -> list[Mapping[str, Any]]:
    """The manifest of each model's metrics, or of its history."""
    manifests = (record.kept.trained if training else record.kept.evaluated for record in records)
    return [manifest for manifest in manifests if manifest is not None]


def dirty_steps(records: Iterable[Record], training: bool = False) -> tuple[str, ...]:
    """Steps behind the metrics or the histories of models, with code or parameters that no commit holds; steps of one model in the
    order of the work."""
    steps = (step for manifest in _manifests(records, training) for step in uncommitted_steps(manifest))
    return tuple(dict.fromkeys(steps))


def mark(records: Iterable[Record], training: bool = False) -> str:
    """`text.MARK` at numbers of models, or at their histories, if no commit holds all code and parameters behind them."""
    return text.MARK if dirty_steps(records, training) else ""


def dirty_note(records: Iterable[Record], training: bool = False) -> str:
    """What the mark of some models means; empty where they have none."""
    steps = dirty_steps(records, training)
    return text.dirty_note(steps) if steps else ""


def scores(records: Sequence[Ranked], protocol: str, same: Sequence[str] = TEST_SET) -> list[dict[str, Any]]:
    """Metrics of several models under one protocol, comparable by the same test images; `same`: keys in which they must agree.

    Raises
    ------
    VseppError
        When a model was not evaluated under the protocol, or when the models were measured on different test sets.
    """
    for record in records:
        where = record.kept.where
        if protocol not in record.metrics:
            raise VseppError(
                f"{where}: no protocol {protocol}; it has {', '.join(record.metrics)}. Evaluate the run under {protocol}"
            )
        if difference := _test_differs(records[0], record, protocol, same):
            raise VseppError(
                f"{where}, {protocol}: {difference} in {records[0].kept.where}; both must have the same images and the "
                "same caption-to-image order: evaluate both again"
            )
    return [record.metrics[protocol] for record in records]


def _test_differs(first: Ranked, other: Ranked, protocol: str, same: Sequence[str]) -> str:
    """How the test set of a model differs from the first model's; empty where both have the same test set."""
    for key in (*same, "truth"):
        expected, value = first.metrics[protocol][key], other.metrics[protocol][key]
        if value != expected:
            return f"{key} is {value}, but {expected}"
    corpora = [_corpus_digests(model.kept.evaluated) for model in (first, other)]
    if all(corpora) and set(corpora[0]).isdisjoint(corpora[1]):
        return (
            f"images and captions come from corpus {corpora[1][0][:12]}, but from corpus {corpora[0][0][:12]}"
        )
    if "truth" in first.kept.metrics[protocol]:  # the truth's digest names the gallery, too
        return ""
    owners = [model.kept.arrays[f"{protocol}_caption_images"] for model in (first, other)]
    differs = np.flatnonzero(owners[0] != owners[1])
    if differs.size:
        row = differs[0]
        return f"ranked caption {row} belongs to image {owners[1][row]}, but to image {owners[0][row]}"
    return ""


def _corpus_digests(evaluated: Mapping[str, Any]) -> list[str]:
    """Digests of the corpus behind an evaluation, by its manifest; none for the embeddings of others.

    The first is the digest of the tables. The second joins the digests of the parameters that made the tables and, for a corpus of
    scenes, the scenes: other libraries write equal tables with other bytes.
    """
    tables = evaluated.get("inputs", {}).get("corpus")
    if tables is None:
        return []
    parameters = parent_of(evaluated, "corpus").get("spec_digest")
    scenes = {made["spec_digest"] for made in ancestors_of(evaluated) if made["step"] == "scenes"}
    return [tables, " ".join([parameters, *sorted(scenes)])] if parameters else [tables]


def score(record: Record, protocol: str, metric: str) -> float:
    """A metric of a model under a protocol: as its evaluation has it, or from the ranks that were kept; errors as in
    `image_values`."""
    metrics = record.metrics[protocol]
    return metrics[metric] if metric in metrics else float(image_values(record, protocol, metric).mean())


def image_values(record: Ranked, protocol: str, metric: str) -> np.ndarray:
    """A metric's value for each test image, `(n_images,)`; see `vsepp.evaluation.intervals.per_image`.

    Raises
    ------
    VseppError
        When the run was not evaluated under the protocol, and when a metric needs ranks that were not kept.
    """
    (metrics,) = scores([record], protocol)
    try:
        return per_image(*read_ranks(record, protocol), metric, metrics["fold_size"])
    except VseppError as error:
        raise VseppError(f"{record.kept.where}: {error}") from None


def read_ranks(record: Ranked, protocol: str) -> tuple[Ranks, np.ndarray]:
    """Ranks under a protocol, and the row of each ranked caption's image."""
    ranks = kept_ranks(record.kept.arrays, protocol)
    if (judged := ranks.of("t2i").images) is not None:
        return ranks, judged
    return ranks, record.kept.arrays[f"{protocol}_caption_images"]


def read_history(record: Record, metric: str) -> dict[int, float]:
    """Epoch → a validation metric of a trained model.

    Raises
    ------
    VseppError
        When its history has no such metric.
    """
    if record.epochs and metric not in record.epochs[0]:
        raise VseppError(
            f"{record.kept.where}: its history has no column {metric}; it has {', '.join(record.epochs[0])}"
        )
    return {int(row["epoch"]): float(row[metric]) for row in record.epochs}


def config_of(context: ContextSpec) -> str:
    """The option `--config` that chooses a report's plan."""
    return f"--config {f'preset={context.preset} {context.settings}'.strip()}"


def command(model: TrainedSpec, context: ContextSpec) -> str:
    """Command that makes one model and its scores, alone; of a record all its seeds, which it drops first."""
    config = config_of(context)
    if model.study:
        only = quote(f'only=["{model.model}"]')
        return (
            f"vsepp record --drop {quote(model.model)} {config} && "
            f"snakemake --cores all reproduce_tables {config} {only}"
        )
    return f"snakemake --cores all {config} -- {quote(f'{model.evaluation}/{METRICS_FILE}')}"
