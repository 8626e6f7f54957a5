"""Claims of the paper, and comparisons of one's own, held against our runs: effect, intervals, verdict.

| kind | runs | effect | holds where |
|---|---|---|---|
| `difference` | a, b | a − b | it has the claimed sign, and is not larger than a size that the claim gives |
| `difference` | a | a − a number that others published | the same; on the paper's own data alone |
| `difference_of_differences` | a, b, c, d | (a − b) − (c − d) | it has the claimed sign |
| `no_difference` | a, b | a − b | all intervals lie within the margin |
| `best_value` | one a size | best claimed size − best other size, both chosen on validation | it is above zero |
| `crossing` | a, b | epoch from which a stays above b on validation | a is below b after the first epoch and above it after the last |
| `start` | a, b | a − b on validation after the first epoch | it has the claimed sign |
| `overfitting` | a, b | how much further a falls than b, from the best epoch to the last, on validation | it is above zero |

A kind is a class: its fields are the keys of its entries in a `claims.yaml`, its `rule` gives the verdict.
`docs/reading.md` has a table of all verdicts and when they are given. `vsepp.report.measured` reads effects off the runs.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import stdev
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from vsepp.base.declared import STRICT, Count, PositiveFloat
from vsepp.evaluation import intervals
from vsepp.evaluation.intervals import Interval
from vsepp.report import text
from vsepp.report.entries import AveragedMetric, Protocol, ValidationMetric

REPRODUCED, SMALLER, SAME = "reproduced", "smaller", "same direction"
NO_DIFFERENCE, LARGER, OPPOSITE = "no difference", "larger", "opposite"
INCONCLUSIVE, ONE_SEED = "inconclusive", "inconclusive (one seed)"
COLLAPSED, CHANCE = "not reproduced: collapsed", "not reproduced: like chance"
NOT_RUN = "not run"
FAILED = (COLLAPSED, CHANCE)
SIGNS = {
    REPRODUCED: "✓", SMALLER: "<", SAME: "✓", NO_DIFFERENCE: "≈", LARGER: ">",
    INCONCLUSIVE: "?", ONE_SEED: "?", OPPOSITE: "✗", COLLAPSED: "∅", CHANCE: "∅", NOT_RUN: "–",
}  # fmt: skip
"""All verdicts, in the order of their counts, and the sign of each on a page."""
AS_CLAIMED, UNTOLD, NOT_AS_CLAIMED, NO_RESULT = "as claimed", "inconclusive", "not as claimed", "no result"
OUTCOMES = {
    AS_CLAIMED: (REPRODUCED, SAME),
    UNTOLD: (INCONCLUSIVE, ONE_SEED),
    NOT_AS_CLAIMED: (SMALLER, NO_DIFFERENCE, LARGER, OPPOSITE),
    NO_RESULT: (*FAILED, NOT_RUN),
}
"""The four counts that open a page → the verdicts in each; no difference is as claimed where the claim is that there is none."""
_ROUNDED = 12**-0.5
"""Standard deviation of an epoch by rounding to whole epochs alone."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """One claim about one metric, the measured effect, and the verdict."""

    spec: Claim
    metric: str
    """`i2t_r1`, ..., `rsum`."""
    word: str
    """One of `SIGNS`; empty until it is judged."""
    why: str
    """Grounds of the verdict, in a few words."""
    own: bool
    """Whether data and encoders are the paper's."""
    seeds: int = 0
    value: float | None = None
    """Our effect: points, or an epoch."""
    images: Interval | None = None
    over_seeds: Interval | None = None
    paper_sd: float | None = None
    """Standard deviation of the effect of one seed, by our seeds: how sure the paper's number may be."""
    p: float | None = None
    """p of the permutation test over the images, corrected after Holm for all claims of the report."""
    mcnemar: tuple[float, ...] = ()
    """p of the exact McNemar test per seed, for differences of caption retrieval's R@1; not corrected."""
    ends: tuple[Interval | None, ...] = ()
    """Of a crossing, intervals over the seeds: of the gap after the first epoch, and of the gap after the last."""
    name: str = ""
    """Entry of `claims.yaml`."""
    roles: tuple[str, ...] = ()
    """Roles of the data and the encoders of its runs."""

    @property
    def id(self) -> str:
        """Unique in the report: `<entry of claims.yaml>/<metric>`."""
        return f"{self.name}/{self.metric}"

    @property
    def published(self) -> float | None:
        """The paper's effect; `None` where it prints none."""
        return self.spec.published[self.metric]

    @property
    def judged(self) -> bool:
        """Whether its runs were made."""
        return self.word != NOT_RUN

    @property
    def outcome(self) -> str:
        """One of `OUTCOMES`."""
        if self.word == NO_DIFFERENCE and isinstance(self.spec, NoDifference):
            return AS_CLAIMED
        return next(outcome for outcome, words in OUTCOMES.items() if self.word in words)

    @property
    def interval(self) -> Interval | None:
        """The wider one of both intervals."""
        return intervals.wider(self.images, self.over_seeds) if self.images else self.over_seeds

    @property
    def ratio(self) -> float | None:
        """Our effect over the paper's effect, of a difference."""
        differs = isinstance(self.spec, Difference | DifferenceOfDifferences)
        return self.value / self.published if differs and self.value is not None and self.published else None

    @property
    def bounds(self) -> list[Interval]:
        """All intervals of the effect."""
        return [interval for interval in (self.images, self.over_seeds) if interval]

    @property
    def sign(self) -> int:
        """1 or -1 where the effect is told: zero lies outside all intervals, on one side, and p is below .05; else 0."""
        signs = {interval.sign for interval in self.bounds}
        told = len(signs) == 1 and (self.p is None or self.p < intervals.ALPHA)
        return signs.pop() if told else 0

    @property
    def holds(self) -> str:
        """The verdict where the claim holds."""
        return REPRODUCED if self.own and self.spec.place else SAME

    def within(self, margin: float) -> bool:
        """Whether all intervals lie within a margin around zero."""
        return all(interval.within(margin) for interval in self.bounds)


def of_the_paper(verdicts: Iterable[Verdict]) -> tuple[list[Verdict], list[Verdict]]:
    """Verdicts on the paper's claims, and verdicts on comparisons of one's own."""
    verdicts = list(verdicts)
    return [v for v in verdicts if v.spec.place], [v for v in verdicts if not v.spec.place]


def counts(verdicts: Iterable[Verdict]) -> list[tuple[str, int]]:
    """How many claims got which verdict; verdicts that no claim got are left out."""
    numbers = Counter(verdict.word for verdict in verdicts)
    return [(word, numbers[word]) for word in SIGNS if numbers[word]]


def rule_of(measured: Verdict) -> tuple[str, str]:
    """The verdict on what was measured, and its grounds beside the intervals: by the rule of the claim's kind, where several
    seeds give an interval."""
    if measured.seeds == 1:
        if measured.images is None:
            return ONE_SEED, "curves need several seeds"
        where = {1: "lies above zero", -1: "lies below zero", 0: "contains zero"}[measured.images.sign]
        return ONE_SEED, f"the interval over the images {where}"
    if None in (measured.ends or [measured.over_seeds]):
        return INCONCLUSIVE, "the seeds have equal results, so they give no interval"
    return measured.spec.rule(measured)


OF_ITS_OWN = ("claim", "place", "note", "quotes", "runs", "protocol", "row")
"""Keys that a claim may have otherwise than the claim that it quotes."""

# --- Kinds of claims -----------------------------------------------------------------------------------------


@dataclass(frozen=True, config=STRICT, kw_only=True)
class _Claim:
    """What a claim of any kind says."""

    claim: str
    """What the paper says, as a sentence."""
    place: str = ""
    """Where it says so: section, rows, figure; a comparison of one's own has none and is counted apart."""
    note: str = ""
    """Said beside the claim."""
    quotes: str = ""
    """`<paper>/<claim>`: a paper's claim that is held against other runs. What it says and its rule are inherited from there, and what is
    not `OF_ITS_OWN` may not differ."""

    @property
    def is_gap(self) -> bool:
        """Whether it is about one gap between two runs, which the plot of gaps shows."""
        return False


@dataclass(frozen=True, config=STRICT, kw_only=True)
class _OfRuns(_Claim):
    """A claim about runs that it lists."""

    runs: tuple[str, ...]
    """Run ids, the claim's subject first."""

    @property
    def number(self) -> int:
        """How many runs it lists."""
        return 2

    @model_validator(mode="after")
    def _has_its_runs(self) -> _OfRuns:
        if len(self.runs) != self.number:
            raise ValueError(f"runs: expected {self.number}, got {len(self.runs)}")
        _refuse_twice(self.runs[:2])
        _refuse_twice(self.runs[2:])
        if self.runs[:2] == self.runs[2:]:
            raise ValueError("runs: a difference is compared with itself; name other runs")
        return self

    @property
    def named(self) -> tuple[str, ...]:
        """Run ids."""
        return self.runs


def _refuse_twice(runs: Sequence[str]) -> None:
    if twice := next((run for run in runs if runs.count(run) > 1), None):
        raise ValueError(f"runs: {twice} is compared with itself; name another run")


@dataclass(frozen=True, config=STRICT, kw_only=True)
class _OnTest(_OfRuns):
    """A claim about test scores of two or more runs."""

    protocol: Protocol
    """Under which they are compared."""
    margin: PositiveFloat = 1.0
    """Points within which there is no difference."""
    published: Annotated[dict[AveragedMetric, float | None], Field(min_length=1)]
    """Metric → the paper's effect in points; null if the paper prints no number."""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Difference(_OnTest):
    """One run lies above another, or above a number that others published."""

    kind: Literal["difference"]
    sign: Literal[1, -1] = 1
    """Sign of the effect that the paper claims."""
    at_most: PositiveFloat | None = None
    """Points above which a difference is not the one that the paper calls slight."""
    row: str | None = None
    """The row of published.csv that the one run is compared with."""

    @property
    def number(self) -> int:
        """How many runs it lists: one beside a published row."""
        return 1 if self.row else 2

    @property
    def is_gap(self) -> bool:
        """Not beside a published row."""
        return not self.row

    def rule(self, measured: Verdict) -> tuple[str, str]:
        """Verdict and grounds."""
        return _by_sign(measured, self.margin, self.sign, self.at_most)


@dataclass(frozen=True, config=STRICT, kw_only=True)
class DifferenceOfDifferences(_OnTest):
    """A gap between two runs is wider than the gap between two others."""

    kind: Literal["difference_of_differences"]
    sign: Literal[1, -1] = 1
    """Sign of the effect that the paper claims."""

    @property
    def number(self) -> int:
        """How many runs it lists."""
        return 4

    def rule(self, measured: Verdict) -> tuple[str, str]:
        """Verdict and grounds."""
        return _by_sign(measured, self.margin, self.sign)


@dataclass(frozen=True, config=STRICT, kw_only=True)
class NoDifference(_OnTest):
    """There is no gap between two runs."""

    kind: Literal["no_difference"]

    @property
    def is_gap(self) -> bool:
        """Always."""
        return True

    def rule(self, measured: Verdict) -> tuple[str, str]:
        """Verdict and grounds."""
        if measured.within(self.margin):
            word = REPRODUCED if measured.holds == REPRODUCED else NO_DIFFERENCE
            return word, f"within ±{self.margin:g}"
        if measured.sign:
            return OPPOSITE, "there is a difference"
        return INCONCLUSIVE, f"not within ±{self.margin:g}"


@dataclass(frozen=True, config=STRICT, kw_only=True)
class BestValue(_Claim):
    """Some sizes of the negative set are better than all others."""

    kind: Literal["best_value"]
    protocol: Protocol
    """Under which they are compared."""
    margin: PositiveFloat = 1.0
    """Points within which there is no difference."""
    runs: dict[Count, str]
    """Size → run id."""
    best: tuple[Count, Count]
    """First and last of the sizes among which the best is claimed to be."""
    published: Annotated[dict[ValidationMetric, float | None], Field(min_length=1)]
    """Metric, also of validation, on which the best are chosen → the paper's effect in points; null if it prints no number."""

    @model_validator(mode="after")
    def _has_both_kinds_of_sizes(self) -> BestValue:
        inside = [size for size in self.runs if self.claims(size)]
        if not inside or len(inside) == len(self.runs):
            raise ValueError("runs: expected size → run, some between the sizes of `best` and some not")
        _refuse_twice(self.named)
        return self

    @property
    def named(self) -> tuple[str, ...]:
        """Run ids by size."""
        return tuple(self.runs[size] for size in sorted(self.runs))

    def claims(self, size: int) -> bool:
        """Whether a size is among those of which one is claimed to be the best."""
        return self.best[0] <= size <= self.best[1]

    def rule(self, measured: Verdict) -> tuple[str, str]:
        """Verdict and grounds."""
        return _by_sign(measured, self.margin)


@dataclass(frozen=True, config=STRICT, kw_only=True)
class _OnCurves(_OfRuns):
    """A claim about two runs' curves of validation."""

    published: Annotated[dict[ValidationMetric, float | None], Field(min_length=1)]
    """Metric of validation → the paper's effect in points, or its epoch; null if it prints no number."""
    epochs: Annotated[int, Field(ge=0)] = 0
    """Fewest epochs that the runs must have, else it is not run."""

    @property
    def protocol(self) -> None:
        """None: validation has none."""
        return None


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Crossing(_OnCurves):
    """A run falls behind first and is ahead at last."""

    kind: Literal["crossing"]

    def measure(self, first: Curves, second: Curves) -> tuple[str, dict[str, Any]]:
        """Where the first passes the second, in words and as fields of a verdict."""
        gaps = _gaps(first, second)
        epochs = [_passes(gap) for gap in gaps]
        note = ", ".join(f"passes in epoch {epoch}" if epoch else "never passes" for epoch in epochs)
        ends = (intervals.seed_interval(gaps[:, 0]), intervals.seed_interval(gaps[:, -1]))
        if None in epochs:
            return note, {"ends": ends}
        passed = np.array(epochs, float)
        over_seeds = intervals.seed_interval(passed, least_sd=_ROUNDED)
        return note, {"value": float(np.mean(passed)), "over_seeds": over_seeds, "ends": ends}

    def rule(self, measured: Verdict) -> tuple[str, str]:
        """Verdict and grounds."""
        first, last = (interval.sign for interval in measured.ends if interval)
        if first > 0:
            return OPPOSITE, "ahead from the first epoch on"
        if last < 0:
            return OPPOSITE, "behind after the last epoch"
        if zero := [
            f"after the {when} epoch" for when, sign in (("first", first), ("last", last)) if not sign
        ]:
            return INCONCLUSIVE, f"the interval over the seeds contains zero {' and '.join(zero)}"
        epochs, published = measured.over_seeds, measured.published
        if epochs is None:
            return INCONCLUSIVE, "some seed never passes"
        if published is None or epochs.low <= published <= epochs.high:
            return measured.holds, ""
        return SAME, f"in another epoch than {published:g}"


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Start(_OnCurves):
    """A run starts ahead of another, or behind."""

    kind: Literal["start"]
    sign: Literal[1, -1] = 1
    """Sign of the effect that the paper claims."""

    def measure(self, first: Curves, second: Curves) -> tuple[str, dict[str, Any]]:
        """How far the first starts ahead, in words and as fields of a verdict."""
        return "after the first epoch", _over_seeds(_gaps(first, second)[:, 0])

    def rule(self, measured: Verdict) -> tuple[str, str]:
        """Verdict and grounds."""
        return _by_sign_over_seeds(measured, self.sign)


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Overfitting(_OnCurves):
    """A run falls further from its best epoch to the last than another."""

    kind: Literal["overfitting"]

    def measure(self, first: Curves, second: Curves) -> tuple[str, dict[str, Any]]:
        """How much further the first falls, in words and as fields of a verdict."""
        falls = np.array([[max(curve) - curve[-1] for curve in curves] for curves in (first, second)])
        means = [f"{run} falls by {np.mean(fall):.1f}" for run, fall in zip(self.runs, falls, strict=True)]
        note = f"from its best epoch to the last {', '.join(means)} points on average"
        return note, _over_seeds(falls[0] - falls[1])

    def rule(self, measured: Verdict) -> tuple[str, str]:
        """Verdict and grounds."""
        return _by_sign_over_seeds(measured)


Curves = Sequence[Sequence[float]]
"""Seed → a metric of validation, epoch by epoch."""
Claim = Difference | DifferenceOfDifferences | NoDifference | BestValue | Crossing | Start | Overfitting
"""An entry of a `claims.yaml`."""


# --- What rules share ----------------------------------------------------------------------------------------


def _by_sign(
    measured: Verdict, margin: float, sign: int = 1, at_most: float | None = None
) -> tuple[str, str]:
    """Whether a difference has the claimed sign, and the claimed size."""
    if measured.sign == sign:
        return _by_size(measured, sign, at_most)
    if measured.sign:
        return OPPOSITE, ""
    signs = [interval.sign for interval in measured.bounds]
    # A published effect within the margin is not refuted by a measured effect within the margin.
    small = measured.published is not None and abs(measured.published) <= margin
    if measured.within(margin) and not small and not any(signs):
        return NO_DIFFERENCE, f"within ±{margin:g}"
    if not signs[0]:
        return INCONCLUSIVE, "the interval over the images contains zero"
    if signs[0] != signs[-1]:
        return INCONCLUSIVE, "the interval over the seeds contains zero"
    return INCONCLUSIVE, f"p {measured.p:.2f} after Holm"


def _by_size(measured: Verdict, sign: int, at_most: float | None) -> tuple[str, str]:
    """Whether a difference that has the claimed sign is of the claimed size."""
    ends = [sorted((sign * bound.low, sign * bound.high)) for bound in measured.bounds]
    nearest, farthest = min(low for low, _ in ends), max(high for _, high in ends)
    if at_most is not None:
        if nearest > at_most:
            return LARGER, f"above {at_most:g}"
        if farthest <= at_most:
            return measured.holds, f"at most {at_most:g}"
        return INCONCLUSIVE, f"may be above {at_most:g}"
    published = measured.published
    if measured.own and published is not None and farthest < sign * published:
        return SMALLER, f"{text.signed(measured.value)} for {text.signed(published)}"
    return measured.holds, ""


def _by_sign_over_seeds(measured: Verdict, sign: int = 1) -> tuple[str, str]:
    if not measured.sign:
        return INCONCLUSIVE, "the interval over the seeds contains zero"
    return (measured.holds if measured.sign == sign else OPPOSITE), ""


def _gaps(first: Curves, second: Curves) -> np.ndarray:
    """Seed × epoch: the first curve less the second, as far as all curves go."""
    shortest = min(map(len, [*first, *second]))
    return np.array([np.subtract(a[:shortest], b[:shortest]) for a, b in zip(first, second, strict=True)])


def _passes(gap: np.ndarray) -> int | None:
    """The epoch, from 1, from which a gap stays above zero; `None` where it does not end above zero."""
    below = np.flatnonzero(gap <= 0)
    last = int(below[-1]) + 1 if len(below) else 0
    return last + 1 if last < len(gap) else None


def _over_seeds(values: np.ndarray) -> dict[str, Any]:
    return {
        "value": float(np.mean(values)),
        "over_seeds": intervals.seed_interval(values),
        "paper_sd": stdev(values) or None if len(values) > 1 else None,
    }
