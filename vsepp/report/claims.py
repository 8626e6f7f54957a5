"""Claims of the paper, and comparisons of one's own: what each says, what is measured for it, and the rule of its verdict.

| kind | runs | effect | holds where |
|---|---|---|---|
| `difference` | a, b | a − b | it has the claimed sign, and is not larger than a size that the claim gives |
| `difference` | a | a − a number that others published | the same; on the paper's own data alone |
| `difference_of_differences` | a, b, c, d | (a − b) − (c − d) | it has the claimed sign |
| `no_difference` | a, b | a − b | all intervals lie within the margin |
| `best_value` | one a size | best claimed size − best other size, both chosen on validation | it is above zero |
| `crossing` | a, b | epoch from which a stays above b on validation | a is below b after the first epoch and above it after the last |
| `start` | a, b | a − b on validation after the first epoch | it has the claimed sign |
| `overfitting` | a, b | how much further a falls than b, from the best epoch to the last, on validation | it is above the margin, and b does not fall |

A kind is a class: its fields are the keys of its entries in a `claims.yaml`, `measure` reads an effect off the runs, `rule` gives the
verdict. `vsepp.report.verdicts` has what verdicts are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from vsepp.base.declared import STRICT, Count, PositiveFloat
from vsepp.evaluation import intervals
from vsepp.evaluation.intervals import Effect, Interval
from vsepp.report import text
from vsepp.report.claims_base import (
    AnyClaim,
    ClaimOfRuns,
    ClaimOnTest,
    by_sign,
    effect_of,
    measured_difference,
    refuse_twice,
)
from vsepp.report.entries import Protocol, ValidationMetric
from vsepp.report.pairing import Material
from vsepp.report.verdicts import (
    INCONCLUSIVE,
    NO_DIFFERENCE,
    OPPOSITE,
    REPRODUCED,
    SAME,
    Measured,
    Ruling,
    Verdict,
    comparable,
    failed,
    not_run,
)

_ROUNDED = 12**-0.5
"""Standard deviation of an epoch by rounding to whole epochs alone."""

Curves = Sequence[Sequence[float]]
"""Seed → a metric of validation, epoch by epoch."""


# --- On the test images --------------------------------------------------------------------------------------


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Difference(ClaimOnTest):
    """One run lies above another, or above a number that others published."""

    has_ratio: ClassVar[bool] = True

    kind: Literal["difference"]
    sign: Literal[1, -1] = 1
    """Sign of the effect that the paper claims."""
    at_most: PositiveFloat | None = None
    """Points above which a difference is not the one that the paper calls slight."""
    row: str | None = None
    """The row of published.csv that the one run is compared with."""

    @property
    def n_runs(self) -> int:
        """How many runs it lists: one beside a published row."""
        return 1 if self.row else 2

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """None beside a published row."""
        return () if self.row else super().pairs

    @property
    def is_gap(self) -> bool:
        """Not beside a published row."""
        return not self.row

    def measure(self, metric: str, material: Material, tests: int) -> Measured:
        """The effect, of a published number where data and encoders are the paper's; the number has no interval of its own."""
        if not self.row:
            return super().measure(metric, material, tests)
        if not material.report.is_own(self.runs):
            return not_run(["the published number belongs to the paper's own data and encoders"])
        compared = comparable(self.runs, self.protocol, material.models)
        if isinstance(compared, Measured):
            return compared
        (run,) = self.runs
        model = compared.values(run, self.protocol, metric)
        baseline = np.full_like(model, float(material.published["", self.row][metric]))
        return measured_difference(metric, model, baseline, tests, compared.notes, alone=False)

    def rule(self, verdict: Verdict) -> Ruling:
        """Verdict and grounds."""
        return by_sign(verdict, self.margin, self.sign, self.at_most)


@dataclass(frozen=True, config=STRICT, kw_only=True)
class DifferenceOfDifferences(ClaimOnTest):
    """A gap between two runs is wider than the gap between two others."""

    has_ratio: ClassVar[bool] = True

    kind: Literal["difference_of_differences"]
    sign: Literal[1, -1] = 1
    """Sign of the effect that the paper claims."""

    @property
    def n_runs(self) -> int:
        """How many runs it lists."""
        return 4

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The wider gap, and the other."""
        model, baseline, other_model, other_baseline = self.runs
        return (model, baseline), (other_model, other_baseline)

    def rule(self, verdict: Verdict) -> Ruling:
        """Verdict and grounds."""
        return by_sign(verdict, self.margin, self.sign)


@dataclass(frozen=True, config=STRICT, kw_only=True)
class NoDifference(ClaimOnTest):
    """There is no gap between two runs."""

    denies: ClassVar[bool] = True

    kind: Literal["no_difference"]

    @property
    def is_gap(self) -> bool:
        """Always."""
        return True

    def rule(self, verdict: Verdict) -> Ruling:
        """Verdict and grounds."""
        effect = effect_of(verdict)
        if effect.within(self.margin):
            word = REPRODUCED if verdict.holds == REPRODUCED else NO_DIFFERENCE
            return word, f"within ±{self.margin:g}"
        if effect.sign:
            return OPPOSITE, "there is a difference"
        return INCONCLUSIVE, f"not within ±{self.margin:g}"


@dataclass(frozen=True, config=STRICT, kw_only=True)
class BestValue(AnyClaim):
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
        refuse_twice(self.named)
        return self

    @property
    def named(self) -> tuple[str, ...]:
        """Run ids by size."""
        return tuple(self.runs[size] for size in sorted(self.runs))

    def claims(self, size: int) -> bool:
        """Whether a size is among those of which one is claimed to be the best."""
        return self.best[0] <= size <= self.best[1]

    def measure(self, metric: str, material: Material, tests: int) -> Measured:
        """The best of the claimed sizes less the best of the others, chosen on validation; runs of all other sizes must be there."""
        sizes = sorted(self.runs.items())
        missing = [run for _, run in sizes if run not in material.models]
        if rivals := [run for size, run in sizes if run in missing and not self.claims(size)]:
            return not_run(rivals)
        bad = material.trouble(self.named)
        # A size without a sound training is no rival, and is named.
        sound = {size: run for size, run in sizes if run not in (*missing, *bad)}
        if len({self.claims(size) for size in sound}) < 2:
            return failed(bad, material.models) if bad else not_run(missing)
        compared = comparable(sound.values(), self.protocol, material.models)
        if isinstance(compared, Measured):
            return compared
        means = {
            size: float(np.mean([model.validated(metric) for model in compared.models[run]]))
            for size, run in sound.items()
        }
        best = max((size for size in sound if self.claims(size)), key=means.__getitem__)
        rival = max((size for size in sound if not self.claims(size)), key=means.__getitem__)
        low, high = self.best
        note = f"best on validation of {low} to {high}: {best}; of the others: {rival}"
        if left_out := [size for size, _ in sizes if size not in sound]:
            note += f"; left out: {text.listing(left_out)}"
        model, baseline = (compared.values(sound[size], self.protocol, metric) for size in (best, rival))
        return measured_difference(metric, model, baseline, tests, [note, *compared.notes])

    def rule(self, verdict: Verdict) -> Ruling:
        """Verdict and grounds."""
        return by_sign(verdict, self.margin)


# --- On curves of validation ---------------------------------------------------------------------------------


@dataclass(frozen=True, config=STRICT, kw_only=True)
class ClaimOnCurves(ClaimOfRuns):
    """A claim about two runs' curves of validation."""

    published: Annotated[dict[ValidationMetric, float | None], Field(min_length=1)]
    """Metric of validation → the paper's effect in points, or its epoch; null if it prints no number."""
    epochs: Annotated[int, Field(ge=0)] = 0
    """Fewest epochs that the runs must have, else it is not run."""

    @property
    def protocol(self) -> None:
        """None: validation has none."""
        return None

    def measure(self, metric: str, material: Material, tests: int) -> Measured:
        """What `of_curves` finds, where the curves are long enough."""
        compared = comparable(self.runs, None, material.models)
        if isinstance(compared, Measured):
            return compared
        curves = {
            run: [list(model.history(metric).values()) for model in compared.models[run]] for run in self.runs
        }
        shortest = min(len(curve) for seeds in curves.values() for curve in seeds)
        if shortest < self.epochs:
            return not_run([f"runs of {self.epochs} epochs (these have {shortest})"])
        measured = self.of_curves(*curves.values())
        return replace(measured, seeds=len(compared.seeds), notes=[*measured.notes, *compared.notes])

    def of_curves(self, model: Curves, baseline: Curves) -> Measured:
        """The effect, with words for it."""
        raise NotImplementedError


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Crossing(ClaimOnCurves):
    """A run falls behind first and is ahead at last."""

    in_points: ClassVar[bool] = False

    kind: Literal["crossing"]

    def of_curves(self, model: Curves, baseline: Curves) -> Measured:
        """Where the first passes the second; and the gap after the first epoch, and after the last."""
        gaps = _gaps(model, baseline)
        epochs = [_passes(gap) for gap in gaps]
        note = ", ".join(f"passes in epoch {epoch}" if epoch else "never passes" for epoch in epochs)
        ends = intervals.seed_interval(gaps[:, 0]), intervals.seed_interval(gaps[:, -1])
        passed = tuple(float(epoch) for epoch in epochs if epoch)
        if len(passed) < len(epochs):
            return Measured(notes=[note], beside=ends)
        over_seeds = intervals.seed_interval(passed, least_sd=_ROUNDED)
        effect = Effect(float(np.mean(passed)), passed, seeds=over_seeds)
        return Measured(effect, notes=[note], beside=ends)

    def rule(self, verdict: Verdict) -> Ruling:
        """Verdict and grounds."""
        start, end = (interval.sign for interval in verdict.measured.beside if interval)
        if start > 0:
            return OPPOSITE, "ahead from the first epoch on"
        if end < 0:
            return OPPOSITE, "behind after the last epoch"
        if zero := [
            f"after the {when} epoch" for when, sign in (("first", start), ("last", end)) if not sign
        ]:
            return INCONCLUSIVE, f"the interval over the seeds contains zero {' and '.join(zero)}"
        published, epochs = verdict.published, verdict.effect.seeds if verdict.effect else None
        if epochs is None:
            return INCONCLUSIVE, "some seed never passes"
        if published is None or epochs.low <= published <= epochs.high:
            return verdict.holds, ""
        return SAME, f"in another epoch than {published:g}"


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Start(ClaimOnCurves):
    """A run starts ahead of another, or behind."""

    kind: Literal["start"]
    sign: Literal[1, -1] = 1
    """Sign of the effect that the paper claims."""

    def of_curves(self, model: Curves, baseline: Curves) -> Measured:
        """How far the first starts ahead."""
        return Measured(_over_seeds(_gaps(model, baseline)[:, 0]), notes=["after the first epoch"])

    def rule(self, verdict: Verdict) -> Ruling:
        """Verdict and grounds."""
        effect = effect_of(verdict)
        if not effect.sign:
            return INCONCLUSIVE, effect.why
        return (verdict.holds if effect.sign == self.sign else OPPOSITE), ""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Overfitting(ClaimOnCurves):
    """A run falls from its best epoch to the last, and another does not."""

    kind: Literal["overfitting"]
    margin: PositiveFloat = 1.0
    """Points within which a run does not fall."""

    def of_curves(self, model: Curves, baseline: Curves) -> Measured:
        """How much further the first falls; and how far the second falls."""
        falls = [np.array([max(curve) - curve[-1] for curve in curves]) for curves in (model, baseline)]
        means = [f"{run} falls by {np.mean(fall):.1f}" for run, fall in zip(self.runs, falls, strict=True)]
        note = f"from its best epoch to the last {', '.join(means)} points on average"
        of_model, of_baseline = falls
        mean = float(np.mean(of_baseline))
        # A run that falls equally on all seeds, as one that ends with its best epoch, falls by that for certain.
        fall = intervals.seed_interval(of_baseline) or Interval(mean, mean)
        return Measured(_over_seeds(of_model - of_baseline), notes=[note], beside=(fall,))

    def rule(self, verdict: Verdict) -> Ruling:
        """Verdict and grounds."""
        effect, (other,), margin = effect_of(verdict), verdict.measured.beside, f"{self.margin:g}"
        assert effect.seeds and other, "several seeds were compared, with unequal results"
        if effect.within(self.margin) and other.low <= self.margin:
            return NO_DIFFERENCE, f"within ±{margin}"
        if effect.sign < 0:
            return OPPOSITE, ""
        if other.low > self.margin:
            return OPPOSITE, f"{self.runs[1]} falls by more than {margin}, too"
        if not effect.sign:
            return INCONCLUSIVE, effect.why
        if effect.seeds.low <= self.margin:
            return INCONCLUSIVE, f"may be within ±{margin}"
        if other.high >= self.margin:
            return INCONCLUSIVE, f"{self.runs[1]} may fall by more than {margin}"
        return verdict.holds, ""


Claim = Difference | DifferenceOfDifferences | NoDifference | BestValue | Crossing | Start | Overfitting
"""An entry of a `claims.yaml`."""


def _over_seeds(by_seed: np.ndarray) -> Effect:
    """A difference of curves, which no test images are behind."""
    values = tuple(map(float, by_seed))
    return Effect(float(np.mean(by_seed)), values, seeds=intervals.seed_interval(by_seed))


def _gaps(model: Curves, baseline: Curves) -> np.ndarray:
    """Seed × epoch: the model's curve less the baseline's, as far as all curves go."""
    shortest = min(map(len, [*model, *baseline]))
    return np.array([np.subtract(a[:shortest], b[:shortest]) for a, b in zip(model, baseline, strict=True)])


def _passes(gap: np.ndarray) -> int | None:
    """The epoch, from 1, from which a gap stays above zero; `None` where it does not end above zero."""
    below = np.flatnonzero(gap <= 0)
    last = int(below[-1]) + 1 if len(below) else 0
    return last + 1 if last < len(gap) else None
