"""Differences of pairs of runs in one dot plot, ours with its intervals beside the paper's: all gaps that claims are about, or chosen
pairs."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from vsepp.base.declared import STRICT
from vsepp.evaluation.metrics import AVERAGED
from vsepp.report import plots, text
from vsepp.report.claims import Difference
from vsepp.report.entries import ALL_GAPS, AveragedMetric, Claim, ContextSpec
from vsepp.report.figures.base import AnyFigure, FigureOfScores
from vsepp.report.pairing import Material, left_out
from vsepp.report.plots import INK, MUTED, OURS, PAGE, THEIRS, Description, Drawn
from vsepp.report.verdicts import FAILED, NOT_RUN, Verdict, judge

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

CITATION = "Cumming (2014), The New Statistics: Why and How"
_DOT: dict[str, Any] = {"color": OURS, "markersize": 4.2, "linestyle": "none"}
_LINE: dict[str, Any] = {"color": OURS, "linestyle": "-", "marker": "none"}
_PAPERS: dict[str, Any] = {"color": THEIRS, "marker": "D", "markersize": 4.2, "linestyle": "none"}

_WIDEST = 58
"""Letters in a line of a claim's name."""

Line = tuple[str, Mapping[str, Verdict]]
"""A claim's name, and metric → verdict on the gap between its two runs; or a heading, which has no verdicts."""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Figure(FigureOfScores):
    """Chosen pairs of runs, under names of one's own: an excerpt of the plot of all gaps."""

    height: ClassVar[float] = 3.0

    kind: Literal["differences"]
    metrics: Annotated[tuple[AveragedMetric, ...], Field(min_length=1)]
    """A panel each, such as i2t_r1."""
    runs: Annotated[tuple[tuple[str, str], ...], Field(min_length=1)]
    """A pair of run ids a label: the second is subtracted from the first."""

    @property
    def n_labels(self) -> int:
        """One a pair."""
        return len(self.runs)

    @property
    def named(self) -> tuple[str, ...]:
        """Run ids."""
        return tuple(dict.fromkeys(run for pair in self.runs for run in pair))

    def draw(self, canvas: Canvas, material: Material) -> Description:
        """A row per label, a panel per metric: the first run of a pair less the second one, both intervals, and the paper's effect."""
        claimed = [claim for _, claim in material.report.claims if isinstance(claim, Difference)]
        printed = {
            (claim.runs, metric): effect
            for claim in claimed
            for metric, effect in claim.published.items()
            if effect is not None
        }
        claims = list[tuple[str, Claim]]()
        for label, pair in zip(self.labels, self.runs, strict=True):
            effects = {metric: printed.get((pair, metric)) for metric in self.metrics}
            keys: Any = {"claim": label, "runs": pair, "protocol": self.protocol, "published": effects}
            claims.append((label, Difference(kind="difference", **keys)))
        gaps = judge(claims, material)
        return draw_gaps(canvas, self.metrics, gaps, material.context)


@dataclass(frozen=True, config=STRICT, kw_only=True)
class AllGaps(AnyFigure):
    """All gaps between two runs that claims are about; no entry of a file, since every report that has any shows them."""

    height: ClassVar[float] = 3.0

    gaps: Any
    """Verdicts on them."""

    def draw(self, canvas: Canvas, material: Material) -> Description:
        """A panel per metric; as `draw_gaps`."""
        metrics = sorted({gap.metric for gap in self.gaps}, key=AVERAGED.index)
        description = draw_gaps(canvas, metrics, self.gaps, material.context)
        shown = {run for gap in self.gaps if gap.effect for run in gap.spec.named}
        remarks = {run: left_out(material.models.get(run, ())) for run in sorted(shown)}
        description.caption += [f"{run} {words}." for run, words in remarks.items() if words]
        return description


def write_gaps(verdicts: Iterable[Verdict], material: Material, folder: Path) -> Drawn | None:
    """Draw all gaps between two runs, as `gaps.png`, `.svg` and `.pdf` in a folder; `None` where no verdict is on any."""
    gaps = [verdict for verdict in verdicts if verdict.spec.is_gap]
    caption = "The first run of each pair minus the second, on the test images, in points."
    title = "Gaps between the runs that claims compare"
    figure = AllGaps(kind=ALL_GAPS, title=title, caption=caption, width="page", gaps=gaps)
    return plots.write_figure(ALL_GAPS, figure, material, folder) if gaps else None


def draw_gaps(
    canvas: Canvas,
    metrics: Sequence[str],
    gaps: Sequence[Verdict],
    context: ContextSpec,
) -> Description:
    """A row per claim and pair of runs, grouped by data, a panel per metric; a row without a gap says why.

    Parameters
    ----------
    canvas, metrics, gaps, context
        Where to draw, which metrics, the verdicts to draw, and what the data are called.
    """
    rows, several = _rows(gaps, context), any(gap.measured.seeds > 1 for gap in gaps)
    # The same for all recalls, another for rsum, their sum.
    reach = {
        metric: _reach([gap for gap in gaps if (gap.metric == "rsum") == (metric == "rsum")])
        for metric in metrics
    }
    heights = [1 + 0.6 * label.count("\n") for label, _ in rows]
    places = [end - height / 2 for end, height in zip(accumulate(heights), heights, strict=True)]
    canvas.set_size_inches(canvas.get_size_inches()[0], 0.75 + 0.165 * sum(heights))
    axes = canvas.subplots(1, len(metrics), squeeze=False, sharey=True)[0]
    for axis, metric in zip(axes, metrics, strict=True):
        _panel(axis, metric, rows, places, reach[metric])
    first = axes[0]
    first.set_yticks(places, [label for label, _ in rows], fontsize=5.8)
    for tick, (_, by_metric) in zip(first.get_yticklabels(), rows, strict=True):
        tick.set_fontweight("normal" if by_metric else "bold")
    first.set_ylim(sum(heights) + 0.1, -0.1)
    _legend(canvas, several)
    description = _described(gaps, reach, several)
    for gap in gaps:
        paper = "" if gap.published is None else f", the paper's {text.signed(gap.published)}"
        runs = " − ".join(gap.spec.named)
        description.alt.append(f"{_name(gap)}, {text.metrics(gap.metric)} ({runs}): {_number(gap)}{paper}.")
    return description


def _rows(gaps: Iterable[Verdict], context: ContextSpec) -> list[Line]:
    """Claims below headings of the data of their runs; two claims of one name about one pair of runs share a row."""
    by_role: dict[str, dict[tuple[str, ...], dict[str, Verdict]]] = {}
    for gap in gaps:
        claims = by_role.setdefault(gap.roles[0], {})
        claims.setdefault((_name(gap), *gap.spec.named), {})[gap.metric] = gap
    rows: list[Line] = []
    for role, claims in by_role.items():
        rows.append((context.here(role), {}))
        rows += [
            ("\n".join(textwrap.wrap(name, _WIDEST)), by_metric) for (name, *_), by_metric in claims.items()
        ]
    return rows


def _name(gap: Verdict) -> str:
    """The claim's sentence without its direction, which a panel names, and without its full stop."""
    return re.sub(r" in (caption|image) retrieval\b", "", text.plain(gap.spec.claim)).removesuffix(".")


def _reach(gaps: Sequence[Verdict]) -> float:
    """How far from zero is shown: as far as the paper's gaps and our intervals reach, but at most twice the paper's largest gap
    or, where the paper prints none, twice the median reach of our intervals."""
    printed = [abs(gap.published) for gap in gaps if gap.published is not None]
    images = [gap.effect.images for gap in gaps if gap.effect and gap.effect.images]
    ours = [max(abs(interval.low), abs(interval.high)) for interval in images]
    widest = max([*printed, *ours], default=1.0)
    return min(widest, 2 * (max(printed) if printed else median(ours or [widest])))


def _panel(axis: Axes, metric: str, rows: Sequence[Line], places: Sequence[float], reach: float) -> None:
    axis.axvline(0, color=INK, linewidth=0.8)
    axis.set_xlim(-1.05 * reach, 1.05 * reach)
    for place, (_, by_metric) in zip(places, rows, strict=True):
        if metric not in by_metric:
            continue
        gap = by_metric[metric]
        axis.axhline(place, color=MUTED, linewidth=0.3, alpha=0.5, zorder=0)
        if gap.published is not None:
            axis.plot(gap.published, place, **_PAPERS, markerfacecolor="none", zorder=5)
        if ours := gap.effect:
            plots.interval_marks(axis, place, ours.value, ours.images, ours.seeds, reach=reach)
        plots.write_beside(axis, 1.02, place, _number(gap), INK if ours else MUTED)
    axis.set_title(text.metrics(metric), loc="left")
    axis.set_xlabel("points")
    axis.grid(False)
    axis.spines["left"].set_visible(False)
    axis.tick_params(axis="y", length=0)


def _number(gap: Verdict) -> str:
    if gap.effect is None:
        return gap.word.removeprefix("not reproduced: ")
    return f"{text.signed(gap.effect.value)} {text.interval(gap.effect.interval)}"


def _legend(canvas: Canvas, several: bool) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], **_DOT, marker="o", label="ours"),
        Line2D([], [], **_LINE, linewidth=2.4, label="95 %, over images"),
        *([Line2D([], [], **_LINE, linewidth=0.8, label="95 %, over seeds")] if several else []),
        Line2D([], [], **_PAPERS, markerfacecolor=PAGE, label="the paper's"),
    ]
    canvas.legend(handles=handles, loc="outside upper right", ncols=len(handles))


def _described(gaps: Sequence[Verdict], reach: Mapping[str, float], several: bool) -> Description:
    description = Description()
    drawn = [(gap.effect, reach[gap.metric]) for gap in gaps if gap.effect]
    if drawn:
        wide = "the wider of both" if several else "over the test images; one seed"
        description.caption.append(f"Numbers: our gap and its 95 % interval, {wide}.")
    if any(max(-bound.low, bound.high) > far for effect, far in drawn for bound in effect.bounds):
        description.caption.append("Arrow: interval continues.")
    for words, what in ((FAILED, "a run that collapsed or ranks like chance"), ((NOT_RUN,), "not run")):
        if left_out := sum(gap.word in words for gap in gaps):
            description.caption.append(f"Not drawn: {left_out} ({what}).")
    return description
