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

`docs/reading.md` has a table of all verdicts and when they are given. `vsepp.reporting.measured` reads effects off the runs, and
asks the rules here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from vsepp.evaluation import intervals
from vsepp.evaluation.intervals import Interval
from vsepp.reporting import filters
from vsepp.reporting.report_specs import ClaimSpec

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


@dataclass(frozen=True)
class Verdict:
    """One claim, the measured effect, and the verdict."""

    spec: ClaimSpec
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

    @property
    def judged(self) -> bool:
        """Whether its runs were made."""
        return self.word != NOT_RUN

    @property
    def outcome(self) -> str:
        """One of `OUTCOMES`."""
        if self.word == NO_DIFFERENCE and self.spec.kind == "no_difference":
            return AS_CLAIMED
        return next(outcome for outcome, words in OUTCOMES.items() if self.word in words)

    @property
    def interval(self) -> Interval | None:
        """The wider one of both intervals."""
        return intervals.wider(self.images, self.over_seeds) if self.images else self.over_seeds

    @property
    def ratio(self) -> float | None:
        """Our effect over the paper's effect."""
        differs = self.spec.kind in ("difference", "difference_of_differences")
        published = self.spec.published
        return self.value / published if differs and self.value is not None and published else None

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


def of_the_paper(verdicts: Iterable[Verdict]) -> tuple[list[Verdict], list[Verdict]]:
    """Verdicts on the paper's claims, and verdicts on comparisons of one's own."""
    verdicts = list(verdicts)
    return [v for v in verdicts if v.spec.place], [v for v in verdicts if not v.spec.place]


def counts(verdicts: Iterable[Verdict]) -> list[tuple[str, int]]:
    """How many claims got which verdict; verdicts that no claim got are left out."""
    numbers = Counter(verdict.word for verdict in verdicts)
    return [(word, numbers[word]) for word in SIGNS if numbers[word]]


# Each rule returns the verdict, and its grounds beside the intervals.


def rule_of(measured: Verdict) -> tuple[str, str]:
    """The verdict on what was measured: by the rule of the claim's kind, where several seeds give an interval."""
    if measured.seeds == 1:
        if measured.images is None:
            return ONE_SEED, "curves need several seeds"
        where = {1: "lies above zero", -1: "lies below zero", 0: "contains zero"}[measured.images.sign]
        return ONE_SEED, f"the interval over the images {where}"
    if None in (measured.ends or [measured.over_seeds]):
        return INCONCLUSIVE, "the seeds have equal results, so they give no interval"
    return _RULES.get(measured.spec.kind, _difference)(measured)


def _difference(measured: Verdict) -> tuple[str, str]:
    claim = measured.spec
    if measured.sign == claim.sign:
        return _size(measured)
    if measured.sign:
        return OPPOSITE, ""
    signs = [interval.sign for interval in measured.bounds]
    # A published effect within the margin is not refuted by a measured effect within the margin.
    small = claim.published is not None and abs(claim.published) <= claim.margin
    if _within_margin(measured) and not small and not any(signs):
        return NO_DIFFERENCE, f"within ±{claim.margin:g}"
    if not signs[0]:
        return INCONCLUSIVE, "the interval over the images contains zero"
    if signs[0] != signs[-1]:
        return INCONCLUSIVE, "the interval over the seeds contains zero"
    return INCONCLUSIVE, f"p {measured.p:.2f} after Holm"


def _size(measured: Verdict) -> tuple[str, str]:
    """Whether a difference that has the claimed sign is of the claimed size."""
    claim = measured.spec
    ends = [sorted((claim.sign * bound.low, claim.sign * bound.high)) for bound in measured.bounds]
    nearest, farthest = min(low for low, _ in ends), max(high for _, high in ends)
    if claim.at_most is not None:
        if nearest > claim.at_most:
            return LARGER, f"above {claim.at_most:g}"
        if farthest <= claim.at_most:
            return measured.holds, f"at most {claim.at_most:g}"
        return INCONCLUSIVE, f"may be above {claim.at_most:g}"
    if measured.own and claim.published is not None and farthest < claim.sign * claim.published:
        return SMALLER, f"{filters.signed(measured.value)} for {filters.signed(claim.published)}"
    return measured.holds, ""


def _no_difference(measured: Verdict) -> tuple[str, str]:
    margin = measured.spec.margin
    if _within_margin(measured):
        return (REPRODUCED if measured.holds == REPRODUCED else NO_DIFFERENCE), f"within ±{margin:g}"
    return (OPPOSITE, "there is a difference") if measured.sign else (INCONCLUSIVE, f"not within ±{margin:g}")


def _within_margin(measured: Verdict) -> bool:
    return all(interval.within(measured.spec.margin) for interval in measured.bounds)


def _on_curves(measured: Verdict) -> tuple[str, str]:
    if not measured.sign:
        return INCONCLUSIVE, "the interval over the seeds contains zero"
    return (measured.holds if measured.sign == measured.spec.sign else OPPOSITE), ""


def _crossing(measured: Verdict) -> tuple[str, str]:
    first, last = (interval.sign for interval in measured.ends if interval)
    if first > 0:
        return OPPOSITE, "ahead from the first epoch on"
    if last < 0:
        return OPPOSITE, "behind after the last epoch"
    if zero := [f"after the {when} epoch" for when, sign in (("first", first), ("last", last)) if not sign]:
        return INCONCLUSIVE, f"the interval over the seeds contains zero {' and '.join(zero)}"
    epochs, published = measured.over_seeds, measured.spec.published
    if epochs is None:
        return INCONCLUSIVE, "some seed never passes"
    if published is None or epochs.low <= published <= epochs.high:
        return measured.holds, ""
    return SAME, f"in another epoch than {published:g}"


_RULES = {
    "no_difference": _no_difference,
    "start": _on_curves,
    "overfitting": _on_curves,
    "crossing": _crossing,
}
"""Kind of claim → its rule; all others are differences of test scores."""
