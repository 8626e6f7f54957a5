"""What a table, a figure and a report are: which files make them and what their captions say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DIRECTIONS: dict[str, str] = {"i2t": "Caption retrieval", "t2i": "Image retrieval"}
"""Direction of a query → the paper's name for it: image→text is caption retrieval."""


@dataclass(frozen=True)
class ContextSpec:
    """What all captions of a report share: which data and code its numbers come from."""

    preset: str
    variant: str
    fidelity: str
    title: str
    """Heading of the page."""
    summary: str
    """A paragraph below the heading: what was trained, on what."""
    data_note: str
    """Ends every caption: whose numbers these are. Empty where data and encoders are the paper's."""
    seeds: tuple[int, ...]
    fold_size: int
    """Test images in a fold of the `1K` and `5x1K` protocols."""
    titles: dict[str, str]
    """Role (`coco`, `flickr`, `vgg`, `resnet`) → what plays it here."""
    paper_titles: dict[str, str]
    """The same roles → what played them in the paper."""
    default_encoder: str = "vgg"
    """Role of the encoder that a row's label does not name."""
    commit: str = ""
    """Commit of the code that writes the report. Kept out of a rule's parameters, filled in when it runs."""
    dirty: bool | None = None
    """Whether tracked files differ from the commit; `None` where there is no git."""

    def here(self, role: str) -> str:
        """What plays a role in this report."""
        return self.titles.get(role, role)

    def in_paper(self, role: str) -> str:
        """What played a role in the paper."""
        return self.paper_titles.get(role, role)


@dataclass(frozen=True)
class RowSpec:
    """One row of a table, by its number in the paper."""

    row: str
    run: str | None = None
    """The run that feeds it; `None` for a quoted row or where no run is declared."""
    protocol: str | None = None
    """Must be the published row's protocol: scores of different protocols are not comparable."""
    metrics: tuple[str, ...] = ()
    """A `metrics.json` per seed; empty means that it was not run."""
    released: tuple[str, ...] = ()
    """The `metrics.json` of the checkpoint that the authors released for this row, evaluated here."""


@dataclass(frozen=True)
class GroupSpec:
    """Rows that are compared with each other: the best of a column is the best of its group."""

    heading: str
    rows: tuple[RowSpec, ...]


@dataclass(frozen=True)
class TableSpec:
    """One table of the paper."""

    id: str
    """`table1` ... `table4`: the name of its files, and with its number the `table` of published.csv."""
    title: str
    caption: str
    dataset: str
    """Role: `coco` or `flickr`."""
    columns: tuple[str, ...]
    """Metrics of each direction: `r1`, `r5`, `r10`, `medr`."""
    groups: tuple[GroupSpec, ...]
    trainset: bool = True
    """Whether a column names each row's training set."""

    @property
    def number(self) -> str:
        """The number that the paper gives it."""
        return self.id.removeprefix("table")

    @property
    def cells(self) -> tuple[str, ...]:
        """Columns of numbers, both directions: `i2t_r1`, ..., `t2i_medr`."""
        return tuple(f"{direction}_{metric}" for direction in DIRECTIONS for metric in self.columns)


@dataclass(frozen=True)
class SeriesSpec:
    """One run in a figure, over its seeds."""

    run: str
    label: str
    files: tuple[str, ...] = ()
    """A `history.csv` (curves) or `metrics.json` (negative set) per seed; empty means that it was not run."""
    size: int | None = None
    """Negative-set size of the run, in pairs; figures of kind `negative_set`."""


@dataclass(frozen=True)
class FigureSpec:
    """One figure of the paper."""

    id: str
    """`figure2a`, `figure2b`; also the name of its files."""
    kind: Literal["curves", "negative_set"]
    """Recall over the epochs, or recall over the negative-set size."""
    title: str
    caption: str
    dataset: str
    """Role: `coco` or `flickr`."""
    metrics: tuple[str, ...]
    """What is drawn, a panel each: `i2t_r1`, ..."""
    series: tuple[SeriesSpec, ...]
    baseline: SeriesSpec | None = None
    """A run drawn as a horizontal line; figures of kind `negative_set`."""
    protocol: str | None = None
    """Of the metrics; figures of kind `negative_set`."""

    @property
    def number(self) -> str:
        """The number that the paper gives it."""
        return self.id.removeprefix("figure")


@dataclass(frozen=True)
class MakerSpec:
    """What makes an artefact by the present parameters and code."""

    target: str
    """File that the workflow is asked for to make it."""
    spec_digest: str
    code_digest: str


@dataclass(frozen=True)
class TrainedSpec:
    """A model and where what is reported of it lies, with what its provenance must say."""

    model: str
    """Id of the run, or name of the released checkpoint."""
    seed: int
    run: str
    """Folder of the trained model."""
    metrics: str
    """Folder of its metrics."""
    made_by: dict[str, MakerSpec]
    """`run`, `embeddings` and `metrics` → what makes them now."""
    trained: bool
    """Whether it was trained here and has a history; a released checkpoint has none."""


@dataclass(frozen=True)
class ReportSpec:
    """Everything that one `index.html` holds."""

    context: ContextSpec
    published: str
    """Path of published.csv."""
    tables: tuple[TableSpec, ...]
    figures: tuple[FigureSpec, ...]
    models: tuple[TrainedSpec, ...] = ()
    """All models, in tables and figures or not."""
