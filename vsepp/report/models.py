"""Models that were trained or given, and evaluated: what is known of each, and what made it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from vsepp.base.errors import VseppError
from vsepp.base.manifest import ancestors_of, parent_of, uncommitted_steps
from vsepp.evaluation.metrics import AT_CHANCE, AVERAGED, per_image, ranks_like_chance
from vsepp.evaluation.ranks import Ranks, kept_ranks
from vsepp.losses.batch import first_epoch_after
from vsepp.report import text
from vsepp.report.entries import METRICS_FILE, ContextSpec

MadeBy = tuple[str, bool]
"""Commit that made a model or measured it, and whether code or parameters differed from the commit."""


@dataclass(frozen=True, eq=False)
class MeasuredModel:
    """One model of one seed, and how it ranks a test set: trained here, the authors' own, or anyone's embeddings."""

    name: str
    """Id of the run, or name of the released checkpoint; empty where neither is known."""
    seed: int | None
    """`None` where neither a manifest nor a folder names it."""
    where: str
    """The evaluation's folder, a file, or study, run and seed."""
    evaluated: Mapping[str, Any]
    """Manifest of its evaluation; empty where there is none."""
    metrics: Mapping[str, dict[str, Any]]
    """Protocol or truth → what `metrics.json` has of it."""
    arrays: Mapping[str, np.ndarray]
    """`<protocol>_<part>` → an array of `ranks.npz`: ranks float64, rows int64."""
    trained: Mapping[str, Any] | None = None
    """Manifest of its training; `None` where only the evaluation was read."""
    history_csv: str = ""
    """`history.csv`; empty of a model that was not trained here."""
    run: str = ""
    """Folder of the trained model and its embeddings; empty of a record."""
    evaluation: str = ""
    """Folder of its ranks and metrics, and of an ensemble's embeddings; empty of a record."""
    study: str = ""
    """Folder of the records that it is one of; empty where its results are here."""
    pictures: str = ""
    """Folder of small pictures of its test images; empty where its data have none."""
    other_code: tuple[MadeBy, ...] = ()
    """Commits that made it or measured it with other code than the present one."""
    ids: Mapping[str, str] = field(default_factory=dict)
    """`image_ids`, `caption_ids` → digest of the ids of what was ranked, where they are known."""
    _ranks: dict[str, Ranks] = field(default_factory=dict, init=False)

    def score(self, protocol: str, metric: str) -> float | None:
        """A metric, recalls in per cent: as its evaluation has it, or from the ranks that were kept; errors as in `values`.

        `None` where its evaluation has no such number, as correlations with ratings of scores that are no inner product, and what needs
        longer lists of the best.
        """
        test = self.tested(protocol)
        task, _, key = metric.partition("_")
        numbers, key = (test.get(task, {}), key) if key else (test, metric)
        if key in numbers:
            return float(numbers[key])
        values = self._per_image(protocol, metric) if metric in AVERAGED else None
        return None if values is None else float(values.mean())

    def values(self, protocol: str, metric: str) -> np.ndarray:
        """A metric's value for each test image, `(n_images,)`; see `vsepp.evaluation.metrics.per_image`.

        Raises
        ------
        VseppError
            When it was not evaluated under the protocol, and when its scores or the ranks that were kept do not give the metric.
        """
        values = self._per_image(protocol, metric)
        if values is None:
            raise VseppError(f"{self.where}, {protocol}: its scores give no {metric}")
        return values

    def _per_image(self, protocol: str, metric: str) -> np.ndarray | None:
        try:
            return per_image(self.ranks(protocol), metric)
        except VseppError as error:
            raise VseppError(f"{self.where}: {error}") from None

    def tested(self, protocol: str) -> dict[str, Any]:
        """What `metrics.json` has of a protocol or truth.

        Raises
        ------
        VseppError
            When it was not evaluated under the protocol.
        """
        if protocol not in self.metrics:
            raise VseppError(
                f"{self.where}: no protocol {protocol}; it has {', '.join(self.metrics)}. Evaluate the run under {protocol}"
            )
        return self.metrics[protocol]

    def ranks(self, protocol: str) -> Ranks:
        """Ranks of every query under a protocol or truth."""
        if protocol not in self._ranks:
            test = self.tested(protocol)
            self._ranks[protocol] = kept_ranks(self.arrays, protocol, test["fold_size"], test.get("depth"))
        return self._ranks[protocol]

    def history(self, metric: str) -> dict[int, float]:
        """Epoch → a metric of training or of validation.

        Raises
        ------
        VseppError
            When its history has no such metric.
        """
        if self.epochs and metric not in self.epochs[0]:
            raise VseppError(
                f"{self.where}: its history has no column {metric}; it has {', '.join(self.epochs[0])}"
            )
        return {int(row["epoch"]): float(row[metric]) for row in self.epochs}

    @cached_property
    def epochs(self) -> list[dict[str, str]]:
        """Rows of its history; none of a model that was not trained here."""
        return list(csv.DictReader(io.StringIO(self.history_csv, newline="")))

    @cached_property
    def best_epoch(self) -> int:
        """The epoch with the highest rsum on validation; its weights are evaluated."""
        rsums = self.history("rsum")
        return max(rsums, key=rsums.__getitem__)

    def validated(self, metric: str) -> float:
        """A metric on validation of the weights that are evaluated; errors as in `history`."""
        return self.history(metric)[self.best_epoch]

    @property
    def trouble(self) -> str:
        """Why its scores say nothing of the method: `collapsed`, `ranks like chance` under any protocol, or nothing."""
        return "collapsed" if self.collapsed else AT_CHANCE * bool(self.at_chance)

    @property
    def collapsed(self) -> bool:
        """Whether training ended with ranks hardly above chance's on validation; see `vsepp.training.loop.is_collapsed`."""
        return bool(self.epochs) and self.epochs[-1].get("collapsed") == "1"

    @cached_property
    def at_chance(self) -> list[str]:
        """Protocols under which no test tells its ranking of the test set from chance."""
        return [
            protocol
            for protocol, test in self.metrics.items()
            if ranks_like_chance(self.ranks(protocol), test["n_images"], test["n_captions"])
        ]

    @cached_property
    def of_curriculum(self) -> str:
        """The epochs that SH trains, `epochs 1 to 2`, if its weights are of one of them although other epochs follow; else empty."""
        run = self.evaluated.get("spec", {}).get("run", {})
        curriculum = run.get("loss", {}).get("curriculum")
        if not (curriculum and self.epochs):
            return ""
        epochs = run["schedule"]["epochs"]
        last = first_epoch_after(curriculum, epochs)
        if last == epochs or self.best_epoch > last:
            return ""
        return "epoch 1" if last == 1 else f"epochs 1 to {last}"

    @property
    def trained_by(self) -> MadeBy:
        """Commit of its training, or of the training that it starts from."""
        run = parent_of(self.evaluated, "run")
        return str(run["commit"]), run["step"] in uncommitted_steps(self.evaluated)

    @property
    def evaluated_by(self) -> MadeBy:
        """Commit of its evaluation."""
        git = self.evaluated["git"]
        return str(git["commit"]), bool(git["dirty"])

    @cached_property
    def corpus(self) -> tuple[str, ...]:
        """What tells the corpus that it ranks, by its manifest; nothing of the embeddings of others.

        The first is the digest of the tables. The second joins the digests of the parameters that made the tables and, for a
        corpus of scenes, the scenes: other libraries write equal tables with other bytes.
        """
        tables = self.evaluated.get("inputs", {}).get("corpus")
        ancestors = ancestors_of(self.evaluated) if self.evaluated else []
        # Of runs the folder comes first, then its files.
        corpora = [
            ancestor
            for ancestor in ancestors
            if ancestor["step"] == "corpus" and tables in (None, ancestor["digest"])
        ]
        if not corpora:
            return (tables,) if tables else ()
        scenes = {ancestor["spec_digest"] for ancestor in ancestors if ancestor["step"] == "scenes"}
        return corpora[0]["digest"], " ".join([corpora[0]["spec_digest"], *sorted(scenes)])


Models = Mapping[str, Sequence[MeasuredModel]]
"""Name → a model per seed."""


def seed_in(path: Path) -> int | None:
    """The last seed that a path names."""
    seeds = [part.removeprefix("seed-") for part in path.absolute().parts if part.startswith("seed-")]
    return int(seeds[-1]) if seeds and seeds[-1].isdecimal() else None


def seed_folders(folder: Path) -> list[Path]:
    """Folders of seeds, in the order of their numbers."""
    return sorted(folder.glob("seed-*"), key=lambda path: (len(path.name), path.name))


def on_scenes(models: Models) -> bool:
    """Whether models were measured on generated scenes, which show that the code works and answer no claim about photographs."""
    manifests = (model.evaluated for seeds in models.values() for model in seeds if model.evaluated)
    return any(ancestor["step"] == "scenes" for manifest in manifests for ancestor in ancestors_of(manifest))


def dirty_steps(models: Iterable[MeasuredModel], training: bool = False) -> tuple[str, ...]:
    """Steps behind the metrics or the histories of models, with code or parameters that no commit holds; steps of one model in the
    order of the work."""
    manifests = (model.trained if training else model.evaluated for model in models)
    steps = (step for manifest in manifests if manifest is not None for step in uncommitted_steps(manifest))
    return tuple(dict.fromkeys(steps))


def mark(models: Iterable[MeasuredModel], training: bool = False) -> str:
    """`text.MARK` at numbers of models, or at their histories, if no commit holds all code and parameters behind them."""
    return text.MARK if dirty_steps(models, training) else ""


def config_of(context: ContextSpec) -> str:
    """The option that chooses a report's plan: `--config`, or `--configfile` where a file has all settings."""
    if context.settings_file:
        return f"--configfile {quote(context.settings_file)}"
    return f"--config {f'preset={context.preset} {context.settings}'.strip()}"


def command(model: MeasuredModel, context: ContextSpec) -> str:
    """Command that makes one model and its scores, alone; of a record all its seeds, under a label, beside the record."""
    config = config_of(context)
    if model.study:
        only = quote(f'only=["{model.name}"]')
        return f"snakemake --cores all reproduce_tables {config} label=again {only}"
    return f"snakemake --cores all {config} -- {quote(f'{model.evaluation}/{METRICS_FILE}')}"
