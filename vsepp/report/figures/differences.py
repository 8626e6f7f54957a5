"""Differences of chosen pairs of runs in one dot plot, under names of one's own: an excerpt of the plot of all gaps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.figure import Figure

from vsepp.report import entries
from vsepp.report.claims import Claim, Difference
from vsepp.report.gaps import draw_gaps
from vsepp.report.measured import judge
from vsepp.report.plots import Material, Said

CITATION = "Cumming (2014), The New Statistics: Why and How"
RUNS = "pairs"
NEEDS = ("dataset", "metrics", "labels", "protocol")
HEIGHT = 3.0


def draw(figure: Figure, spec: entries.Figure, options: Any, material: Material) -> Said:
    """A row per label, a panel per metric: the first run of a pair less the second one, both intervals, and the paper's effect."""
    pairs = list(zip(spec.drawn[::2], spec.drawn[1::2], strict=True))
    gaps = judge(_differences(spec, pairs, material), material.report, material.records, material.published)
    return draw_gaps(figure, spec.metrics, gaps, material.context, dict(zip(pairs, spec.labels, strict=True)))


def _differences(
    spec: entries.Figure, pairs: Sequence[tuple[str, ...]], material: Material
) -> Iterator[tuple[str, Claim]]:
    """What is measured: each metric of each pair."""
    claimed = [claim for _, claim in material.report.claims if isinstance(claim, Difference)]
    printed = {
        (claim.runs, metric): effect
        for claim in claimed
        for metric, effect in claim.published.items()
        if effect is not None
    }
    for pair in pairs:
        effects = {metric: printed.get((pair, metric)) for metric in spec.metrics}
        yield (
            " − ".join(pair),
            Difference(kind="difference", claim="", runs=pair, protocol=spec.under, published=effects),
        )
