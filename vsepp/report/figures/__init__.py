"""Kinds of figures, one module each, found by name as all components are; see `vsepp.base.components`.

A kind is a class `Figure`, based on one of the classes below: its fields are the keys of its entries in a `tables.yaml`, of which `kind`
is the name of the module. `draw` draws an entry and returns what captions and text alternatives say of it; it is called only where
results of one of its runs, or its computed data, are there. What draws with matplotlib imports it in a function, since all kinds are
imported where a `tables.yaml` is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from vsepp.base.declared import STRICT
from vsepp.report.entries import Loss, Protocol

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from vsepp.report.plots import Material, Said


@dataclass(frozen=True, config=STRICT, kw_only=True)
class AnyFigure:
    """One figure. `figure2a` is the paper's Figure 2a; another id is one's own and no number."""

    height: ClassVar[float] = 2.5
    """Inches; `draw` may set another."""

    kind: str
    title: str
    caption: str
    width: Literal["column", "page"] = "column"
    """Columns of a two-column page: 3.3 or 7 inches."""

    @property
    def named(self) -> tuple[str, ...]:
        """All run ids that it lists."""
        return ()

    @property
    def rows(self) -> tuple[str, ...]:
        """Labels of the rows of tables whose runs it shows."""
        return ()

    @property
    def under(self) -> str:
        """The protocol whose test scores it shows."""
        return ""

    def draw(self, canvas: Canvas, material: Material) -> Said:
        """Draw on a matplotlib figure."""
        raise NotImplementedError


@dataclass(frozen=True, config=STRICT, kw_only=True)
class FigureOfRuns(AnyFigure):
    """A figure of results."""

    dataset: str
    """Role."""
    labels: tuple[str, ...]
    """What the runs are called."""

    def drawn(self, material: Material) -> tuple[str, ...]:
        """Runs that it shows, the baseline the last."""
        return self.named


@dataclass(frozen=True, config=STRICT, kw_only=True)
class FigureOfScores(FigureOfRuns):
    """A figure of test scores."""

    protocol: Protocol
    """Under which they are shown."""

    @property
    def under(self) -> str:
        """Its protocol."""
        return self.protocol


@dataclass(frozen=True, config=STRICT, kw_only=True)
class FigureOfLosses(AnyFigure):
    """A figure of what a step computes of losses, since reports are made without torch."""

    losses: Annotated[tuple[Loss, ...], Field(min_length=1)]
    """Modules of vsepp.losses, with their options."""
    labels: tuple[str, ...]
    """What the losses are called."""

    @model_validator(mode="after")
    def _has_its_labels(self) -> FigureOfLosses:
        require_as_many(self.labels, len(self.losses))
        return self

    def compute(self) -> dict[str, Any]:
        """What is drawn, as JSON can hold it."""
        raise NotImplementedError


def require_as_many(labels: Sequence[str], expected: int) -> None:
    """Refuse labels of another number than what they name.

    Raises
    ------
    ValueError
        Which pydantic takes for a mistake in the entry.
    """
    if len(labels) != expected:
        raise ValueError(f"labels: got {len(labels)}; expected {expected}")
