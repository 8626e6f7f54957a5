"""Differences of chosen pairs of runs in one dot plot, under names of one's own: an excerpt of the plot of all gaps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from matplotlib.figure import Figure

from vsepp.reporting.gaps import draw_gaps
from vsepp.reporting.measured import judge
from vsepp.reporting.plots import Material, Said
from vsepp.reporting.report_specs import ClaimSpec, FigureSpec

CITATION = "Cumming (2014), The New Statistics: Why and How"
RUNS = "pairs"
NEEDS = ("dataset", "metrics", "labels", "protocol")
HEIGHT = 3.0


def draw(figure: Figure, spec: FigureSpec, options: Any, material: Material) -> Said:
    """A row per label, a panel per metric: the first run of a pair less the second one, both intervals, and the paper's effect."""
    pairs = list(zip(spec.runs[::2], spec.runs[1::2], strict=True))
    gaps = judge(_differences(spec, pairs), material.context, material.records)
    return draw_gaps(figure, spec, gaps, material.context, dict(zip(pairs, spec.labels, strict=True)))


def _differences(spec: FigureSpec, pairs: list[tuple[str, str]]) -> Iterator[ClaimSpec]:
    """What is measured: each metric of each pair."""
    printed = {(run, other, metric): effect for run, other, metric, effect in spec.printed}
    for pair in pairs:
        for metric in spec.metrics:
            yield ClaimSpec(
                id=f"{' − '.join(pair)}/{metric}",
                claim="",
                kind="difference",
                runs=pair,
                metric=metric,
                roles=(spec.dataset, *spec.encoders),
                protocol=spec.protocol,
                published=printed.get((*pair, metric)),
            )
