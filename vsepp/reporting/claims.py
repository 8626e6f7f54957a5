"""Claims of the paper, held against our runs: effect, interval, verdict.

| kind | runs | effect | holds where |
|---|---|---|---|
| `difference` | a, b | a − b | it has the claimed sign, and is not larger than a size that the claim gives |
| `difference_of_differences` | a, b, c, d | (a − b) − (c − d) | it has the claimed sign |
| `no_difference` | a, b | a − b | all intervals lie within the margin |
| `no_gain` | a, b | a − b | all intervals lie below the margin |
| `best_value` | one a size | best claimed size − best other size | it is above zero |
| `crossing` | a, b | epoch from which a stays above b on validation | a is below b after the first epoch and above it after the last |
| `overfitting` | a, b | how much further a falls than b, from the best epoch to the last, on validation | it is above zero |

A difference of test scores has a sign if zero lies outside its interval over the images, outside that over the seeds
where there are several, and if its p value, corrected after Holm for all claims of the report, is below .05.
Validation curves have no ranks per image, so claims about them need several seeds that do not agree to the last digit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vsepp.evaluation import intervals
from vsepp.evaluation.intervals import Effect, Interval
from vsepp.reporting import filters
from vsepp.reporting.records import (
    TEST_IMAGES,
    Record,
    Records,
    image_values,
    read_history,
    scores,
    shared_seeds,
    trouble_of,
)
from vsepp.reporting.specs import ClaimSpec, ContextSpec

REPRODUCED, SAME, INCONCLUSIVE = "reproduced", "same direction", "inconclusive"
NO_DIFFERENCE, LARGER, OPPOSITE = "no difference", "larger", "opposite"
NOT_RUN, NO_VERDICT = "not run", "no verdict"
WORDS = (REPRODUCED, SAME, INCONCLUSIVE, NO_DIFFERENCE, LARGER, OPPOSITE, NO_VERDICT, NOT_RUN)
"""All verdicts, in the order in which they are counted. `reproduced` is said of the paper's own data and encoders alone."""


@dataclass(frozen=True)
class Verdict:
    """One claim, what was measured, and what that says."""

    spec: ClaimSpec
    word: str
    """One of `WORDS`."""
    why: str
    """What the verdict rests on, in a few words."""
    own: bool
    """Whether data and encoders are the paper's."""
    seeds: int = 0
    value: float | None = None
    """Our effect: points, or an epoch."""
    images: Interval | None = None
    over_seeds: Interval | None = None
    p: float | None = None
    """Of the permutation test over the images, corrected after Holm for all claims of the report."""
    mcnemar: tuple[float, ...] = ()
    """Per seed, of differences of caption retrieval's R@1."""

    @property
    def judged(self) -> bool:
        """Whether its runs were made."""
        return self.word != NOT_RUN

    @property
    def interval(self) -> Interval | None:
        """The wider one of both."""
        return intervals.wider(self.images, self.over_seeds) if self.images else self.over_seeds

    @property
    def ratio(self) -> float | None:
        """Ours over the paper's effect."""
        differs = self.spec.kind in ("difference", "difference_of_differences")
        published = self.spec.published
        return self.value / published if differs and self.value is not None and published else None


def judge(claims: Iterable[ClaimSpec], context: ContextSpec, records: Records) -> list[Verdict]:
    """Hold claims against runs.

    Parameters
    ----------
    claims
        Of the paper.
    context
        Which data and encoders play the paper's roles.
    records
        Of each model; a claim about a run that is not there is `not run`.

    Raises
    ------
    VseppError
        When a run was not evaluated under a claim's protocol, and when runs that are compared were measured on different
        test images.
    """
    claims = list(claims)
    measured = [(claim, _own(claim, context), _measured(claim, records, len(claims))) for claim in claims]
    tested = [found for _, _, found in measured if found.effect]
    corrected = dict(
        zip(map(id, tested), intervals.holm([e.effect.p for e in tested if e.effect]), strict=True)
    )
    return [_judged(claim, own, found, corrected.get(id(found))) for claim, own, found in measured]


def by_claim(verdicts: Iterable[Verdict]) -> list[list[Verdict]]:
    """The verdicts on each claim, one a metric."""
    found: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        found.setdefault(verdict.spec.id.partition("/")[0], []).append(verdict)
    return list(found.values())


def counts(verdicts: Iterable[Verdict]) -> list[tuple[str, int]]:
    """How many claims got which verdict; verdicts that none got are left out."""
    found = Counter(verdict.word for verdict in verdicts)
    return [(word, found[word]) for word in WORDS if found[word]]


@dataclass(frozen=True)
class _Measured:
    """What runs say of a claim, before it is judged."""

    missing: tuple[str, ...] = ()
    trouble: str = ""
    effect: Effect | None = None
    """Of test scores."""
    seeds: int = 0
    values: tuple[float, ...] = ()
    """Per seed, of validation curves; NaN where a curve never passes the other."""
    early: Interval | None = None
    """Of a crossing: over the seeds, of the gap after the first epoch."""
    late: Interval | None = None
    """Of a crossing: of the gap after the last one; of overfitting: of the effect."""
    told: str = ""
    mcnemar: tuple[float, ...] = ()


def _own(claim: ClaimSpec, context: ContextSpec) -> bool:
    return not context.data_note and not context.swaps(claim.roles)


def _measured(claim: ClaimSpec, records: Records, tests: int) -> _Measured:
    if claim.kind == "best_value":
        return _best(claim, records, tests)
    if missing := [run for run in claim.runs if run not in records]:
        return _Measured(missing=tuple(missing))
    if trouble := _trouble(claim.runs, claim.protocol, records):
        return _Measured(trouble=trouble)
    if claim.protocol is None:
        return _on_curves(claim, records)
    plus, minus = list(claim.runs[0::2]), list(claim.runs[1::2])
    if len(claim.runs) == 4:  # (a - b) - (c - d)
        plus[1], minus[1] = minus[1], plus[1]
    return _tested(claim, plus, minus, records, tests)


def _trouble(runs: Iterable[str], protocol: str | None, records: Records) -> str:
    """Which runs collapsed or rank like chance, in some seed."""
    found = {run: trouble_of(records.get(run, ()), protocol) for run in runs}
    return "; ".join(f"{run} {why}" for run, why in found.items() if why)


def _seeded(runs: Iterable[str], records: Records) -> list[list[Record]]:
    """The records of each run, of the seeds that all runs have, in one order."""
    by_seed = [{record.spec.seed: record for record in records[run]} for run in runs]
    common = shared_seeds(seeds.values() for seeds in by_seed)
    return [[seeds[seed] for seed in common] for seeds in by_seed]


def _tested(
    claim: ClaimSpec, plus: Sequence[str], minus: Sequence[str], records: Records, tests: int
) -> _Measured:
    """The difference of test scores: the sum of `plus` less that of `minus`."""
    runs = _seeded([*plus, *minus], records)
    if not runs[0]:
        return _Measured(missing=("a seed that all of its runs have",))
    assert claim.protocol
    protocol, metric = claim.protocol, claim.metric
    scores([record for seeds in runs for record in seeds], protocol, same=TEST_IMAGES)
    values = [[image_values(record, protocol, metric) for record in seeds] for seeds in runs]
    of, over = (
        [np.sum(seed, axis=0) for seed in zip(*part, strict=True)]
        for part in (values[: len(plus)], values[len(plus) :])
    )
    single = len(plus) == 1 and metric == "i2t_r1"
    exact = [intervals.mcnemar(a, b) for a, b in zip(over, of, strict=True)] if single else []
    return _Measured(effect=intervals.effect(over, of, tests), seeds=len(of), mcnemar=tuple(exact))


def _best(claim: ClaimSpec, records: Records, tests: int) -> _Measured:
    """The best of the claimed sizes beside the best of the others, all of which must be there."""
    assert claim.protocol
    sizes = dict(zip(claim.runs, claim.sizes, strict=True))
    found = {run: size for run, size in sizes.items() if run in records}
    sound = {run: size for run, size in found.items() if not _trouble([run], claim.protocol, records)}
    low, high = claim.best
    if rivals := tuple(run for run, size in sizes.items() if run not in found and not low <= size <= high):
        return _Measured(missing=rivals)
    parts = [
        [run for run, size in sound.items() if (low <= size <= high) is inside] for inside in (True, False)
    ]
    if not all(parts):
        trouble = _trouble(found, claim.protocol, records)
        missing = tuple(run for run in sizes if run not in found)
        return _Measured(trouble=trouble) if trouble else _Measured(missing=missing)
    shared = dict(zip(sound, _seeded(sound, records), strict=True))
    if not all(shared.values()):
        return _Measured(missing=("a seed that all of its runs have",))
    level = {
        run: float(np.mean([values[claim.metric] for values in scores(seeds, claim.protocol)]))
        for run, seeds in shared.items()
    }
    claimed, other = (max(runs, key=level.__getitem__) for runs in parts)
    told = f"best of {low} to {high}: {sizes[claimed]}; best of the others: {sizes[other]}"
    if unsound := sorted(set(sizes) - set(sound), key=sizes.__getitem__):
        told += f"; left out: {filters.listing(sizes[run] for run in unsound)}"
    return replace(_tested(claim, [claimed], [other], shared, tests), told=told)


def _on_curves(claim: ClaimSpec, records: Records) -> _Measured:
    """Of validation curves, per seed: where the first passes the second, or how much further it falls from its best."""
    first, second = (
        [list(read_history(record, claim.metric).values()) for record in seeds]
        for seeds in _seeded(claim.runs, records)
    )
    if not first:
        return _Measured(missing=("a seed that both of its runs have",))
    if claim.kind == "overfitting":
        falls = np.array([[max(curve) - curve[-1] for curve in curves] for curves in (first, second)])
        values = falls[0] - falls[1]
        mean = [f"{run} falls by {np.mean(fall):.1f}" for run, fall in zip(claim.runs, falls, strict=True)]
        return _Measured(
            seeds=len(values),
            values=tuple(values),
            late=intervals.seed_interval(values),
            told=f"from its best epoch to the last {', '.join(mean)} points on average",
        )
    gaps = [np.subtract(*_cut(a, b)) for a, b in zip(first, second, strict=True)]
    passed = [_passes(gap) for gap in gaps]
    epochs = ["never passes" if np.isnan(epoch) else f"passes in epoch {epoch:.0f}" for epoch in passed]
    return _Measured(
        seeds=len(gaps),
        values=tuple(passed),
        early=intervals.seed_interval([gap[0] for gap in gaps]),
        late=intervals.seed_interval([gap[-1] for gap in gaps]),
        told=", ".join(epochs),
    )


def _cut(first: Sequence[float], second: Sequence[float]) -> tuple[Sequence[float], Sequence[float]]:
    """Both curves as far as both go."""
    epochs = min(len(first), len(second))
    return first[:epochs], second[:epochs]


def _passes(gap: np.ndarray) -> float:
    """The epoch, from 1, from which a gap stays above zero; NaN where it does not end above zero."""
    below = np.flatnonzero(gap <= 0)
    last = int(below[-1]) + 1 if len(below) else 0
    return float(last + 1) if last < len(gap) else float("nan")


def _judged(claim: ClaimSpec, own: bool, found: _Measured, p: float | None) -> Verdict:
    if found.missing:
        return Verdict(claim, NOT_RUN, f"not run: {filters.listing(found.missing)}", own)
    if found.trouble:
        return Verdict(claim, NO_VERDICT, found.trouble, own)
    value = found.effect.value if found.effect else float(np.mean(found.values))
    word, why = _by_test(claim, own, found.effect, p or 0.0) if found.effect else _by_seeds(claim, own, found)
    why = "; ".join(filter(None, (found.told, why, "one seed" if found.seeds == 1 else "")))
    return Verdict(
        claim,
        word,
        why,
        own,
        seeds=found.seeds,
        value=None if np.isnan(value) else value,
        images=found.effect.images if found.effect else None,
        over_seeds=found.effect.seeds if found.effect else _of_values(claim, found),
        p=p,
        mcnemar=found.mcnemar,
    )


def _of_values(claim: ClaimSpec, found: _Measured) -> Interval | None:
    known = not np.isnan(found.values).any() and len(set(found.values)) > 1
    return intervals.seed_interval(found.values) if known else None


def _by_test(claim: ClaimSpec, own: bool, effect: Effect, p: float) -> tuple[str, str]:
    """The verdict on a difference of test scores."""
    holds = REPRODUCED if own else SAME
    sign = effect.sign if p < intervals.ALPHA else 0
    bounds = [effect.images, *([effect.seeds] if effect.seeds else [])]
    if claim.kind == "no_difference":
        if effect.within(claim.margin):
            return (REPRODUCED if own else NO_DIFFERENCE), f"within ±{claim.margin:g}"
        return (
            (OPPOSITE, "there is a difference") if sign else (INCONCLUSIVE, f"not within ±{claim.margin:g}")
        )
    if claim.kind == "no_gain":
        if max(bound.high for bound in bounds) < claim.margin:
            return holds, f"below {claim.margin:g}"
        return (OPPOSITE, "there is a gain") if sign > 0 else (INCONCLUSIVE, f"may reach {claim.margin:g}")
    if sign and sign == claim.sign and claim.at_most is not None:
        return _of_size(claim.at_most, bounds, holds)
    if sign:
        return (holds, "") if sign == claim.sign else (OPPOSITE, "")
    # An effect that is smaller than the margin is not refuted by one that lies within it.
    small = claim.published is not None and abs(claim.published) <= claim.margin
    if effect.within(claim.margin) and not small and not effect.images.sign:
        return NO_DIFFERENCE, f"within ±{claim.margin:g}"
    if not effect.images.sign:
        return INCONCLUSIVE, "the interval over the images holds zero"
    if not effect.sign:
        seen = own and p < intervals.ALPHA and effect.images.sign == claim.sign
        return (SAME if seen else INCONCLUSIVE), "the interval over the seeds holds zero"
    return INCONCLUSIVE, f"p {p:.2f} after Holm"


def _of_size(at_most: float, bounds: Sequence[Interval], holds: str) -> tuple[str, str]:
    """The verdict on a difference that has the claimed sign, where the paper calls it slight."""
    if all(min(abs(bound.low), abs(bound.high)) > at_most for bound in bounds):
        return LARGER, f"above {at_most:g}"
    if all(max(abs(bound.low), abs(bound.high)) <= at_most for bound in bounds):
        return holds, f"at most {at_most:g}"
    return INCONCLUSIVE, f"may be above {at_most:g}"


def _by_seeds(claim: ClaimSpec, own: bool, found: _Measured) -> tuple[str, str]:
    """The verdict on validation curves."""
    if found.late is None:
        return INCONCLUSIVE, "curves need several seeds"
    ends = {"after the first epoch": found.early, "after the last epoch": found.late}
    known = {when: interval for when, interval in ends.items() if interval}
    if any(interval.low == interval.high for interval in known.values()):
        return INCONCLUSIVE, "the seeds agree to the last digit, which tells no interval"
    if found.early and found.early.sign > 0:
        return OPPOSITE, "ahead from the first epoch on"
    if found.late.sign < 0:
        return OPPOSITE, "behind after the last epoch" if found.early else ""
    if found.late.sign > 0 and (found.early is None or found.early.sign < 0):
        return (REPRODUCED if own else SAME), ""
    zero = [when for when, interval in known.items() if not interval.sign]
    return (
        INCONCLUSIVE,
        f"the interval over the seeds holds zero {' and '.join(zero) if found.early else ''}".strip(),
    )
