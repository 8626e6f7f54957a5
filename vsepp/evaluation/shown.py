"""An evaluation to read. No number depends on it, so a change here evaluates nothing again."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from vsepp.base.declared import TASKS
from vsepp.base.words import count, plural, rounded, table
from vsepp.evaluation.intervals import Interval, image_intervals
from vsepp.evaluation.metrics import AT_CHANCE, AVERAGED, METRICS, per_image, ranks_like_chance
from vsepp.evaluation.paper import CUTS
from vsepp.evaluation.ratings import ESTIMATES
from vsepp.evaluation.truth import kinds

if TYPE_CHECKING:
    from vsepp.evaluation.evaluate import Evaluation

_ASKING = {"i": "image", "t": "caption"}


def evaluation_text(evaluation: Evaluation) -> str:
    """What was ranked, each known metric of each task with its 95 % interval over the images, where it has one, and notes."""
    truth, ranks, intervals = evaluation.truth, evaluation.ranks, _intervals(evaluation)
    words = evaluation.similarity
    words = f"{words} similarity" if words.isidentifier() else words
    again = f", re-ranked, {evaluation.reranked} of {evaluation.fold_size}" if evaluation.lists else ""
    rows = [["", *(TASKS[task] for task in ranks)]]
    for key, metric in METRICS.items():
        cells = [_cell(metric(ranks[task]), intervals.get(f"{task}_{key}")) for task in ranks]
        if any(cells):
            rows.append([metric.name, *cells])
    rsum = _cell(evaluation.metrics.rsum, intervals.get("rsum"))
    lines = [
        f"{'truth' if truth.by_people else 'protocol'} {evaluation.protocol}: {plural(len(truth.folds), 'fold')} of "
        f"{plural(evaluation.fold_size, 'image')}, {plural(evaluation.shape[1], 'caption')} in all, {words}{again}",
        f"queries: {', '.join(f'{count(len(asked.counts))} of {TASKS[task]}' for task, asked in ranks.items())}",
        *table(rows, "l" + "r" * len(ranks)),
        *([f"rsum {rsum}"] if rsum else []),
        *_left_out(evaluation),
        *_ties(evaluation),
    ]
    lines += [
        f"{name.upper()}: Spearman {rounded(spearman.value)} ± {rounded(spearman.sd)} over {plural(ESTIMATES, 'drawing')}; over "
        f"images [{rounded(spearman.low)}, {rounded(spearman.high)}]"
        for name, spearman in evaluation.correlations.items()
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
    values = {name: per_image(evaluation.ranks, name) for name in AVERAGED}
    known = {name: array for name, array in values.items() if array is not None}
    stacked = np.stack([*known.values()])
    if stacked.shape[1] < 2:
        return {}
    return dict(zip(known, image_intervals(stacked), strict=True))


def _left_out(evaluation: Evaluation) -> Iterator[str]:
    """Which metrics lists of the best are too short for."""
    ranks, depths = evaluation.ranks, evaluation.depths
    if not depths:
        return
    names = []
    for metric in METRICS.values():
        lacking = [task for task in depths if not metric.is_known(ranks[task])]
        if lacking:
            whose = "" if len(lacking) == len(ranks) else f" of {TASKS[lacking[0]]}"
            names.append(metric.name + whose)
    if math.isnan(evaluation.metrics.rsum):
        names.append("rsum")
    ends = " and ".join(f"{plural(depth, 'item')} in {TASKS[task]}" for task, depth in depths.items())
    yield f"left out, since the shortest list has {ends}: {', '.join(names)}"


def _ties(evaluation: Evaluation) -> Iterator[str]:
    """Of how many queries the order of tied items decides whether they count."""
    for k in CUTS:
        parts = []
        for task, ties in evaluation.ties.items():
            if number := ties.get(f"r{k}"):
                ranks = evaluation.ranks[task]
                folds = ranks.by_fold(ranks.hits(k) & ~ranks.tied_at(k))
                without = 100 * sum(hits.mean() for hits in folds) / len(folds)
                parts.append(
                    f"{count(number)} of {plural(len(ranks.counts), _ASKING[kinds(task).query])} ({rounded(without)} without them)"
                )
        if parts:
            yield f"R@{k}: tied with wrong items at the cut, a tie counts half: {', '.join(parts)}"


def _cell(value: float, ends: Interval | None) -> str:
    """Empty where the value is not known."""
    if math.isnan(value):
        return ""
    return rounded(value) + (f" [{rounded(ends.low)}, {rounded(ends.high)}]" if ends else "")
