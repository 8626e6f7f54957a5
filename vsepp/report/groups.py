"""Models on one test set: their levels, and how much each pair differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
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
    def alike(self) -> list[str]:
        """Labels of the models behind it that no test tells from it."""
        return [label for label, told in self.above.items() if not told.ahead]


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
