"""Models that were trained or given, and evaluated: what is known of each, and which of them are compared.

From `ranks.npz` and `metrics.json` to a cell or a verdict: `MeasuredModel` → `pair` or `sound` → `level` or `vsepp.evaluation.intervals.effect`.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import numpy as np

from vsepp.base.errors import VseppError
from vsepp.base.manifest import ancestors_of, parent_of, uncommitted_steps
from vsepp.evaluation.intervals import Level
from vsepp.evaluation.metrics import AT_CHANCE, AVERAGED, COMPARED, per_image, ranks_like_chance
from vsepp.evaluation.ranks import Ranks, kept_ranks
from vsepp.losses.batch import first_epoch_after
from vsepp.report import text

if TYPE_CHECKING:
    from vsepp.report.entries import ContextSpec

METRICS_FILE, RANKS_FILE, HISTORY_FILE = "metrics.json", "ranks.npz", "history.csv"
"""Files of an evaluation and of a training."""
TEST = ("fold_size", "n_images", "n_captions", "truth")
"""Keys of `metrics.json` in which models that are compared must agree."""

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
        curriculum, rsums = run.get("loss", {}).get("curriculum"), self.history("rsum")
        if not (curriculum and rsums):
            return ""
        epochs = run["schedule"]["epochs"]
        last = first_epoch_after(curriculum, epochs)
        if last == epochs or max(rsums, key=rsums.__getitem__) > last:
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


def ids_digest(ids: np.ndarray) -> str:
    """Digest of ids in their order, whatever type holds them."""
    return hashlib.sha256("\n".join(map(str, ids.tolist())).encode()).hexdigest()


def on_scenes(models: Models) -> bool:
    """Whether models were measured on generated scenes, which show that the code works and answer no claim about photographs."""
    manifests = (model.evaluated for seeds in models.values() for model in seeds if model.evaluated)
    return any(ancestor["step"] == "scenes" for manifest in manifests for ancestor in ancestors_of(manifest))


# --- Which models count, and which are compared -----------------------------------------------------------------


def in_trouble(models: Iterable[MeasuredModel]) -> dict[str, list[int | None]]:
    """Why scores say nothing of the method → the seeds with such scores; see `MeasuredModel.trouble`."""
    return _seeds_by(models, lambda model: model.trouble)


def of_curriculum(models: Iterable[MeasuredModel]) -> dict[str, list[int | None]]:
    """Epochs that SH trains → the seeds whose weights are of one of them; see `MeasuredModel.of_curriculum`."""
    return _seeds_by(models, lambda model: model.of_curriculum)


def _seeds_by(
    models: Iterable[MeasuredModel], remark: Callable[[MeasuredModel], str]
) -> dict[str, list[int | None]]:
    seeds: dict[str, list[int | None]] = {}
    for model in models:
        if (words := remark(model)) and model.seed not in seeds.setdefault(words, []):
            seeds[words].append(model.seed)
    return seeds


def sound(models: Sequence[MeasuredModel]) -> list[MeasuredModel]:
    """The models on which numbers rest: without the seeds that collapsed or rank like chance; all where no seed is sound."""
    return [model for model in models if not model.trouble] or list(models)


def trouble_of(models: Sequence[MeasuredModel]) -> str:
    """`collapsed (seeds 0 and 1)`, where no seed is sound; else empty."""
    return text.troubles(in_trouble(models)) if all(model.trouble for model in models) else ""


def left_out(models: Sequence[MeasuredModel]) -> str:
    """`collapsed (seed 2), left out`: the seeds in trouble beside sound ones; empty without."""
    bad = "" if trouble_of(models) else text.troubles(in_trouble(models))
    return f"{bad}, left out" if bad else ""


@dataclass(frozen=True, eq=False)
class Paired:
    """Models that are compared, seed by seed."""

    models: Models
    """Side → its models of `seeds`, in their order; where there are none, all its sound ones; of a side in trouble, all. A single model
    without a seed is there once."""
    seeds: tuple[int | None, ...]
    """Seeds that all sides have, sound; `None` where no sound side has a seed; none where no side is sound."""
    trouble: Mapping[str, str]
    """Side without a sound seed → why it is in no comparison, with its seeds."""
    left_out: tuple[str, ...]
    """Sentences on seeds in trouble."""
    common: str
    """Which seeds all sides have, where some side has others, too; else empty."""
    doubts: tuple[str, ...]
    """Models of which nothing tells whether they rank the same images and captions; see `require_one_test`."""


def pair(sides: Models, protocol: str | None) -> Paired:
    """The models of the seeds that all sides have, sound, measured on one test set.

    Parameters
    ----------
    sides
        Side → its models, a seed each. A single model without a seed is compared with each seed of the others.
    protocol
        Under which they are compared; `None` for curves of validation.

    Raises
    ------
    VseppError
        When a seed is given twice, a model was not evaluated under the protocol, or models were measured on different test sets.
    """
    for side in sides.values():
        require_each_seed_once(side)
    doubts = (
        require_one_test([model for side in sides.values() for model in side], protocol) if protocol else []
    )
    trouble = {name: why for name, side in sides.items() if (why := trouble_of(side))}
    counting = {name: sound(side) for name, side in sides.items() if name not in trouble}
    by_seed = {
        name: {model.seed: model for model in side}
        for name, side in counting.items()
        if len(side) > 1 or side[0].seed is not None
    }
    common = set.intersection(*map(set, by_seed.values())) if by_seed else set()
    # Seeds of several are known.
    seeds = tuple(sorted(common)) if by_seed or not counting else (None,)  # type: ignore[type-var]
    models = {name: counting.get(name, side) for name, side in sides.items()}
    if seeds:
        models |= {name: [side[seed] for seed in seeds] for name, side in by_seed.items()}
    dropped = any(len(side) > len(seeds) for side in by_seed.values())
    return Paired(
        models=models,
        seeds=seeds,
        trouble=trouble,
        left_out=tuple(f"{name} {words}" for name, side in sides.items() if (words := left_out(side))),
        common=f"compared on {text.seeds(seeds)}, which all have" if dropped and seeds else "",
        doubts=tuple(doubts),
    )


def require_each_seed_once(models: Sequence[MeasuredModel]) -> None:
    """Refuse a seed that is given twice, and several models without a seed.

    Raises
    ------
    VseppError
        Naming them.
    """
    seeds = [model.seed for model in models]
    if len(seeds) > 1 and (None in seeds or len(set(seeds)) < len(seeds)):
        places = text.listing(model.where for model in models)
        raise VseppError(
            f"a seed is given twice, or none is named: {places}; give each seed once, in a folder of its own"
        )


def require_one_test(models: Iterable[MeasuredModel], protocol: str) -> list[str]:
    """Refuse models that were measured on different test sets under a protocol.

    Returns
    -------
    list[str]
        Where the models lie of which neither ids nor a corpus tell whether they rank the same images and captions.

    Raises
    ------
    VseppError
        When a model was not evaluated under the protocol, and naming two that differ, and in what.
    """
    distinct = list({model.where: model for model in models}.values())
    for model in distinct:
        model.tested(protocol)
    certain = set[str]()
    for first, second in combinations(distinct, 2):
        if difference := _test_differs(first, second, protocol):
            raise VseppError(
                f"{second.where}, {protocol}: {difference} in {first.where}; both must have the same images and the "
                "same caption-to-image order: evaluate both again"
            )
        if first.ids.keys() & second.ids.keys() or (first.corpus and second.corpus):
            certain |= {first.where, second.where}
    doubtful = [model for model in distinct if model.where not in certain] if len(distinct) > 1 else []
    nameless = [model for model in doubtful if not model.ids and not model.corpus]
    return [model.where for model in nameless or doubtful]


def _test_differs(first: MeasuredModel, second: MeasuredModel, protocol: str) -> str:
    """How the second model's test set differs from the first one's; empty where nothing tells a difference."""
    tests = first.tested(protocol), second.tested(protocol)
    for key in TEST:
        expected, value = (test.get(key, "own captions") for test in tests)
        if value != expected:
            return f"{key} is {value}, but {expected}"
    if "truth" not in tests[0]:  # the truth's digest names the gallery, too
        owners = [model.arrays[f"{protocol}_caption_images"] for model in (first, second)]
        for row in np.flatnonzero(owners[0] != owners[1])[:1]:
            return f"ranked caption {row} belongs to image {owners[1][row]}, but to image {owners[0][row]}"
    shared = sorted(first.ids.keys() & second.ids.keys())
    for kind in shared:
        if first.ids[kind] != second.ids[kind]:
            return f"{kind} are others than those"
    if first.corpus and second.corpus and not shared and set(first.corpus).isdisjoint(second.corpus):
        return f"images and captions come from corpus {second.corpus[0][:12]}, but from corpus {first.corpus[0][:12]}"
    return ""


def level(models: Sequence[MeasuredModel], protocol: str, metric: str) -> Level | None:
    """A metric of the models of one side; `None` without models, and where a model has no such number."""
    by_seed = [model.score(protocol, metric) for model in models]
    if not by_seed or None in by_seed:
        return None

    def values() -> np.ndarray:
        return np.mean([model.values(protocol, metric) for model in models], axis=0)

    return Level(tuple(map(float, by_seed)), values if metric in AVERAGED else None)  # type: ignore[arg-type]


def known_metrics(
    models: Iterable[MeasuredModel], protocol: str, metrics: Sequence[str] = COMPARED
) -> tuple[str, ...]:
    """Those of some metrics that all models have: of short lists of the best not all are known."""
    models = list(models)
    return tuple(
        metric for metric in metrics if all(model.score(protocol, metric) is not None for model in models)
    )


def best_of(runs: Sequence[str], models: Models) -> str:
    """The run with the highest rsum on validation, averaged over the sound seeds that all have; the first where none was run.

    The rsum of a training is its best epoch's; the weights of that epoch are evaluated. A run without a sound seed is no rival of others.
    """
    rivals = {run: models[run] for run in runs if run in models}
    if len(rivals) < 2:
        return next(iter(rivals), runs[0])
    paired = pair(rivals, None)

    def mean(run: str) -> float:
        return float(np.mean([max(model.history("rsum").values()) for model in paired.models[run]]))

    return max([run for run in rivals if run not in paired.trouble] or rivals, key=mean)


# --- What made them ---------------------------------------------------------------------------------------------


def dirty_steps(models: Iterable[MeasuredModel], training: bool = False) -> tuple[str, ...]:
    """Steps behind the metrics or the histories of models, with code or parameters that no commit holds; steps of one model in the
    order of the work."""
    manifests = (model.trained if training else model.evaluated for model in models)
    steps = (step for manifest in manifests if manifest is not None for step in uncommitted_steps(manifest))
    return tuple(dict.fromkeys(steps))


def mark(models: Iterable[MeasuredModel], training: bool = False) -> str:
    """`text.MARK` at numbers of models, or at their histories, if no commit holds all code and parameters behind them."""
    return text.MARK if dirty_steps(models, training) else ""


def by_other_code(model: MeasuredModel, other_code: Mapping[str, MadeBy]) -> list[MadeBy]:
    """Commits that made a model or measured it, as far as these folders are among those that other code made."""
    folders = (model.run, model.evaluation)
    return list(dict.fromkeys(other_code[folder] for folder in folders if folder in other_code))


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
