"""All gaps between two runs in one dot plot: ours with its interval beside the paper's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from vsepp.evaluation.metric_list import AVERAGED
from vsepp.reporting import filters
from vsepp.reporting.claims import COLLAPSED, FAILED, NOT_RUN, Verdict
from vsepp.reporting.plots import INK, MUTED, PAGE, Said, looks
from vsepp.reporting.specs import DIRECTIONS, ContextSpec, FigureSpec
from vsepp.spec import Component

KINDS = ("difference", "no_difference", "no_gain")
"""Of claims that are about one gap between two runs."""

Pair = tuple[str, ...]


def gaps_figure(verdicts: Iterable[Verdict]) -> FigureSpec | None:
    """The figure of all claims about a gap; `None` where there are none."""
    about = [verdict for verdict in verdicts if verdict.spec.kind in KINDS]
    if not about:
        return None
    metrics = sorted({verdict.spec.metric for verdict in about}, key=AVERAGED.index)
    return FigureSpec(
        id="gaps",
        kind=Component("gaps"),
        title="Every gap between two runs that a claim is about",
        caption="How many points the first run of each pair is above the second one on the test images.",
        metrics=tuple(metrics),
        width="page",
    )


def draw_gaps(figure: Figure, spec: FigureSpec, verdicts: Iterable[Verdict], context: ContextSpec) -> Said:
    """A row per pair of runs, grouped by data, a panel per metric; what has no gap says why."""
    about = [verdict for verdict in verdicts if verdict.spec.kind in KINDS]
    found: dict[Pair, dict[str, Verdict]] = {}
    for verdict in about:
        found.setdefault(verdict.spec.runs, {})[verdict.spec.metric] = verdict
    pairs = list(found)
    roles = {pair: next(iter(found[pair].values())).spec.roles[0] for pair in pairs}
    rows: list[Pair | str] = []
    for role, group in groupby(
        sorted(pairs, key=lambda pair: list(roles.values()).index(roles[pair])), roles.get
    ):
        rows += [context.here(role or ""), *group]
    figure.set_size_inches(figure.get_size_inches()[0], 0.75 + 0.165 * len(rows))
    axes = figure.subplots(1, len(spec.metrics), squeeze=False, sharey=True, sharex=True)[0]
    reach = _reach(about)
    for axis, metric in zip(axes, spec.metrics, strict=True):
        _panel(axis, metric, rows, found, reach)
    axes[0].set_xlim(-1.05 * reach, 1.05 * reach)
    _rows(axes[0], rows)
    several = any(verdict.seeds > 1 for verdict in about)
    _legend(figure, several)
    return _said(about, reach, several)


def _panel(
    axis: Axes, metric: str, rows: Sequence[Pair | str], found: dict[Pair, dict[str, Verdict]], reach: float
) -> None:
    theirs, *_ = looks()
    axis.axvline(0, color=INK, linewidth=0.8)
    for place, row in enumerate(rows):
        verdict = found[row].get(metric) if isinstance(row, tuple) else None
        if verdict is None:
            continue
        axis.axhline(place, color=MUTED, linewidth=0.3, alpha=0.5, zorder=0)
        if verdict.spec.published is not None:
            axis.plot(
                verdict.spec.published, place, **_dot("D", theirs["color"]), markerfacecolor="none", zorder=5
            )
        if verdict.value is not None:
            _ours(axis, verdict, place, reach)
        axis.text(
            1.02, place, _number(verdict), transform=axis.get_yaxis_transform(), va="center", fontsize=5.8,
            color=INK if verdict.value is not None else MUTED,
        )  # fmt: skip
    direction = DIRECTIONS.get(metric.partition("_")[0], "")
    name = metric if metric == "rsum" else filters.metric_name(metric)
    axis.set_title(f"{direction} {name}".strip(), loc="left")
    axis.set_xlabel("points")
    axis.grid(False)
    axis.spines["left"].set_visible(False)
    axis.tick_params(axis="y", length=0)


def _ours(axis: Axes, verdict: Verdict, place: int, reach: float) -> None:
    """Our gap and its intervals; arrows where they go on beyond what is shown."""
    _, ours, *_ = looks()
    line = {"color": ours["color"], "linestyle": "-", "marker": "none", "solid_capstyle": "butt"}
    for bounds, thick in ((verdict.over_seeds, 0.8), (verdict.images, 2.4)):
        if bounds:
            ends = np.clip([bounds.low, bounds.high], -reach, reach)
            axis.plot(ends, [place, place], linewidth=thick, **line)
    interval, value = verdict.interval, verdict.value
    assert value is not None
    if abs(value) <= reach:
        axis.plot(value, place, **_dot("o", ours["color"]), zorder=4)
    for bound, arrow, at in (
        (min(value, interval.low if interval else value), "<", -reach),
        (max(value, interval.high if interval else value), ">", reach),
    ):
        if abs(bound) > reach and bound * at > 0:
            axis.plot(at, place, **_dot(arrow, ours["color"]), clip_on=False)


def _dot(marker: str, colour: str) -> dict[str, Any]:
    return {"marker": marker, "markersize": 4.2, "color": colour, "linestyle": "none"}


def _reach(about: Sequence[Verdict]) -> float:
    """How far from zero is shown: all that the paper prints, and of ours what lies within twice that."""
    printed = [abs(verdict.spec.published) for verdict in about if verdict.spec.published is not None]
    ours = [abs(verdict.value) for verdict in about if verdict.value is not None]
    ours += [abs(end) for verdict in about if (found := verdict.images) for end in (found.low, found.high)]
    widest = max([*printed, *ours], default=1.0)
    return min(widest, 2 * max(printed)) if printed else widest


def _number(verdict: Verdict) -> str:
    if verdict.value is not None and verdict.interval:
        return f"{filters.signed(verdict.value)} {filters.interval(verdict.interval)}"
    if verdict.word in FAILED:
        return "collapsed" if verdict.word == COLLAPSED else "like chance"
    return verdict.word


def _rows(axis: Axes, rows: Sequence[Pair | str]) -> None:
    axis.set_yticks(
        range(len(rows)), [row if isinstance(row, str) else " − ".join(row) for row in rows], fontsize=5.8
    )
    for label, row in zip(axis.get_yticklabels(), rows, strict=True):
        if isinstance(row, str):
            label.set_fontweight("bold")
    axis.set_ylim(len(rows) - 0.4, -0.6)


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


def _said(about: Sequence[Verdict], reach: float, several: bool) -> Said:
    said = Said()
    shown = [verdict for verdict in about if verdict.value is not None]
    if shown:
        wide = "the wider one of both" if several else "over the test images; one seed"
        said.caption.append(f"In figures: our gap and its 95 % interval, {wide}.")
    ends = [end for verdict in shown if (found := verdict.interval) for end in (found.low, found.high)]
    if any(abs(end) > reach for end in [*ends, *(verdict.value or 0 for verdict in shown)]):
        said.caption.append("Arrows: it goes on beyond what is shown.")
    for words, what in ((FAILED, "a run that collapsed or ranks like chance"), ((NOT_RUN,), "not run")):
        if left_out := sum(verdict.word in words for verdict in about):
            said.caption.append(f"Without a gap of ours: {left_out} ({what}).")
    for verdict in about:
        paper = "" if verdict.spec.published is None else f", the paper's {verdict.spec.published:+.1f}"
        said.alt.append(f"{' − '.join(verdict.spec.runs)}, {verdict.spec.metric}: {_number(verdict)}{paper}.")
    return said
