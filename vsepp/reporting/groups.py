"""Models on one test set: how much each pair differs, and groups of models that no test tells apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from string import ascii_letters
from typing import Any

import numpy as np

from vsepp.evaluation import intervals
from vsepp.evaluation.intervals import Effect, Interval


@dataclass(frozen=True)
class Told:
    """A difference between two models in one metric, and whether it counts."""

    effect: Effect
    """How much larger the first model's value is."""
    p: float
    """p of the permutation test, corrected after Holm for all differences that are told together."""

    @property
    def ahead(self) -> int:
        """1 where the first model is ahead, -1 where the second is, 0 where no difference can be told."""
        return self.effect.sign if self.p < intervals.ALPHA else 0


@dataclass(frozen=True, eq=False)
class Standing:
    """One model in one metric: its level, and its differences to the models that it is compared with."""

    label: str
    n_seeds: int
    trouble: str
    """Why its scores say nothing of the model: then it is in no comparison."""
    level: float
    """Mean over test images and seeds."""
    images: Interval
    seeds: Interval | None
    above: Mapping[str, Told]
    """Label of each model behind this one → how much this one is above it, where both are compared."""

    @property
    def alike(self) -> frozenset[str]:
        """Labels of the models behind it that no test tells from it."""
        return frozenset(label for label, told in self.above.items() if not told.ahead)


def tell(pairs: Mapping[Any, Sequence[Sequence[np.ndarray]]]) -> dict[Any, Told]:
    """Differences of pairs of models, corrected together.

    `pairs`: key → for both models, per seed, the values of the same images, `(n_images,)`.
    """
    effects = [intervals.effect(second, first, len(pairs)) for first, second in pairs.values()]
    corrected = intervals.holm([effect.p for effect in effects])
    return {key: Told(effect, p) for key, effect, p in zip(pairs, effects, corrected, strict=True)}


def standings(
    metrics: Mapping[str, Mapping[str, Mapping[int, np.ndarray]]],
    trouble: Mapping[str, str],
) -> dict[str, list[Standing]]:
    """Each model's level in each metric, the best first, and its differences to the others, corrected over pairs and metrics together.

    `metrics`: metric, more is better → model → seed → values of images, `(n_images,)`; pairs are compared on common seeds.
    `trouble`: model → why it is in no comparison, or nothing.
    """
    pairs = {}
    level, order = dict[tuple[str, str], float](), dict[str, list[str]]()
    for metric, values in metrics.items():
        level |= {(metric, label): float(np.mean(list(seeds.values()))) for label, seeds in values.items()}
        order[metric] = sorted(values, key=lambda label, of=metric: -level[of, label])  # type: ignore[misc]
        for first, second in combinations([label for label in order[metric] if not trouble[label]], 2):
            if seeds := sorted(values[first].keys() & values[second].keys()):
                pairs[metric, first, second] = [[values[one][n] for n in seeds] for one in (first, second)]
    told = tell(pairs)

    def standing(metric: str, label: str) -> Standing:
        by_image = np.stack(list(metrics[metric][label].values()))
        images = intervals.image_interval(by_image.mean(axis=0))
        seeds = intervals.seed_interval(by_image.mean(axis=1))
        above = {second: one for (of, first, second), one in told.items() if (of, first) == (metric, label)}
        return Standing(label, len(by_image), trouble[label], level[metric, label], images, seeds, above)

    return {metric: [standing(metric, label) for label in labels] for metric, labels in order.items()}


def ties(methods: Sequence[Standing]) -> list[tuple[Standing, Standing]]:
    """First and last model of each longest row of neighbours in which no two differ significantly; `methods`: sound, best first."""
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


def letters(models: Sequence[Standing]) -> dict[str, str]:
    """Label → letters: two models share a letter exactly where no difference was found between them; models in trouble have none.

    A letter is a largest group in which no two differ: insert-and-absorb of Piepho (2004), unswept, so some may be superfluous.
    """
    place = {model.label: number for number, model in enumerate(models) if not model.trouble}
    groups = {frozenset(place)}
    for first, second in combinations(models, 2):
        if second.label not in first.alike:
            pair = {first.label, second.label}
            split = {group - {one} if pair <= group else group for group in groups for one in pair}
            groups = {group for group in split if not any(group < other for other in split)}
    found = {model.label: "" for model in models}
    for number, group in enumerate(sorted(groups, key=lambda group: sorted(map(place.__getitem__, group)))):
        for label in group:
            found[label] += ascii_letters[number % 52] + "'" * (number // 52)
    return found
