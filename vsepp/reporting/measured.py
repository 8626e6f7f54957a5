"""What runs say of a claim, before it is judged: effects, intervals, and what had to be left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import stdev

import numpy as np

from vsepp.evaluation import intervals
from vsepp.evaluation.intervals import Effect, Interval
from vsepp.provenance.digests import differing
from vsepp.reporting import filters
from vsepp.reporting.records import (
    TEST_IMAGES,
    Record,
    Records,
    image_values,
    read_history,
    score,
    scores,
    shared_seeds,
    trouble_of,
)
from vsepp.reporting.specs import ClaimSpec

_OF_A_SEED = {"id", "init_seed", "order_seed"}
"""Keys of a run's parameters in which seeds of one run, and runs of one configuration, differ."""
_SHARED = {
    "features": "features",
    "published": "features",
    "precomputed": "features",  # as earlier manifests call it
    "tape": "random-crop features",
    "tokens": "word ids",
    "vectors": "caption vectors",
}
"""Kind of artefact → what runs of the same parameters share of it."""
_ROUNDED = 12**-0.5
"""Standard deviation that counting whole epochs alone gives an epoch."""


@dataclass(frozen=True)
class Measured:
    """What runs say of a claim."""

    missing: tuple[str, ...] = ()
    """What was not run."""
    failed: str = ""
    """Why no seed of some run is sound: `collapsed`, or `ranks like chance`."""
    effect: Effect | None = None
    """Of test scores."""
    seeds: int = 0
    borrowed: str = ""
    """Whose seeds the interval over the seeds is of, where there is one seed."""
    paper_sd: float | None = None
    """Standard deviation of the effect of one seed, by our seeds: the paper has one."""
    values: tuple[float, ...] = ()
    """Per seed, of validation curves; NaN where a curve never passes the other."""
    early: Interval | None = None
    """Over the seeds, of the gap after the first epoch."""
    late: Interval | None = None
    """Of a crossing: of the gap after the last epoch; of other curves: of the effect."""
    epochs: Interval | None = None
    """Of a crossing: of the epoch."""
    told: tuple[str, ...] = ()
    """What the verdict has to say beside itself."""
    mcnemar: tuple[float, ...] = ()


def measure(claim: ClaimSpec, records: Records, tests: int) -> Measured:
    """Read off records what a claim is about.

    Parameters
    ----------
    claim
        A claim.
    records
        Of each model.
    tests
        For how many tests p will be corrected.

    Raises
    ------
    VseppError
        When a run was not evaluated under the claim's protocol, and when runs that are compared were measured on different
        test images.
    """
    if claim.kind == "best_value":
        return _best(claim, records, tests)
    if missing := [run for run in claim.runs if run not in records]:
        return Measured(missing=tuple(missing))
    chosen = _Chosen.of(claim.runs, claim.protocol, records)
    if chosen.failed or not chosen.seeds:
        return chosen.as_measured()
    if claim.protocol is None:
        return _on_curves(claim, chosen)
    if claim.kind == "above_published":
        return _above(claim, chosen, records, tests)
    plus, minus = list(claim.runs[0::2]), list(claim.runs[1::2])
    if len(claim.runs) == 4:  # (a - b) - (c - d)
        plus[1], minus[1] = minus[1], plus[1]
    return _tested(claim, plus, minus, chosen, records, tests)


@dataclass(frozen=True)
class _Chosen:
    """The records of some runs that are compared: of the seeds that all have, where each is sound and all read the same."""

    seeds: tuple[int, ...] = ()
    by_run: Mapping[str, list[Record]] | None = None
    failed: str = ""
    told: tuple[str, ...] = ()

    @classmethod
    def of(cls, runs: Sequence[str], protocol: str | None, records: Records) -> _Chosen:
        sound: dict[str, dict[int, Record]] = {}
        told = []
        for run in dict.fromkeys(runs):
            bad: dict[str, list[int]] = {}
            for record in records[run]:
                if why := trouble_of([record], protocol):
                    bad.setdefault(why, []).append(record.spec.seed)
                else:
                    sound.setdefault(run, {})[record.spec.seed] = record
            if run not in sound:
                return cls(failed=f"{run} {filters.listing(bad)}")
            told += [f"{run}: {_seeds(seeds)} {why}, left out" for why, seeds in bad.items()]
        common = shared_seeds(seeds.values() for seeds in sound.values())
        mixed = {seed: roles for seed in common if (roles := _mixed([sound[run][seed] for run in runs]))}
        if mixed:
            named = filters.listing(dict.fromkeys(role for of_seed in mixed.values() for role in of_seed))
            left_out = len(mixed) < len(common)
            said = f"{_seeds(list(mixed))}: its runs were made from different {named} of the same parameters"
            told.append(f"{said}, left out" if left_out else said)
            common = [seed for seed in common if seed not in mixed] if left_out else common
        by_run = {run: [sound[run][seed] for seed in common] for run in sound}
        told += _machines(list(by_run.values()))
        return cls(tuple(common), by_run, told=tuple(told))

    def as_measured(self) -> Measured:
        """Why nothing can be measured."""
        if self.failed:
            return Measured(failed=self.failed)
        return Measured(missing=("a seed that all of its runs have",), told=self.told)

    def records(self, run: str) -> list[Record]:
        """Of a run, in the order of the seeds."""
        assert self.by_run
        return self.by_run[run]


def _seeds(seeds: Sequence[int]) -> str:
    return f"seed{'s' * (len(seeds) > 1)} {filters.listing(seeds)}"


def _mixed(records: Iterable[Record]) -> list[str]:
    """Kinds of shared inputs that records should have in common by their parameters, and have not."""
    made: dict[tuple[str, str], set[str]] = {}
    for record in records:
        for ancestor in record.kept.evaluated["ancestors"].values():
            if shared := _SHARED.get(ancestor["step"]):
                key = shared, str(ancestor.get("spec_digest"))
                made.setdefault(key, set()).add(str(ancestor["digest"]))
    return list(dict.fromkeys(what for (what, _), digests in made.items() if len(digests) > 1))


def _machines(runs: Sequence[Sequence[Record]]) -> list[str]:
    """A sentence where the runs were trained on different processors."""
    on = [
        {
            str(record.kept.trained.get("machine", {}).get("processor"))
            for record in seeds
            if record.kept.trained
        }
        for seeds in runs
    ]
    every = sorted(set().union(*on))
    return (
        [f"trained on {filters.listing(every)}"] if len(every) > 1 and any(one != on[0] for one in on) else []
    )


def _tested(
    claim: ClaimSpec, plus: Sequence[str], minus: Sequence[str], chosen: _Chosen, records: Records, tests: int
) -> Measured:
    """The difference of test scores: the sum of `plus` less that of `minus`."""
    runs = [*plus, *minus]
    assert claim.protocol
    protocol, metric = claim.protocol, claim.metric
    scores([record for run in runs for record in chosen.records(run)], protocol, same=TEST_IMAGES)
    values = [[image_values(record, protocol, metric) for record in chosen.records(run)] for run in runs]
    of, over = (
        [np.sum(seed, axis=0) for seed in zip(*part, strict=True)]
        for part in (values[: len(plus)], values[len(plus) :])
    )
    single = len(plus) == 1 and metric == "i2t_r1"
    exact = [intervals.mcnemar(a, b) for a, b in zip(over, of, strict=True)] if single else []
    return _with_seeds(intervals.effect(over, of, tests), runs, claim, chosen, records, tuple(exact))


def _above(claim: ClaimSpec, chosen: _Chosen, records: Records, tests: int) -> Measured:
    """How far a run lies above a number that others published, which has no interval of its own."""
    assert claim.protocol and claim.against is not None
    (run,) = claim.runs
    values = [image_values(record, claim.protocol, claim.metric) for record in chosen.records(run)]
    fixed = [np.full_like(one, claim.against) for one in values]
    return _with_seeds(intervals.effect(fixed, values, tests), [run], claim, chosen, records, ())


def _with_seeds(
    effect: Effect,
    runs: Sequence[str],
    claim: ClaimSpec,
    chosen: _Chosen,
    records: Records,
    exact: tuple[float, ...],
) -> Measured:
    """An effect with its interval over the seeds; with one seed, from the seeds of runs of the same configuration."""
    found = Measured(effect=effect, seeds=len(chosen.seeds), told=chosen.told, mcnemar=exact)
    if found.seeds > 1:
        sd = stdev(effect.by_seed)
        told = () if effect.seeds else ("the seeds agree to the last digit, which tells no interval",)
        return replace(found, paper_sd=sd or None, told=(*found.told, *told))
    spreads = [_spread(run, claim, records) for run in runs]
    known = [one for one in spreads if one]
    if len(known) < len(spreads):
        return found
    variance = sum(sd**2 for _, sd, _ in known)
    if not variance:
        return found
    # Welch and Satterthwaite: each run's variance is known from as many seeds as its sibling has.
    freedom = variance**2 / sum(sd**4 / (number - 1) for _, sd, number in known)
    interval = intervals.around(effect.value, variance**0.5, freedom)
    names = filters.listing(dict.fromkeys(f"{run} ({number})" for run, _, number in known))
    return replace(found, effect=replace(effect, seeds=interval), borrowed=names, paper_sd=variance**0.5)


def _spread(run: str, claim: ClaimSpec, records: Records) -> tuple[str, float, int] | None:
    """Whose seeds say how much a run's score varies, its standard deviation, and how many they are."""
    candidates = [run, *(other for other in records if other != run)]
    for other in candidates:
        seeds = [record for record in records[other] if not trouble_of([record], claim.protocol)]
        if len(seeds) < 2 or any(claim.protocol not in record.metrics for record in seeds):
            continue
        if other == run or _is_sibling(records[run][0], seeds[0]):
            values = [score(record, str(claim.protocol), claim.metric) for record in seeds]
            return other, stdev(values), len(values)
    return None


def _is_sibling(one: Record, other: Record) -> bool:
    """Whether two runs are of one configuration: they differ in one parameter at most."""
    parameters = (record.kept.evaluated["spec"]["run"] for record in (one, other))
    return sum(key not in _OF_A_SEED for key, *_ in differing(*parameters)) <= 1


def _best(claim: ClaimSpec, records: Records, tests: int) -> Measured:
    """The best of the claimed sizes beside the best of the others, chosen on validation; all others must be there."""
    assert claim.protocol and claim.best
    sizes = dict(zip(claim.runs, claim.sizes, strict=True))
    found = {run: size for run, size in sizes.items() if run in records}
    low, high = claim.best
    if rivals := tuple(run for run, size in sizes.items() if run not in found and not low <= size <= high):
        return Measured(missing=rivals)
    # A size whose training failed is no rival, and is named.
    bad = {run: trouble_of(records[run], claim.protocol) for run in found}
    sound = {run: size for run, size in found.items() if not bad[run]}
    parts = [
        [run for run, size in sound.items() if (low <= size <= high) is inside] for inside in (True, False)
    ]
    if not all(parts):
        missing = tuple(run for run in sizes if run not in found)
        failed = "; ".join(f"{run} {why}" for run, why in bad.items() if why)
        return Measured(failed=failed) if failed else Measured(missing=missing)
    chosen = _Chosen.of(list(sound), claim.protocol, records)
    if not chosen.seeds:
        return chosen.as_measured()
    level = {
        run: np.mean([_validated(record, claim.metric) for record in chosen.records(run)]) for run in sound
    }
    claimed, other = (max(runs, key=level.__getitem__) for runs in parts)
    told = f"best on validation of {low} to {high}: {sizes[claimed]}; of the others: {sizes[other]}"
    if unsound := sorted(set(sizes) - set(sound), key=sizes.__getitem__):
        told += f"; left out: {filters.listing(sizes[run] for run in unsound)}"
    tested = _tested(claim, [claimed], [other], chosen, records, tests)
    return replace(tested, told=(told, *tested.told))


def _validated(record: Record, metric: str) -> float:
    """A metric on validation of the snapshot that is evaluated: that of the epoch with the highest rsum."""
    rsum = read_history(record, "rsum")
    return read_history(record, metric)[max(rsum, key=rsum.__getitem__)]


def _on_curves(claim: ClaimSpec, chosen: _Chosen) -> Measured:
    """Of validation curves, per seed: where the first passes the second, how it starts, or how much further it falls."""
    first, second = (
        [list(read_history(record, claim.metric).values()) for record in chosen.records(run)]
        for run in claim.runs
    )
    longest = min(map(len, [*first, *second]))
    if longest < claim.epochs:
        return Measured(missing=(f"runs of {claim.epochs} epochs (these have {longest})",))
    found = Measured(seeds=len(chosen.seeds), told=chosen.told)
    if claim.kind == "overfitting":
        falls = np.array([[max(curve) - curve[-1] for curve in curves] for curves in (first, second)])
        mean = [f"{run} falls by {np.mean(fall):.1f}" for run, fall in zip(claim.runs, falls, strict=True)]
        told = f"from its best epoch to the last {', '.join(mean)} points on average"
        return _of_values(found, falls[0] - falls[1], told)
    gaps = [np.subtract(a[:longest], b[:longest]) for a, b in zip(first, second, strict=True)]
    if claim.kind == "start":
        return _of_values(found, np.array([gap[0] for gap in gaps]), "after the first epoch")
    passed = [_passes(gap) for gap in gaps]
    told = ", ".join(
        "never passes" if np.isnan(epoch) else f"passes in epoch {epoch:.0f}" for epoch in passed
    )
    return replace(
        found,
        values=tuple(passed),
        early=intervals.seed_interval([gap[0] for gap in gaps]),
        late=intervals.seed_interval([gap[-1] for gap in gaps]),
        epochs=None if np.isnan(passed).any() else intervals.seed_interval(passed, least_sd=_ROUNDED),
        told=(told, *found.told),
    )


def _of_values(found: Measured, values: np.ndarray, told: str) -> Measured:
    return replace(
        found,
        values=tuple(values),
        late=intervals.seed_interval(values),
        paper_sd=stdev(values) or None if len(values) > 1 else None,
        told=(told, *found.told),
    )


def _passes(gap: np.ndarray) -> float:
    """The epoch, from 1, from which a gap stays above zero; NaN where it does not end above zero."""
    below = np.flatnonzero(gap <= 0)
    last = int(below[-1]) + 1 if len(below) else 0
    return float(last + 1) if last < len(gap) else float("nan")
