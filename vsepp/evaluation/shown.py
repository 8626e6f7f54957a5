"""An evaluation to read. No number depends on it, so a change here evaluates nothing again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vsepp.base.declared import TASKS
from vsepp.base.progress import table
from vsepp.base.words import count, plural, rounded
from vsepp.evaluation.intervals import Interval, image_intervals
from vsepp.evaluation.metrics import AT_CHANCE, AVERAGED, METRICS, per_image, ranks_like_chance
from vsepp.evaluation.ratings import ESTIMATES

if TYPE_CHECKING:
    from vsepp.evaluation.evaluate import Evaluation


def evaluation_text(evaluation: Evaluation) -> str:
    """What was ranked, each metric of each task with its 95 % interval over the images, where it has one, and notes."""
    truth, ranks, intervals = evaluation.truth, evaluation.ranks, _intervals(evaluation)
    words = evaluation.similarity
    words = f"{words} similarity" if words.isidentifier() else words
    again = f", re-ranked, {evaluation.reranked} of {evaluation.fold_size}" if evaluation.lists else ""
    rows = [["", *(TASKS[task] for task in ranks)]]
    for key, metric in METRICS.items():
        cells = (_cell(metric(ranks[task]), intervals.get(f"{task}_{key}")) for task in ranks)
        rows.append([metric.name, *cells])
    lines = [
        f"{'truth' if truth.by_people else 'protocol'} {evaluation.protocol}: {plural(len(truth.folds), 'fold')} of "
        f"{plural(evaluation.fold_size, 'image')}, {plural(evaluation.shape[1], 'caption')} in all, {words}{again}",
        f"queries: {', '.join(f'{count(len(of.counts))} of {TASKS[task]}' for task, of in ranks.items())}",
        *table(rows, "l" + "r" * len(ranks)),
        f"rsum {_cell(evaluation.metrics.rsum, intervals.get('rsum'))}",
    ]
    lines += [
        f"{what.upper()}: Spearman {rounded(each.value)} ± {rounded(each.sd)} over {plural(ESTIMATES, 'drawing')}; over images "
        f"[{rounded(each.low)}, {rounded(each.high)}]"
        for what, each in evaluation.correlations.items()
    ]
    if truth.absent:
        lines.append(f"not found, since outside the test set: {plural(truth.absent, 'correct caption')}")
    if truth.by_people:
        lines.append(f"digest {truth.digest}")
    if ranks_like_chance(ranks, *evaluation.shape):
        lines.append(f"{evaluation.protocol}: {AT_CHANCE}")
    return "\n".join(lines)


def _intervals(evaluation: Evaluation) -> dict[str, Interval]:
    """Metric → its interval over the images; one image has none."""
    values = {name: of for name in AVERAGED if (of := per_image(evaluation.ranks, name)) is not None}
    of_images = np.stack([*values.values()])
    if of_images.shape[1] < 2:
        return {}
    return dict(zip(values, image_intervals(of_images), strict=True))


def _cell(value: float, ends: Interval | None) -> str:
    return rounded(value) + (f" [{rounded(ends.low)}, {rounded(ends.high)}]" if ends else "")
