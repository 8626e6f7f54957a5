"""Models on one test set: how much each pair differs, and groups of those that no test tells apart."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from string import ascii_letters
from typing import Any, TypeVar

import numpy as np

from vsepp.evaluation import intervals
from vsepp.evaluation.intervals import Effect, Interval

Values = Mapping[str, Mapping[int, np.ndarray]]
"""Model → seed → a metric's values for each test image, `(n_images,)`."""
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Told:
    """A difference between two models in one metric, and whether it counts."""

    effect: Effect
    """How much larger the first one is."""
    p: float
    """p of the permutation test, corrected after Holm for all differences that are told together."""

    @property
    def ahead(self) -> int:
        """1 where the first model is ahead, -1 where the second is, 0 where no difference can be told."""
        return self.effect.sign if self.p < intervals.ALPHA else 0

    def to_dict(self) -> dict[str, Any]:
        """Nothing rounded."""
        images, seeds = self.effect.images, self.effect.seeds
        return {
            "difference": self.effect.value,
            "by_seed": list(self.effect.by_seed),
            "interval_images": bounds(images),
            "interval_seeds": bounds(seeds),
            "p": self.effect.p,
            "p_holm": self.p,
        }


@dataclass(frozen=True, eq=False)
class Standing:
    """One model among those that it is compared with, in one metric."""

    label: str
    n_seeds: int
    """That it is compared on."""
    trouble: str
    """Why its scores say nothing of it: then it is in no comparison."""
    level: float
    """Mean over test images and seeds."""
    images: Interval
    seeds: Interval | None
    """`None` with one seed."""
    below_best: Effect | None
    """How much the best model is above this one, where both are compared."""
    above: Mapping[str, Told]
    """Label → how much this one is above each one behind it, where both are compared."""

    @property
    def alike(self) -> frozenset[str]:
        """Labels of the models behind it that no test tells from it."""
        return frozenset(label for label, told in self.above.items() if not told.ahead)


def bounds(interval: Interval | None) -> list[float] | None:
    """Both ends of an interval, where there is one."""
    return [interval.low, interval.high] if interval else None


def tell(pairs: Mapping[Key, tuple[Sequence[np.ndarray], Sequence[np.ndarray]]]) -> dict[Key, Told]:
    """Differences between two models each, all corrected together.

    Parameters
    ----------
    pairs
        Of the first model and of the second, per seed, the values of the same images, `(n_images,)`.
    """
    effects = {key: intervals.effect(second, first, len(pairs)) for key, (first, second) in pairs.items()}
    corrected = intervals.holm([effect.p for effect in effects.values()])
    return {key: Told(effect, p) for (key, effect), p in zip(effects.items(), corrected, strict=True)}


def standings(metrics: Mapping[str, Values], trouble: Mapping[str, str]) -> dict[str, list[Standing]]:
    """Each model's level in each metric, the best first, and its differences to the others, corrected over pairs and metrics together.

    Parameters
    ----------
    metrics
        Metric, where more is better → values of the models. Two are compared on the seeds that both have.
    trouble
        Model → why it is in no comparison; empty where it is in all.
    """
    levels = {metric: _levels(values) for metric, values in metrics.items()}
    sound = {metric: [label for label in level if not trouble[label]] for metric, level in levels.items()}
    pairs = {}
    for metric, values in metrics.items():
        for first, second in combinations(sound[metric], 2):
            if seeds := sorted(values[first].keys() & values[second].keys()):
                of_first, of_second = ([values[label][seed] for seed in seeds] for label in (first, second))
                pairs[metric, first, second] = of_first, of_second
    told = tell(pairs)

    def standing(metric: str, label: str) -> Standing:
        by_image = np.stack(list(metrics[metric][label].values()))
        best = told.get((metric, sound[metric][0], label)) if sound[metric] else None
        above = {key[2]: one for key, one in told.items() if key[:2] == (metric, label)}
        return Standing(
            label,
            len(by_image),
            trouble[label],
            levels[metric][label],
            images=intervals.image_interval(by_image.mean(axis=0)),
            seeds=intervals.seed_interval(by_image.mean(axis=1)),
            below_best=best.effect if best else None,
            above=above,
        )

    return {metric: [standing(metric, label) for label in level] for metric, level in levels.items()}


def _levels(values: Values) -> dict[str, float]:
    """Model → mean over test images and seeds, the best first."""
    level = {label: float(np.mean(list(by_seed.values()))) for label, by_seed in values.items()}
    return dict(sorted(level.items(), key=lambda item: -item[1]))


def ties(methods: Sequence[Standing]) -> list[tuple[Standing, Standing]]:
    """First and last of each longest row of neighbours of which no two were found to differ; `methods` are sound, best first."""
    rows: list[tuple[int, int]] = []
    for first in range(len(methods)):
        last = first
        while last + 1 < len(methods) and all(
            methods[last + 1].label in method.alike for method in methods[first : last + 1]
        ):
            last += 1
        if last > first and not (rows and rows[-1][1] == last):
            rows.append((first, last))
    return [(methods[first], methods[last]) for first, last in rows]


def letters(methods: Sequence[Standing]) -> dict[str, str]:
    """Label → letters: two models share one where no difference was found between them, and only there.

    A letter is a largest group of models of which no two differ, found by inserting each difference and absorbing groups that others
    hold: Piepho (2004), An Algorithm for a Letter-Based Representation of All-Pairwise Comparisons, without its sweeping: there
    may be more letters than are needed.

    Parameters
    ----------
    methods
        That are compared, the best first: it has the letter a.
    """
    place = {method.label: number for number, method in enumerate(methods)}
    groups = {frozenset(place)}
    for first, second in combinations(methods, 2):
        if second.label in first.alike:
            continue
        pair = {first.label, second.label}
        split = {group - {one} if pair <= group else group for group in groups for one in pair}
        groups = {group for group in split if not any(group < other for other in split)}
    in_order = sorted(groups, key=lambda group: sorted(place[label] for label in group))
    # After z come capital letters, then letters with a prime.
    names = [ascii_letters[number % 52] + "'" * (number // 52) for number in range(len(in_order))]
    return {
        label: "".join(name for name, group in zip(names, in_order, strict=True) if label in group)
        for label in place
    }
