"""All gaps between two runs in one dot plot: ours with its interval beside the paper's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from vsepp.evaluation.metric_list import AVERAGED
from vsepp.reporting import filters
from vsepp.reporting.claims import COLLAPSED, FAILED, NOT_RUN, Verdict
from vsepp.reporting.plots import INK, MUTED, PAGE, Said, looks
from vsepp.reporting.report_specs import DIRECTIONS, ContextSpec, FigureSpec
from vsepp.spec import Component

KINDS = ("difference", "no_difference", "no_gain")
"""Kinds of claims that are about one gap between two runs."""


class _Row(NamedTuple):
    label: str
    verdicts: Mapping[str, Verdict]
    """Metric → verdict on the gap of a pair of runs; a heading has none."""


def gaps_figure(verdicts: Iterable[Verdict]) -> FigureSpec | None:
    """The figure of all claims about a gap; `None` where there are none."""
    metrics = {verdict.spec.metric for verdict in _about_gaps(verdicts)}
    if not metrics:
        return None
    return FigureSpec(
        id="gaps",
        kind=Component("gaps"),
        title="Every gap between two runs that a claim is about",
        caption="How many points the first run of each pair is above the second one on the test images.",
        metrics=tuple(sorted(metrics, key=AVERAGED.index)),
        width="page",
    )


def draw_gaps(figure: Figure, spec: FigureSpec, verdicts: Iterable[Verdict], context: ContextSpec) -> Said:
    """A row per pair of runs, grouped by data, a panel per metric; what has no gap says why."""
    gaps = _about_gaps(verdicts)
    rows, reach, several = _rows(gaps, context), _reach(gaps), any(gap.seeds > 1 for gap in gaps)
    figure.set_size_inches(figure.get_size_inches()[0], 0.75 + 0.165 * len(rows))
    axes = figure.subplots(1, len(spec.metrics), squeeze=False, sharey=True, sharex=True)[0]
    for axis, metric in zip(axes, spec.metrics, strict=True):
        _panel(axis, metric, rows, reach)
    first = axes[0]
    first.set_xlim(-1.05 * reach, 1.05 * reach)
    first.set_yticks(range(len(rows)), [row.label for row in rows], fontsize=5.8)
    for label, row in zip(first.get_yticklabels(), rows, strict=True):
        label.set_fontweight("normal" if row.verdicts else "bold")
    first.set_ylim(len(rows) - 0.4, -0.6)
    _legend(figure, several)
    return _described(gaps, reach, several)


def _about_gaps(verdicts: Iterable[Verdict]) -> list[Verdict]:
    return [verdict for verdict in verdicts if verdict.spec.kind in KINDS]


def _rows(gaps: Iterable[Verdict], context: ContextSpec) -> list[_Row]:
    """Pairs of runs below the data that they are trained on."""
    by_role: dict[str, dict[str, dict[str, Verdict]]] = {}
    for gap in gaps:
        pairs = by_role.setdefault(gap.spec.roles[0], {})
        pairs.setdefault(" − ".join(gap.spec.runs), {})[gap.spec.metric] = gap
    rows = []
    for role, pairs in by_role.items():
        rows += [_Row(context.here(role), {}), *(_Row(pair, by_metric) for pair, by_metric in pairs.items())]
    return rows


def _reach(gaps: Sequence[Verdict]) -> float:
    """How far from zero is shown: all that the paper prints, and of ours what lies within twice that."""
    printed = [abs(gap.spec.published) for gap in gaps if gap.spec.published is not None]
    ours = [gap.value for gap in gaps if gap.value is not None]
    ours += [end for gap in gaps if gap.images for end in (gap.images.low, gap.images.high)]
    widest = max([*printed, *map(abs, ours)], default=1.0)
    return min(widest, 2 * max(printed)) if printed else widest


def _panel(axis: Axes, metric: str, rows: Sequence[_Row], reach: float) -> None:
    theirs, *_ = looks()
    axis.axvline(0, color=INK, linewidth=0.8)
    for place, row in enumerate(rows):
        if metric not in row.verdicts:
            continue
        gap = row.verdicts[metric]
        axis.axhline(place, color=MUTED, linewidth=0.3, alpha=0.5, zorder=0)
        if gap.spec.published is not None:
            dot = _dot("D", theirs["color"])
            axis.plot(gap.spec.published, place, **dot, markerfacecolor="none", zorder=5)
        if gap.value is not None:
            _ours(axis, gap, gap.value, place, reach)
        axis.text(
            1.02, place, _number(gap), transform=axis.get_yaxis_transform(), va="center", fontsize=5.8,
            color=INK if gap.value is not None else MUTED,
        )  # fmt: skip
    direction = DIRECTIONS.get(metric.partition("_")[0])
    axis.set_title(f"{direction} {filters.metric_name(metric)}" if direction else metric, loc="left")
    axis.set_xlabel("points")
    axis.grid(False)
    axis.spines["left"].set_visible(False)
    axis.tick_params(axis="y", length=0)


def _ours(axis: Axes, gap: Verdict, value: float, place: int, reach: float) -> None:
    """Our gap and its intervals; arrows where they go on beyond what is shown."""
    _, look, *_ = looks()
    line = {"color": look["color"], "linestyle": "-", "marker": "none", "solid_capstyle": "butt"}
    for interval, thick in ((gap.over_seeds, 0.8), (gap.images, 2.4)):
        if interval:
            ends = np.clip([interval.low, interval.high], -reach, reach)
            axis.plot(ends, [place, place], linewidth=thick, **line)
    if abs(value) <= reach:
        axis.plot(value, place, **_dot("o", look["color"]), zorder=4)
    if min(_points(gap)) < -reach:
        axis.plot(-reach, place, **_dot("<", look["color"]), clip_on=False)
    if max(_points(gap)) > reach:
        axis.plot(reach, place, **_dot(">", look["color"]), clip_on=False)


def _points(gap: Verdict) -> list[float]:
    """Our gap, and the ends of its interval."""
    points = [] if gap.value is None else [gap.value]
    return points + ([gap.interval.low, gap.interval.high] if points and gap.interval else [])


def _dot(marker: str, colour: str) -> dict[str, Any]:
    return {"marker": marker, "markersize": 4.2, "color": colour, "linestyle": "none"}


def _number(gap: Verdict) -> str:
    if gap.value is not None and gap.interval:
        return f"{filters.signed(gap.value)} {filters.interval(gap.interval)}"
    if gap.word in FAILED:
        return "collapsed" if gap.word == COLLAPSED else "like chance"
    return gap.word


def _legend(figure: Figure, several: bool) -> None:
    theirs, ours, *_ = looks()
    line = {"color": ours["color"], "linestyle": "-"}
    handles = [
        Line2D([], [], **_dot("o", ours["color"]), label="ours"),
        Line2D([], [], **line, linewidth=2.4, label="95 %, over images"),
        *([Line2D([], [], **line, linewidth=0.8, label="95 %, over seeds")] if several else []),
        Line2D([], [], **_dot("D", theirs["color"]), markerfacecolor=PAGE, label="the paper's"),
    ]
    figure.legend(handles=handles, loc="outside upper right", ncols=len(handles))


def _described(gaps: Sequence[Verdict], reach: float, several: bool) -> Said:
    said = Said()
    points = [point for gap in gaps for point in _points(gap)]
    if points:
        wide = "the wider one of both" if several else "over the test images; one seed"
        said.caption.append(f"In figures: our gap and its 95 % interval, {wide}.")
    if max(map(abs, points), default=0) > reach:
        said.caption.append("Arrows: it goes on beyond what is shown.")
    for words, what in ((FAILED, "a run that collapsed or ranks like chance"), ((NOT_RUN,), "not run")):
        if left_out := sum(gap.word in words for gap in gaps):
            said.caption.append(f"Without a gap of ours: {left_out} ({what}).")
    for gap in gaps:
        paper = "" if gap.spec.published is None else f", the paper's {gap.spec.published:+.1f}"
        said.alt.append(f"{' − '.join(gap.spec.runs)}, {gap.spec.metric}: {_number(gap)}{paper}.")
    return said
