"""Kinds of figures, one module each, found by name as all components are; see `vsepp.base.components`.

A kind defines `draw(figure, spec, options, material) -> Said`: a matplotlib figure to draw on, the entry, the kind's
`Options` and the `Material` of `vsepp.report.plots`; it returns what captions and text alternatives say. `draw` is called
only where results of one of its runs, or its computed data, are there. Constants, see `Kind`, say which keys its entries in a
`tables.yaml` have. A kind that needs losses defines
`compute(options, losses) -> dict`, too: a step of its own keeps the result as JSON, since reports are made without torch.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cache

from vsepp.base import components

SHARED = ("kind", "title", "caption", "width")
"""Keys that a figure of any kind has."""


@dataclass(frozen=True)
class Kind:
    """What the constants of a kind say."""

    runs: str
    """`RUNS`: the runs that it shows. `listed`: the runs that its entry lists; `pair`: two runs; `pairs`: two runs a label;
    `by_size`: runs by the size of the negative set; `rows`: the run of each row that its labels name. Empty: no runs, and its caption says nothing about data."""
    needs: frozenset[str]
    """`NEEDS`: keys and options that an entry must have, and `runs` where it lists them."""
    takes: frozenset[str]
    """`TAKES`: keys that an entry may have; and all options."""
    losses_need: tuple[str, ...]
    """`LOSSES_NEED`: options that each of its losses must have."""
    height: float
    """`HEIGHT`, inches; `draw` may set another."""
    most_metrics: int
    """`MOST_METRICS` that it shows; 0: any number."""

    @property
    def shows_training(self) -> bool:
        """Whether it shows histories of training, not test scores, which need a protocol."""
        return bool(self.runs) and "protocol" not in self.needs

    @property
    def is_computed(self) -> bool:
        """Whether a step computes something for it."""
        return "losses" in self.needs


@cache
def kind_of(name: str) -> Kind:
    """A kind of figures, read from its source.

    Raises
    ------
    VseppError
        If there is no kind of that name.
    """
    described = components.describe("figure", name)
    said = described.constants
    runs = said.get("RUNS", "")
    needs = {*said.get("NEEDS", ()), *(["runs"] if runs in ("listed", "pair", "pairs", "by_size") else [])}
    options = {option.name for option in dataclasses.fields(described.options)}
    return Kind(
        runs,
        frozenset(needs),
        frozenset({*said.get("TAKES", ()), *options}),
        said.get("LOSSES_NEED", ()),
        said.get("HEIGHT", 2.5),
        said.get("MOST_METRICS", 0),
    )
