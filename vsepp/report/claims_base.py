"""What kinds of claims share: what each has, how a difference of test scores is measured, and the rule of those that claim a sign."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from vsepp.base.declared import STRICT, PositiveFloat
from vsepp.evaluation import intervals
from vsepp.evaluation.intervals import Effect
from vsepp.report import text
from vsepp.report.entries import AveragedMetric, Protocol
from vsepp.report.pairing import Material
from vsepp.report.verdicts import (
    INCONCLUSIVE,
    LARGER,
    NO_DIFFERENCE,
    OPPOSITE,
    SMALLER,
    Measured,
    Ruling,
    Verdict,
    comparable,
)

OF_ITS_OWN = ("claim", "place", "note", "quotes", "runs", "protocol", "row")
"""Keys that a claim may have otherwise than the claim that it quotes."""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class AnyClaim:
    """What a claim of any kind says."""

    in_points: ClassVar[bool] = True
    """Whether its effect is a difference in points, not an epoch."""
    has_ratio: ClassVar[bool] = False
    """Whether our effect over the paper's is a number of interest."""
    denies: ClassVar[bool] = False
    """Whether it says that there is no difference."""

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
class ClaimOfRuns(AnyClaim):
    """A claim about runs that it lists."""

    runs: tuple[str, ...]
    """Run ids, the claim's subject first."""

    @property
    def n_runs(self) -> int:
        """How many runs it lists."""
        return 2

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Model and baseline of each difference."""
        model, baseline = self.runs
        return ((model, baseline),)

    @model_validator(mode="after")
    def _has_its_runs(self) -> ClaimOfRuns:
        if len(self.runs) != self.n_runs:
            raise ValueError(f"runs: expected {self.n_runs}, got {len(self.runs)}")
        for pair in self.pairs:
            refuse_twice(pair)
        if len(set(self.pairs)) < len(self.pairs):
            raise ValueError("runs: a difference is compared with itself; name other runs")
        return self

    @property
    def named(self) -> tuple[str, ...]:
        """Run ids."""
        return self.runs


def refuse_twice(runs: Sequence[str]) -> None:
    """Refuse a run that is compared with itself."""
    if twice := next((run for run in runs if runs.count(run) > 1), None):
        raise ValueError(f"runs: {twice} is compared with itself; name another run")


@dataclass(frozen=True, config=STRICT, kw_only=True)
class ClaimOnTest(ClaimOfRuns):
    """A claim about test scores of two or more runs."""

    protocol: Protocol
    """Under which they are compared."""
    margin: PositiveFloat = 1.0
    """Points within which there is no difference."""
    published: Annotated[dict[AveragedMetric, float | None], Field(min_length=1)]
    """Metric → the paper's effect in points; null if the paper prints no number."""

    def measure(self, metric: str, material: Material, tests: int) -> Measured:
        """The effect on the test images; `tests`: how many p will be corrected for."""
        compared = comparable(self.runs, self.protocol, material.models)
        if isinstance(compared, Measured):
            return compared
        values = {run: compared.values(run, self.protocol, metric) for run in self.runs}
        (model, baseline), *others = ((values[model], values[baseline]) for model, baseline in self.pairs)
        for other_model, other_baseline in others:  # (a − b) − (c − d) is a + d less b + c
            model, baseline = model + other_baseline, baseline + other_model
        return measured_difference(metric, model, baseline, tests, compared.notes, alone=not others)


def measured_difference(
    metric: str, model: np.ndarray, baseline: np.ndarray, tests: int, notes: Sequence[str], alone: bool = True
) -> Measured:
    """How far one side lies above another, `(seeds, n_images)` each; `alone`: whether each is one run."""
    effect, mcnemar = intervals.effect(list(baseline), list(model), tests), list[float]()
    if alone and metric == "i2t_r1":
        mcnemar = [intervals.mcnemar(*seed) for seed in zip(baseline, model, strict=True)]
    return Measured(effect, len(model), notes, mcnemar=tuple(mcnemar))


def effect_of(verdict: Verdict) -> Effect:
    """The effect of a claim that is judged, which there is for all kinds but a crossing."""
    assert verdict.effect
    return verdict.effect


def by_sign(verdict: Verdict, margin: float, sign: int = 1, at_most: float | None = None) -> Ruling:
    """Whether a difference has the claimed sign, and the claimed size."""
    effect = effect_of(verdict)
    if effect.sign == sign:
        return _by_size(verdict, sign, at_most)
    if effect.sign:
        return OPPOSITE, ""
    # A published effect within the margin is not refuted by a measured effect within the margin.
    small = verdict.published is not None and abs(verdict.published) <= margin
    if effect.within(margin) and not small and not any(bound.sign for bound in effect.bounds):
        return NO_DIFFERENCE, f"within ±{margin:g}"
    return INCONCLUSIVE, effect.why


def _by_size(verdict: Verdict, sign: int, at_most: float | None) -> Ruling:
    """Whether a difference that has the claimed sign is of the claimed size."""
    effect, published = effect_of(verdict), verdict.published
    ends = [sorted((sign * bound.low, sign * bound.high)) for bound in effect.bounds]
    nearest, farthest = min(low for low, _ in ends), max(high for _, high in ends)
    if at_most is not None:
        if nearest > at_most:
            return LARGER, f"above {at_most:g}"
        if farthest <= at_most:
            return verdict.holds, f"at most {at_most:g}"
        return INCONCLUSIVE, f"may be above {at_most:g}"
    if verdict.own and published is not None and farthest < sign * published:
        return SMALLER, f"{text.signed(effect.value)} for {text.signed(published)}"
    return verdict.holds, ""
