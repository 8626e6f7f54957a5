"""All gaps between two runs in one dot plot: ours with its interval beside the paper's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vsepp.reporting import filters
from vsepp.reporting.claims import NO_VERDICT, NOT_RUN, Verdict
from vsepp.reporting.plots import INK, MUTED, PAGE, Said, looks
from vsepp.reporting.specs import DIRECTIONS, ContextSpec, FigureSpec

KINDS = ("difference", "no_difference", "no_gain")
"""Of claims that are about one gap between two runs."""

Pair = tuple[str, ...]


def gaps_figure(verdicts: Iterable[Verdict]) -> FigureSpec | None:
    """The figure of all claims about a gap; `None` where there are none."""
    about = [verdict for verdict in verdicts if verdict.spec.kind in KINDS]
    if not about:
        return None
    order = [f"{direction}_{k}" for direction in DIRECTIONS for k in ("r1", "r5", "r10")] + ["rsum"]
    metrics = sorted({verdict.spec.metric for verdict in about}, key=order.index)
    return FigureSpec(
        id="gaps",
        kind="gaps",
        title="Every gap between two runs that the paper claims",
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
    for axis, metric in zip(axes, spec.metrics, strict=True):
        _panel(axis, metric, rows, found)
    _rows(axes[0], rows)
    _legend(figure)
    return _said(about)


def _panel(
    axis: Axes, metric: str, rows: Sequence[Pair | str], found: dict[Pair, dict[str, Verdict]]
) -> None:
    theirs, ours, *_ = looks()
    axis.axvline(0, color=INK, linewidth=0.8)
    for place, row in enumerate(rows):
        verdict = found[row].get(metric) if isinstance(row, tuple) else None
        if verdict is None:
            continue
        axis.axhline(place, color=MUTED, linewidth=0.3, alpha=0.5, zorder=0)
        if verdict.spec.published is not None:
            axis.plot(
                verdict.spec.published, place, marker="D", markersize=4.2, color=theirs["color"], markerfacecolor=PAGE,
            )  # fmt: skip
        if verdict.value is not None and verdict.interval:
            bounds = verdict.interval
            axis.plot([bounds.low, bounds.high], [place, place], color=ours["color"], linewidth=1.4)
            axis.plot(verdict.value, place, marker="o", markersize=4.2, color=ours["color"])
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


def _number(verdict: Verdict) -> str:
    if verdict.value is not None and verdict.interval:
        return f"{verdict.value:+.1f} [{verdict.interval.low:.1f}, {verdict.interval.high:.1f}]".replace(
            "-", "−"
        )
    if verdict.word == NO_VERDICT:
        return "collapsed" if "collapsed" in verdict.why else "like chance"
    return verdict.word


def _rows(axis: Axes, rows: Sequence[Pair | str]) -> None:
    axis.set_yticks(
        range(len(rows)), [row if isinstance(row, str) else " − ".join(row) for row in rows], fontsize=5.8
    )
    for label, row in zip(axis.get_yticklabels(), rows, strict=True):
        if isinstance(row, str):
            label.set_fontweight("bold")
    axis.set_ylim(len(rows) - 0.4, -0.6)


def _legend(figure: Figure) -> None:
    from matplotlib.lines import Line2D

    theirs, ours, *_ = looks()
    handles = [
        Line2D([], [], color=ours["color"], marker="o", markersize=4.2, linewidth=1.4, label="ours, 95 % interval"),
        Line2D(
            [], [], color=theirs["color"], marker="D", markersize=4.2, markerfacecolor=PAGE, linestyle="none",
            label="the paper's",
        ),
    ]  # fmt: skip
    figure.legend(handles=handles, loc="outside upper right", ncols=2)


def _said(about: Sequence[Verdict]) -> Said:
    said = Said()
    shown = [verdict for verdict in about if verdict.value is not None]
    several = any(verdict.seeds > 1 for verdict in shown)
    if shown:
        over = (
            "the wider one of that over the test images and that over the seeds"
            if several
            else "over the test images; one seed"
        )
        said.caption.append(f"Lines: 95 % interval, {over}.")
    for word, what in ((NO_VERDICT, "a run in trouble"), (NOT_RUN, "not run")):
        left_out = sum(verdict.word == word for verdict in about)
        if left_out:
            said.caption.append(f"Without a gap of ours: {left_out} ({what}).")
    for verdict in about:
        ours = _number(verdict)
        paper = "" if verdict.spec.published is None else f", the paper's {verdict.spec.published:+.1f}"
        said.alt.append(f"{' − '.join(verdict.spec.runs)}, {verdict.spec.metric}: {ours}{paper}.")
    return said
