"""A test set under a truth, as text: every metric of every task, with its interval over images."""

from __future__ import annotations

import numpy as np

from vsepp.base.declared import TASKS
from vsepp.evaluation.intervals import AT_CHANCE, image_intervals, per_image, ranks_like_chance
from vsepp.evaluation.judged import Judged
from vsepp.evaluation.metric_list import AVERAGED, METRICS
from vsepp.evaluation.ranks import Ranks, kept_ranks


def as_text(judged: Judged) -> str:
    """A table to read, intervals over images in brackets; numbers are rounded here and nowhere else."""
    ranks = kept_ranks(judged.arrays, judged.protocol)
    rows = _with_intervals(ranks, list(judged.ranks))
    lines = [judged.heading, f"{'':<12}" + "".join(f"{TASKS[task]:>24}" for task in judged.ranks)]
    lines += [f"{name:<12}" + "".join(f"{cell:>24}" for cell in cells) for name, cells in rows.items()]
    if ranks_like_chance(ranks, np.zeros(0, np.int64), *judged.shape):
        lines.append(AT_CHANCE)
    return "\n".join([*lines, *judged.notes])


def _with_intervals(ranks: Ranks, tasks: list[str]) -> dict[str, list[str]]:
    """Metric's name → its value of each task, with its interval over images where it has one."""
    rows: dict[str, list[str]] = {metric.name: [] for metric in METRICS.values()}
    owner = np.zeros(0, np.int64)  # under a truth the ranks hold the images of the queries
    for task in tasks:
        averaged = [key for key in METRICS if f"{task}_{key}" in AVERAGED]
        values = np.stack([per_image(ranks, owner, f"{task}_{key}") for key in averaged])
        found = dict(zip(averaged, image_intervals(values), strict=True))
        for key, metric in METRICS.items():
            ends = found.get(key)
            bounds = f" [{ends.low:.1f}, {ends.high:.1f}]" if ends else ""
            rows[metric.name].append(f"{metric(ranks.of(task)):.1f}{bounds}")
    return rows
