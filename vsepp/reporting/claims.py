"""Claims of the paper, and comparisons of one's own, held against our runs: effect, intervals, verdict.

| kind | runs | effect | holds where |
|---|---|---|---|
| `difference` | a, b | a − b | it has the claimed sign, and is not larger than a size that the claim gives |
| `difference_of_differences` | a, b, c, d | (a − b) − (c − d) | it has the claimed sign |
| `above_published` | a | a − a number that others published | it has the claimed sign; on the paper's own data alone |
| `no_difference` | a, b | a − b | all intervals lie within the margin |
| `no_gain` | a, b | a − b | all intervals lie below the margin, and not below minus the margin |
| `best_value` | one a size | best claimed size − best other size, both chosen on validation | it is above zero |
| `crossing` | a, b | epoch from which a stays above b on validation | a is below b after the first epoch and above it after the last |
| `start` | a, b | a − b on validation after the first epoch | it has the claimed sign |
| `overfitting` | a, b | how much further a falls than b, from the best epoch to the last, on validation | it is above zero |

`docs/reading.md` has a table of all verdicts and when they are given. What is read off the runs is in `measured`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from vsepp.evaluation import intervals
from vsepp.evaluation.intervals import Effect, Interval
from vsepp.reporting import filters
from vsepp.reporting.measured import Measured, measure
from vsepp.reporting.records import AT_CHANCE, Records
from vsepp.reporting.specs import ClaimSpec, ContextSpec

REPRODUCED, SMALLER, SAME = "reproduced", "smaller", "same direction"
NO_DIFFERENCE, LARGER, WORSE, OPPOSITE = "no difference", "larger", "worse", "opposite"
INCONCLUSIVE, ONE_SEED = "inconclusive", "inconclusive (one seed)"
COLLAPSED, CHANCE = "not reproduced: collapsed", "not reproduced: like chance"
NOT_RUN = "not run"
FAILED = (COLLAPSED, CHANCE)
WORDS = (
    REPRODUCED, SMALLER, SAME, NO_DIFFERENCE, LARGER, WORSE, INCONCLUSIVE, ONE_SEED, OPPOSITE, *FAILED, NOT_RUN,
)  # fmt: skip
"""All verdicts, in the order in which they are counted."""


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
    borrowed: str = ""
    """Whose seeds the interval over the seeds is of, where there is one seed."""
    paper_sd: float | None = None
    """Standard deviation of the effect of one seed, by our seeds: how sure the paper's number may be."""
    p: float | None = None
    """Of the permutation test over the images, corrected after Holm for all claims of the report."""
    mcnemar: tuple[float, ...] = ()
    """Per seed, of differences of caption retrieval's R@1; not corrected."""

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
        differs = self.spec.kind in ("difference", "difference_of_differences", "above_published")
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
    measured = [_measured(claim, context, records, len(claims)) for claim in claims]
    tested = [found for found in measured if found.effect]
    corrected = dict(
        zip(map(id, tested), intervals.holm([e.effect.p for e in tested if e.effect]), strict=True)
    )
    return [
        _judged(claim, _own(claim, context), found, corrected.get(id(found)))
        for claim, found in zip(claims, measured, strict=True)
    ]


def _own(claim: ClaimSpec, context: ContextSpec) -> bool:
    return not context.data_note and not context.swaps(claim.roles)


def _measured(claim: ClaimSpec, context: ContextSpec, records: Records, tests: int) -> Measured:
    if claim.kind == "above_published" and not _own(claim, context):
        return Measured(missing=("the paper's own data and encoders, which the published number is of",))
    return measure(claim, records, tests)


def by_claim(verdicts: Iterable[Verdict]) -> list[list[Verdict]]:
    """The verdicts on each claim, one a metric."""
    found: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        found.setdefault(verdict.spec.id.partition("/")[0], []).append(verdict)
    return list(found.values())


def of_the_paper(verdicts: Iterable[Verdict]) -> tuple[list[Verdict], list[Verdict]]:
    """Verdicts on the paper's claims, and those on comparisons of one's own."""
    verdicts = list(verdicts)
    return [v for v in verdicts if v.spec.place], [v for v in verdicts if not v.spec.place]


def counts(verdicts: Iterable[Verdict]) -> list[tuple[str, int]]:
    """How many claims got which verdict; verdicts that none got are left out."""
    found = Counter(verdict.word for verdict in verdicts)
    return [(word, found[word]) for word in WORDS if found[word]]


def _judged(claim: ClaimSpec, own: bool, found: Measured, p: float | None) -> Verdict:
    if found.missing:
        why = "; ".join([f"not run: {filters.listing(found.missing)}", *found.told])
        return Verdict(claim, NOT_RUN, why, own)
    if found.failed:
        return Verdict(claim, CHANCE if found.failed.endswith(AT_CHANCE) else COLLAPSED, found.failed, own)
    value = found.effect.value if found.effect else float(np.mean(found.values))
    over_seeds = found.effect.seeds if found.effect else found.epochs or found.late
    word, why = _by_test(claim, own, found, p or 0.0) if found.effect else _by_seeds(claim, own, found)
    if found.seeds == 1 and not found.borrowed:
        word = ONE_SEED
        why = _over_images(found.effect) if found.effect else "curves need several seeds"
    borrowed = f"seeds of {found.borrowed}" if found.borrowed else ""
    return Verdict(
        claim,
        word,
        "; ".join(filter(None, (*found.told, why, borrowed))),
        own,
        seeds=found.seeds,
        value=None if np.isnan(value) else value,
        images=found.effect.images if found.effect else None,
        over_seeds=None if claim.kind == "crossing" and found.epochs is None else over_seeds,
        borrowed=found.borrowed,
        paper_sd=found.paper_sd if claim.published is not None else None,
        p=p,
        mcnemar=found.mcnemar,
    )


def _over_images(effect: Effect) -> str:
    """What one seed shows."""
    where = {1: "lies above zero", -1: "lies below zero", 0: "holds zero"}[effect.images.sign]
    return f"the interval over the images {where}"


def _by_test(claim: ClaimSpec, own: bool, found: Measured, p: float) -> tuple[str, str]:
    """The verdict on a difference of test scores."""
    effect = found.effect
    assert effect
    holds = REPRODUCED if own and claim.place else SAME
    if effect.seeds is None and found.seeds > 1:
        return INCONCLUSIVE, ""
    bounds = [effect.images, *([effect.seeds] if effect.seeds else [])]
    sign = effect.sign if p < intervals.ALPHA else 0
    if claim.kind == "no_difference":
        if effect.within(claim.margin):
            return (REPRODUCED if own and claim.place else NO_DIFFERENCE), f"within ±{claim.margin:g}"
        return (
            (OPPOSITE, "there is a difference") if sign else (INCONCLUSIVE, f"not within ±{claim.margin:g}")
        )
    if claim.kind == "no_gain":
        return _no_gain(claim, bounds, sign, holds)
    if sign == claim.sign:
        return _of_size(claim, own, bounds, effect.value, holds)
    if sign:
        return OPPOSITE, ""
    # An effect that is smaller than the margin is not refuted by one that lies within it.
    small = claim.published is not None and abs(claim.published) <= claim.margin
    if effect.within(claim.margin) and not small and not any(bound.sign for bound in bounds):
        return NO_DIFFERENCE, f"within ±{claim.margin:g}"
    if not effect.images.sign:
        return INCONCLUSIVE, "the interval over the images holds zero"
    if not effect.sign:
        return INCONCLUSIVE, "the interval over the seeds holds zero"
    return INCONCLUSIVE, f"p {p:.2f} after Holm"


def _no_gain(claim: ClaimSpec, bounds: Sequence[Interval], sign: int, holds: str) -> tuple[str, str]:
    if sign > 0:
        return OPPOSITE, "there is a gain"
    if max(bound.high for bound in bounds) < -claim.margin:
        return WORSE, f"a loss of more than {claim.margin:g}"
    if max(bound.high for bound in bounds) < claim.margin:
        return holds, f"below {claim.margin:g}"
    return INCONCLUSIVE, f"may reach {claim.margin:g}"


def _of_size(
    claim: ClaimSpec, own: bool, bounds: Sequence[Interval], value: float, holds: str
) -> tuple[str, str]:
    """The verdict on a difference that has the claimed sign: whether it is of the claimed size."""
    ends = [(claim.sign * bound.low, claim.sign * bound.high) for bound in bounds]
    if claim.at_most is not None:
        if all(min(end) > claim.at_most for end in ends):
            return LARGER, f"above {claim.at_most:g}"
        if all(max(end) <= claim.at_most for end in ends):
            return holds, f"at most {claim.at_most:g}"
        return INCONCLUSIVE, f"may be above {claim.at_most:g}"
    if own and claim.published is not None:
        farthest = max(max(end) for end in ends)
        if farthest < claim.sign * claim.published:
            return SMALLER, f"{filters.signed(value)} for {filters.signed(claim.published)}"
    return holds, ""


def _by_seeds(claim: ClaimSpec, own: bool, found: Measured) -> tuple[str, str]:
    """The verdict on validation curves."""
    if found.late is None or (claim.kind == "crossing" and found.early is None):
        return INCONCLUSIVE, "the seeds agree to the last digit, which tells no interval"
    holds = REPRODUCED if own and claim.place else SAME
    if claim.kind != "crossing":
        if not found.late.sign:
            return INCONCLUSIVE, "the interval over the seeds holds zero"
        return (holds, "") if found.late.sign == claim.sign else (OPPOSITE, "")
    assert found.early
    if found.early.sign > 0:
        return OPPOSITE, "ahead from the first epoch on"
    if found.late.sign < 0:
        return OPPOSITE, "behind after the last epoch"
    ends = {"first": found.early, "last": found.late}
    if zero := [f"after the {when} epoch" for when, interval in ends.items() if not interval.sign]:
        return INCONCLUSIVE, f"the interval over the seeds holds zero {' and '.join(zero)}"
    if found.epochs is None:
        return INCONCLUSIVE, "some seed never passes"
    if claim.published is None or found.epochs.low <= claim.published <= found.epochs.high:
        return holds, ""
    return SAME, f"in another epoch than {claim.published:g}"
