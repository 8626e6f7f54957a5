"""What a `tables.yaml` holds: tables with their rows, and figures. `vsepp.report.claims` has what a `claims.yaml` holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from vsepp.base import components
from vsepp.base.components import checked, component_of
from vsepp.base.declared import PROTOCOLS, STRICT, Count, Role
from vsepp.base.spec import Component
from vsepp.evaluation.metric_list import AVERAGED, COMPARED, METRICS, SCORES
from vsepp.report.figures import SHARED, Kind, kind_of
from vsepp.report.text import DIRECTIONS, TASKS

if TYPE_CHECKING:
    # Text wherever it is not checked.
    Column = str
    Task = str
    Protocol = str
    FigureKind = Component
    Loss = Component
else:
    Column = Literal[(*METRICS, "spearman")]
    Task = Literal[tuple(TASKS)]
    Protocol = Literal[(*PROTOCOLS, *components.known("truth"))]
    """A protocol, or a truth under which all images are ranked."""
    FigureKind, Loss = map(component_of, ("figure", "loss"))


@dataclass(frozen=True, config=STRICT)
class PaperSpec:
    """The paper whose numbers stand beside ours."""

    title: str
    short: str
    """What the paper is called, such as VSE++."""
    citation: str
    """Authors, title and year, as a sentence names them."""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Row:
    """A row of this table only, or a published row filled by a shared run."""

    run: str | Annotated[tuple[str, ...], Field(min_length=1)]
    """Id of a run; of several runs the row shows the one with the highest rsum on validation."""
    protocol: Protocol
    row: str | None = None
    """The published row to compare with, if any."""
    label: str | None = None
    """Label of the row; by default made from the run."""

    @property
    def runs(self) -> tuple[str, ...]:
        """The run, or all of which one is shown."""
        return (self.run,) if isinstance(self.run, str) else self.run


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Group:
    """Rows that are compared with each other: the best of a column is the best of its group."""

    heading: str
    rows: Annotated[tuple[str | Row, ...], Field(min_length=1)]
    """Published rows by number, or your own rows."""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Table:
    """One table. `table2` is the paper's Table 2, `2` in published.csv; another id is one's own and no number."""

    title: str
    caption: str
    dataset: str
    """Role."""
    groups: Annotated[tuple[Group, ...], Field(min_length=1)]
    trainset: bool = True
    """Whether a column names each row's training set."""
    columns: tuple[Column, ...] = ()
    """Metrics of each direction; if left out, the metrics of all the paper's tables."""
    tasks: tuple[Task, ...] = tuple(DIRECTIONS)
    """What the metrics are of; of a truth there are more than the two directions."""
    tint: Literal["green", "blue", "red"] | None = None
    """On a page, the darker a cell, the better it is among its column and group."""

    @property
    def rows(self) -> Iterator[str | Row]:
        """Rows, group after group."""
        return (row for group in self.groups for row in group.rows)

    @property
    def cells(self) -> tuple[str, ...]:
        """Columns of numbers, both directions: `i2t_r1`, ..., `t2i_medr`."""
        return tuple(f"{task}_{metric}" for task in self.tasks for metric in self.columns)

    @property
    def headings(self) -> list[str]:
        """What its columns are of, in words."""
        return [TASKS[task] for task in self.tasks]


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Figure:
    """One figure. `figure2a` is the paper's Figure 2a; another id is one's own and no number.

    Which of the keys below `width` an entry needs and takes, the module of its kind says.
    """

    kind: FigureKind
    """A module of vsepp.report.figures, with its options. The plot of all gaps is made without an entry."""
    title: str
    caption: str
    width: Literal["column", "page"] = "column"
    """Columns of a two-column page: 3.3 or 7 inches."""
    dataset: str = ""
    """Role; empty where no data are behind it."""
    metrics: tuple[str, ...] = ()
    """What is drawn, a panel each, such as i2t_r1; of standings one."""
    runs: tuple[str, ...] | dict[Count, str] = ()
    """Run ids. negative_set: size of the negative set → run id. examples: two run ids. differences: two run ids a label."""
    labels: tuple[str, ...] = ()
    """What the runs are called; negative_set names the line and the baseline, standings rows of tables, constellations and
    weights the losses."""
    baseline: str | None = None
    """Run drawn as a horizontal line."""
    protocol: Protocol | None = None
    """Under which test scores are shown."""
    losses: tuple[Loss, ...] = ()
    """For constellations and weights: modules of vsepp.losses, with their options."""

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Figure:
        name, kind = self.kind.name, self.of_kind
        given = {field.name for field in dataclasses.fields(self) if getattr(self, field.name)}
        if extra := sorted(given - {*SHARED} - kind.needs - kind.takes):
            raise ValueError(f"a figure of kind {name} takes no {', '.join(extra)}")
        if missing := sorted(kind.needs - given - self.kind.options.keys()):
            raise ValueError(f"a figure of kind {name} needs {', '.join(missing)}")
        compares = kind.runs in ("pairs", "rows")  # by differences with intervals
        known = COMPARED if kind.shows_training else AVERAGED if compares else SCORES
        if unknown := [metric for metric in self.metrics if metric not in known]:
            raise ValueError(f"metrics: got {unknown[0]!r}; a figure of kind {name} shows {', '.join(known)}")
        if kind.most_metrics and len(self.metrics) > kind.most_metrics:
            raise ValueError(
                f"metrics: a figure of kind {name} shows {kind.most_metrics}, got {len(self.metrics)}"
            )
        if isinstance(self.runs, dict) is not (kind.runs == "by_size") and self.runs:
            expected = "size → run id" if kind.runs == "by_size" else "a list of run ids"
            raise ValueError(f"runs: expected {expected}, as a figure of kind {name} has")
        number = {"pair": 2, "pairs": 2 * len(self.labels)}.get(kind.runs, len(self.drawn))
        if len(self.drawn) != number:
            what = f"got {len(self.drawn)} with {len(self.labels)} labels"
            raise ValueError(f"runs: {what}; expected {number} in this figure of kind {name}")
        for loss in self.losses:
            if missing := [key for key in kind.losses_need if not hasattr(checked("loss", loss), key)]:
                raise ValueError(
                    f"losses: loss {loss.name} has no option `{missing[0]}`, which a figure of kind {name} draws"
                )
        return self

    @property
    def under(self) -> str:
        """Its protocol, of a figure that has one."""
        return self.protocol or ""

    @property
    def of_kind(self) -> Kind:
        """What its kind declares."""
        return kind_of(self.kind.name)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the negative set that its runs stand for, in pairs, ascending; none where they are a list."""
        return tuple(sorted(self.runs)) if isinstance(self.runs, dict) else ()

    @property
    def drawn(self) -> tuple[str, ...]:
        """Run ids that it lists, in the order of the labels, or of the sizes."""
        return (
            tuple(self.runs[size] for size in self.sizes) if isinstance(self.runs, dict) else tuple(self.runs)
        )

    @property
    def named(self) -> tuple[str, ...]:
        """All run ids that it lists, the baseline's too."""
        return (*self.drawn, *([self.baseline] if self.baseline else []))


class TablesFile(BaseModel):
    """A paper's `tables.yaml`."""

    model_config = ConfigDict(**STRICT, frozen=True)

    paper: PaperSpec
    titles: dict[Role, str]
    """Role → the paper's name."""
    default_encoder: Role
    """Encoder that row labels omit."""
    columns: tuple[Column, ...]
    tables: dict[str, Table]
    figures: dict[str, Figure]

    @property
    def own_rows(self) -> list[Row]:
        """Rows of all tables that are no published rows alone."""
        rows = (row for table in self.tables.values() for row in table.rows)
        return [row for row in rows if isinstance(row, Row)]
