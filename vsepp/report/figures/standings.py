"""Rows of tables beside each other, with their differences from the best."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vsepp.evaluation.intervals import Effect, wider
from vsepp.report import entries, groups, text
from vsepp.report.groups import Standing
from vsepp.report.models import Records, image_values, mark, of_shared_seeds, shared_seeds, trouble_of
from vsepp.report.plots import INK, MUTED, OURS, PAGE, Material, Said, metric_text

RUNS = "rows"
NEEDS = ("dataset", "metrics", "labels", "protocol")
MOST_METRICS = 1
_LEFT, _BOTTOM = 1.4, 0.42
_BESIDE, _ABOVE, _LETTER = 3.65, 0.62, 0.055
"""Inches around the axis; `_BESIDE` and `_ABOVE` count both sides; a letter of a name takes `_LETTER` at most."""
_LEVEL, _LESS = 0.04, 1.1
"""Inches from the axis to the levels and to the differences."""


def draw(figure: Figure, spec: entries.Figure, options: Any, material: Material) -> Said:
    """A dot per method, the best on top, with intervals and difference to the best."""
    (metric,) = spec.metrics
    every = {
        label: material.records[run]
        for run, label in zip(material.runs, spec.labels, strict=True)
        if run in material.records
    }
    shared, methods = of_shared_seeds(every), standings(every, spec.under, metric)
    sound = [method for method in methods if not method.trouble]
    names = [method.label + mark(shared[method.label]) for method in methods]
    more = max(0.0, _LETTER * max(map(len, names)) - _LEFT)
    width, height = figure.get_size_inches()[0] + more, 0.7 + 0.2 * len(methods)
    beside = _BESIDE + more
    inside = width - beside
    figure.set_size_inches(width, height)
    # Places of its own: a layout engine does not see the text beside the axis.
    figure.set_layout_engine("none")
    axis, said = figure.subplots(), Said()
    axis.set_position(((_LEFT + more) / width, _BOTTOM / height, 1 - beside / width, 1 - _ABOVE / height))
    for place, method in enumerate(methods):
        below = sound[0].above.get(method.label) if sound else None
        level, less = _level_text(method), _less_text(below.effect) if below else ""
        _draw_method(axis, place, method)
        _write(axis, 1 + _LEVEL / inside, place, level, INK)
        _write(axis, 1 + _LESS / inside, place, less, INK)
        trouble = f" ({method.trouble})" if method.trouble else ""
        said.alt.append(f"{method.label}: {level}{trouble}{f', less the best {less}' if less else ''}.")
    _write(axis, 1 + _LEVEL / inside, -0.8, "level", MUTED)
    _write(axis, 1 + _LESS / inside, -0.8, "less the best", MUTED)
    axis.set_yticks(range(len(methods)), names, fontsize=6)
    axis.set_ylim(len(methods) - 0.4, -0.6)
    axis.set_xlabel(f"Test {metric_text(metric)}")
    several = max(method.n_seeds for method in methods) > 1
    said.caption.append(
        "Thick: 95 % interval over the test images (bootstrap)"
        + ("; thin: over the seeds (Student's t)." if several else "; one seed.")
        + " Numbers: the mean, and its difference from the best method on the same images and seeds, each with the wider interval."
    )
    if unsound := [f"{method.label} ({method.trouble})" for method in methods if method.trouble]:
        said.caption.append(f"Hollow, not compared: {text.listing(unsound)}.")
    if any(len(shared[label]) < len(records) for label, records in every.items()):
        said.caption.append(f"Seeds common to all: {text.listing(shared_seeds(every.values()))}.")
    return said


def standings(methods: Records, protocol: str, metric: str) -> list[Standing]:
    """Each method's level, the best first, and its differences to the others; see `vsepp.report.groups`.

    `methods`: label → a record per seed. Methods are compared on the seeds that all have; without such seeds, each pair
    on the seeds that both have.
    """
    shared = of_shared_seeds(methods)
    values = {
        label: {record.spec.seed: image_values(record, protocol, metric) for record in records}
        for label, records in shared.items()
    }
    trouble = {label: trouble_of(records, protocol) for label, records in shared.items()}
    return groups.standings({metric: values}, trouble)[metric]


def _draw_method(axis: Axes, place: int, method: Standing) -> None:
    for bounds, thick in ((method.seeds, 0.8), (method.images, 2.4)):
        if bounds:
            axis.hlines(place, bounds.low, bounds.high, color=OURS, linewidth=thick)
    face = PAGE if method.trouble else OURS
    axis.plot(method.level, place, color=OURS, marker="o", markersize=4.2, markerfacecolor=face, zorder=3)


def _write(axis: Axes, x: float, place: float, text: str, colour: str) -> None:
    """Text beside the axis; `x` counts widths of the axis."""
    axis.text(x, place, text, transform=axis.get_yaxis_transform(), va="center", fontsize=5.8, color=colour)


def _level_text(method: Standing) -> str:
    interval = wider(method.images, method.seeds)
    return f"{method.level:.1f} [{interval.low:.1f}, {interval.high:.1f}]"


def _less_text(below: Effect) -> str:
    """A method's difference from the best and its interval, from the difference of the best from the method."""
    interval = wider(below.images, below.seeds)
    less, low, high = (0.0 - round(value, 1) for value in (below.value, interval.high, interval.low))
    return f"{less:.1f} [{low:.1f}, {high:.1f}]".replace("-", "−")
