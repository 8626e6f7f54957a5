"""What entries of figures have in common, by what they show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from vsepp.base.declared import STRICT
from vsepp.report.entries import Loss, Protocol

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from vsepp.report.pairing import Material
    from vsepp.report.plots import Description


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
    labels: tuple[str, ...] = ()
    """What the runs, or the losses, are called."""
    protocol: Literal[""] = ""
    """Under which test scores are shown."""

    @model_validator(mode="after")
    def _has_its_labels(self) -> AnyFigure:
        if len(self.labels) != self.n_labels:
            raise ValueError(f"labels: got {len(self.labels)}; expected {self.n_labels}")
        return self

    @property
    def named(self) -> tuple[str, ...]:
        """All run ids that it lists."""
        return ()

    @property
    def rows(self) -> tuple[str, ...]:
        """Labels of the rows of tables whose runs it shows."""
        return ()

    @property
    def n_labels(self) -> int:
        """How many labels it has."""
        return len(self.named)

    def draw(self, canvas: Canvas, material: Material) -> Description:
        """Draw on a matplotlib figure."""
        raise NotImplementedError


@dataclass(frozen=True, config=STRICT, kw_only=True)
class FigureOfRuns(AnyFigure):
    """A figure of results."""

    dataset: str
    """Role."""

    def drawn(self, material: Material) -> tuple[str, ...]:
        """Runs that it shows, the baseline the last."""
        return self.named


@dataclass(frozen=True, config=STRICT, kw_only=True)
class FigureOfScores(FigureOfRuns):
    """A figure of test scores."""

    protocol: Protocol = Field()  # type: ignore[assignment]  # narrower: no test scores, no protocol
    """Under which they are shown."""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class FigureOfLosses(AnyFigure):
    """A figure of what a step computes of losses, since reports are made without torch."""

    losses: Annotated[tuple[Loss, ...], Field(min_length=1)]
    """Modules of vsepp.losses, with their options."""

    @property
    def n_labels(self) -> int:
        """One a loss."""
        return len(self.losses)

    def compute(self) -> dict[str, Any]:
        """What is drawn, as JSON can hold it."""
        raise NotImplementedError
