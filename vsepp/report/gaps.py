"""All gaps between two runs in one dot plot: ours with its interval beside the paper's."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from statistics import median
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from vsepp.evaluation.metric_list import AVERAGED
from vsepp.report import text
from vsepp.report.claims import FAILED, NOT_RUN, Verdict
from vsepp.report.layout import ContextSpec
from vsepp.report.plots import INK, MUTED, OURS, PAGE, THEIRS, Said, metric_text

_DOT: dict[str, Any] = {"color": OURS, "markersize": 4.2, "linestyle": "none"}
_LINE: dict[str, Any] = {"color": OURS, "linestyle": "-", "marker": "none"}
_PAPERS: dict[str, Any] = {"color": THEIRS, "marker": "D", "markersize": 4.2, "linestyle": "none"}

_WIDEST = 58
"""Letters in a line of a claim's name."""

Row = tuple[str, Mapping[str, Verdict]]
"""A claim's name, and metric → verdict on the gap between its two runs; or a heading, which has no verdicts."""


def metrics_of(gaps: Iterable[Verdict]) -> tuple[str, ...]:
    """Metrics of verdicts on gaps, a panel each."""
    return tuple(sorted({gap.metric for gap in gaps}, key=AVERAGED.index))


def draw_gaps(
    figure: Figure,
    metrics: Sequence[str],
    gaps: Sequence[Verdict],
    context: ContextSpec,
    names: Mapping[tuple[str, ...], str] | None = None,
) -> Said:
    """A row per claim and pair of runs, grouped by data, a panel per metric; a row without a gap says why.

    Parameters
    ----------
    figure, metrics, gaps, context
        Where to draw, which metrics, the verdicts to draw, and what the data are called.
    names
        Pair of runs → name of its row, instead of the claim's sentence.
    """
    names = names or {}
    rows, several = _rows(gaps, context, names), any(gap.seeds > 1 for gap in gaps)
    reach = _reach_of_each(metrics, gaps)
    heights = [1 + 0.6 * label.count("\n") for label, _ in rows]
    places = [end - height / 2 for end, height in zip(accumulate(heights), heights, strict=True)]
    figure.set_size_inches(figure.get_size_inches()[0], 0.75 + 0.165 * sum(heights))
    axes = figure.subplots(1, len(metrics), squeeze=False, sharey=True)[0]
    for axis, metric in zip(axes, metrics, strict=True):
        _panel(axis, metric, rows, places, reach[metric])
    first = axes[0]
    first.set_yticks(places, [label for label, _ in rows], fontsize=5.8)
    for tick, (_, by_metric) in zip(first.get_yticklabels(), rows, strict=True):
        tick.set_fontweight("normal" if by_metric else "bold")
    first.set_ylim(sum(heights) + 0.1, -0.1)
    _legend(figure, several)
    said = _described(gaps, reach, several)
    for gap in gaps:
        paper = "" if gap.published is None else f", the paper's {gap.published:+.1f}"
        runs = " − ".join(gap.spec.named)
        said.alt.append(f"{_name(gap, names)}, {metric_text(gap.metric)} ({runs}): {_number(gap)}{paper}.")
    return said


def _rows(gaps: Iterable[Verdict], context: ContextSpec, names: Mapping[tuple[str, ...], str]) -> list[Row]:
    """Claims below headings of the data of their runs; two claims of one name about one pair of runs share a row."""
    by_role: dict[str, dict[tuple[str, ...], dict[str, Verdict]]] = {}
    for gap in gaps:
        claims = by_role.setdefault(gap.roles[0], {})
        claims.setdefault((_name(gap, names), *gap.spec.named), {})[gap.metric] = gap
    rows: list[Row] = []
    for role, claims in by_role.items():
        rows.append((context.here(role), {}))
        rows += [("\n".join(textwrap.wrap(name, _WIDEST)), found) for (name, *_), found in claims.items()]
    return rows


def _name(gap: Verdict, names: Mapping[tuple[str, ...], str]) -> str:
    return names.get(gap.spec.named) or claim_name(gap)


def claim_name(gap: Verdict) -> str:
    """The claim's sentence without its direction, which a panel names, and without its full stop."""
    return re.sub(r" in (caption|image) retrieval\b", "", gap.spec.claim).removesuffix(".")


def _reach_of_each(metrics: Sequence[str], gaps: Sequence[Verdict]) -> dict[str, float]:
    """Metric → how far from zero its panel goes: the same for all recalls, another for rsum, their sum."""
    return {
        metric: _reach([gap for gap in gaps if (gap.metric == "rsum") == (metric == "rsum")])
        for metric in metrics
    }


def _reach(gaps: Sequence[Verdict]) -> float:
    """How far from zero is shown: as far as the paper's gaps and our intervals reach, but at most twice the paper's largest gap
    or, where the paper prints none, twice the median reach of our intervals."""
    printed = [abs(gap.published) for gap in gaps if gap.published is not None]
    ours = [max(abs(gap.images.low), abs(gap.images.high)) for gap in gaps if gap.images]
    widest = max([*printed, *ours], default=1.0)
    return min(widest, 2 * (max(printed) if printed else median(ours or [widest])))


def _panel(axis: Axes, metric: str, rows: Sequence[Row], places: Sequence[float], reach: float) -> None:
    axis.axvline(0, color=INK, linewidth=0.8)
    axis.set_xlim(-1.05 * reach, 1.05 * reach)
    for place, (_, by_metric) in zip(places, rows, strict=True):
        if metric not in by_metric:
            continue
        gap = by_metric[metric]
        axis.axhline(place, color=MUTED, linewidth=0.3, alpha=0.5, zorder=0)
        if gap.published is not None:
            axis.plot(gap.published, place, **_PAPERS, markerfacecolor="none", zorder=5)
        if points := _points(gap):
            _draw_ours(axis, gap, points, place, reach)
        axis.text(
            1.02, place, _number(gap), transform=axis.get_yaxis_transform(), va="center", fontsize=5.8,
            color=INK if points else MUTED,
        )  # fmt: skip
    axis.set_title(metric_text(metric), loc="left")
    axis.set_xlabel("points")
    axis.grid(False)
    axis.spines["left"].set_visible(False)
    axis.tick_params(axis="y", length=0)


def _points(gap: Verdict) -> list[float]:
    """Our gap, and the ends of its interval."""
    if gap.value is None or gap.interval is None:
        return []
    return [gap.value, gap.interval.low, gap.interval.high]


def _draw_ours(axis: Axes, gap: Verdict, points: Sequence[float], place: float, reach: float) -> None:
    """Our gap and its intervals; arrows where they go on beyond the panel."""
    for interval, thick in ((gap.over_seeds, 0.8), (gap.images, 2.4)):
        if interval:
            ends = np.clip([interval.low, interval.high], -reach, reach)
            axis.plot(ends, [place, place], **_LINE, linewidth=thick, solid_capstyle="butt")
    if abs(points[0]) <= reach:
        axis.plot(points[0], place, **_DOT, marker="o", zorder=4)
    if min(points) < -reach:
        axis.plot(-reach, place, **_DOT, marker="<", clip_on=False)
    if max(points) > reach:
        axis.plot(reach, place, **_DOT, marker=">", clip_on=False)


def _number(gap: Verdict) -> str:
    if gap.value is None:
        return gap.word.removeprefix("not reproduced: ")
    return f"{text.signed(gap.value)} {text.interval(gap.interval)}"


def _legend(figure: Figure, several: bool) -> None:
    handles = [
        Line2D([], [], **_DOT, marker="o", label="ours"),
        Line2D([], [], **_LINE, linewidth=2.4, label="95 %, over images"),
        *([Line2D([], [], **_LINE, linewidth=0.8, label="95 %, over seeds")] if several else []),
        Line2D([], [], **_PAPERS, markerfacecolor=PAGE, label="the paper's"),
    ]
    figure.legend(handles=handles, loc="outside upper right", ncols=len(handles))


def _described(gaps: Sequence[Verdict], reach: Mapping[str, float], several: bool) -> Said:
    said = Said()
    if any(map(_points, gaps)):
        wide = "the wider of both" if several else "over the test images; one seed"
        said.caption.append(f"Numbers: our gap and its 95 % interval, {wide}.")
    if any(abs(point) > reach[gap.metric] for gap in gaps for point in _points(gap)):
        said.caption.append("Arrow: interval continues.")
    for words, what in ((FAILED, "a run that collapsed or ranks like chance"), ((NOT_RUN,), "not run")):
        if left_out := sum(gap.word in words for gap in gaps):
            said.caption.append(f"Not drawn: {left_out} ({what}).")
    return said
