"""Which models count, and which are compared: the sound ones, seed by seed, measured on one test set.

From `ranks.npz` and `metrics.json` to a cell or a verdict: `MeasuredModel` → `pair` or `sound` → `level` or `vsepp.evaluation.intervals.effect`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from vsepp.base.errors import VseppError
from vsepp.evaluation.intervals import Level
from vsepp.evaluation.metrics import AVERAGED, COMPARED
from vsepp.report import text
from vsepp.report.entries import ContextSpec, ReportSpec
from vsepp.report.models import MeasuredModel, Models
from vsepp.report.published import Published

TEST = ("fold_size", "n_images", "n_captions", "truth")
"""Keys of `metrics.json` in which models that are compared must agree."""


@dataclass(frozen=True)
class Material:
    """What tables, figures and verdicts are made from."""

    report: ReportSpec
    """What is known of its runs, data and encoders."""
    models: Models
    """Run → its models, a seed each; a run that was not made is not there."""
    published: Published
    """The paper's rows."""
    folder: str = ""
    """Folder of what a step computed for a figure; empty where there is none, or where it was not run."""

    @property
    def context(self) -> ContextSpec:
        """What all captions of the report share."""
        return self.report.context

    def shown(self, runs: Sequence[str], protocol: str = "") -> Models:
        """Models of runs on which numbers rest, see `sound`, without runs that were not run; without a protocol, of curves.

        Raises
        ------
        VseppError
            When they were not measured on one test set.
        """
        shown = {run: self.models[run] for run in runs if run in self.models}
        if protocol:
            require_one_test([model for models in shown.values() for model in models], protocol)
        return {run: sound(models) for run, models in shown.items()}

    def trouble(self, runs: Sequence[str]) -> dict[str, str]:
        """Runs without a sound seed → why, with their seeds."""
        return {run: why for run in runs if run in self.models and (why := trouble_of(self.models[run]))}


def in_trouble(models: Iterable[MeasuredModel]) -> dict[str, list[int | None]]:
    """Why scores say nothing of the method → the seeds with such scores; see `MeasuredModel.trouble`."""
    return _seeds_by((model.trouble, model.seed) for model in models)


def of_curriculum(models: Iterable[MeasuredModel]) -> dict[str, list[int | None]]:
    """Epochs that SH trains → the seeds whose weights are of one of them; see `MeasuredModel.of_curriculum`."""
    return _seeds_by((model.of_curriculum, model.seed) for model in models)


def _seeds_by(remarks: Iterable[tuple[str, int | None]]) -> dict[str, list[int | None]]:
    seeds: dict[str, dict[int | None, None]] = {}
    for words, seed in remarks:
        if words:
            seeds.setdefault(words, {})[seed] = None
    return {words: list(of_words) for words, of_words in seeds.items()}


def sound(models: Sequence[MeasuredModel]) -> list[MeasuredModel]:
    """The models on which numbers rest: without the seeds that collapsed or rank like chance; all where no seed is sound."""
    return [model for model in models if not model.trouble] or list(models)


def trouble_of(models: Sequence[MeasuredModel]) -> str:
    """`collapsed (seeds 0 and 1)`, where no seed is sound; else empty."""
    return text.troubles(in_trouble(models)) if all(model.trouble for model in models) else ""


def left_out(models: Sequence[MeasuredModel]) -> str:
    """`collapsed (seed 2), left out`: the seeds in trouble beside sound ones; empty without."""
    words = "" if trouble_of(models) else text.troubles(in_trouble(models))
    return f"{words}, left out" if words else ""


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
    notes: tuple[str, ...]
    """Which seeds are left out, and why, and what else differs between the sides."""
    common: str
    """Which seeds all sides have, where some side has others, too; else empty."""
    doubts: tuple[str, ...]
    """Models of which nothing tells whether they rank the same images and captions; see `require_one_test`."""

    def values(self, side: str, protocol: str, metric: str) -> np.ndarray:
        """Seed by seed the values of the test images, `(seeds, n_images)`."""
        return np.array([model.values(protocol, metric) for model in self.models[side]])


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
        notes=tuple(f"{name} {words}" for name, side in sides.items() if (words := left_out(side))),
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

    A run without a sound seed is no rival of others.
    """
    rivals = {run: models[run] for run in runs if run in models}
    if len(rivals) < 2:
        return next(iter(rivals), runs[0])
    paired = pair(rivals, None)
    rsums = {
        run: float(np.mean([model.validated("rsum") for model in side]))
        for run, side in paired.models.items()
    }
    return max([run for run in rivals if run not in paired.trouble] or rivals, key=rsums.__getitem__)
