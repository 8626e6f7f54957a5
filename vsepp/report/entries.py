"""What a report holds: entries of a paper's `tables.yaml` and `claims.yaml`, and what the plan knows of their runs.

Kinds of figures are in `vsepp.report.figures`, kinds of claims in `vsepp.report.claims`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.dataclasses import dataclass

from vsepp.base import components
from vsepp.base.components import component_of
from vsepp.base.declared import PROTOCOLS, STRICT, Name, Role
from vsepp.base.run_spec import seeded
from vsepp.base.spec import Component
from vsepp.evaluation.metrics import AVERAGED, COMPARED, METRICS, SCORES
from vsepp.report.text import DIRECTIONS, TASKS

OF_A_ROW = ("system", "encoder", "dataset", "trainset")
"""Keys of a run that published.csv has as columns."""
ALL_TABLES, ALL_GAPS = "tables", "gaps"
"""Names of what a report has beside its entries: the LaTeX document of all tables, and the plot of all gaps."""
METRICS_FILE, RANKS_FILE, HISTORY_FILE = "metrics.json", "ranks.npz", "history.csv"
"""Files of an evaluation and of a training."""
RUNS_FILE, MANIFESTS_FILE = "runs.jsonl", "manifests.jsonl"
STUDY_FILES = (RANKS_FILE, HISTORY_FILE, MANIFESTS_FILE, RUNS_FILE)
"""Files of a study; see `vsepp.report.records`."""
KNOWN_RANKS = "ranks.csv"
"""File beside the expected values; see `vsepp.report.expected`."""


class _Kinds:
    """Of a key whose value is of one of several kinds, by its `kind`. The kinds import this module, so they are looked up when a file is read."""

    def __init__(self, kinds: Callable[[], tuple[type, ...]]) -> None:
        self.kinds = kinds

    @property
    def declaration(self) -> Any:
        """The tagged union."""
        return Annotated[Union[self.kinds()], Field(discriminator="kind")]  # noqa: UP007

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return handler.generate_schema(self.declaration)


def _figures() -> tuple[type, ...]:
    return tuple(components.load("figure", name).Figure for name in components.known("figure"))


def _claims() -> tuple[type, ...]:
    from vsepp.report import claims

    return get_args(claims.Claim)


if TYPE_CHECKING:
    from vsepp.report.claims import Claim
    from vsepp.report.figures.base import AnyFigure as Figure
    from vsepp.report.figures.base import FigureOfLosses

    # Text wherever it is not checked.
    Column = str
    Task = str
    Protocol = str
    Score = str
    AveragedMetric = str
    ValidationMetric = str
    Loss = Component
else:
    Column = Literal[(*METRICS, "spearman")]
    Task = Literal[tuple(TASKS)]
    Protocol = Literal[(*PROTOCOLS, *components.known("truth"))]
    """A protocol, or a truth under which all images are ranked."""
    Score, AveragedMetric, ValidationMetric = Literal[SCORES], Literal[AVERAGED], Literal[COMPARED]
    Loss = component_of("loss")
    Figure = FigureOfLosses = Annotated[Any, _Kinds(_figures)]
    Claim = Annotated[Any, _Kinds(_claims)]


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


class ClaimsFile(BaseModel):
    """A paper's `claims.yaml`: id → claim."""

    model_config = ConfigDict(**STRICT, frozen=True)

    claims: dict[Name, Claim]


FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$", max_length=100)]
"""Id of a table or a figure, which its files are named after."""


def _require_free(taken: str, name: str) -> str:
    if name.lower() == taken:  # some systems do not tell Gaps from gaps
        raise ValueError(f"got {name!r}; a report has files of this name of its own: choose another name")
    return name


class TablesFile(BaseModel):
    """A paper's `tables.yaml`."""

    model_config = ConfigDict(**STRICT, frozen=True)

    paper: PaperSpec
    titles: dict[Role, str]
    """Role → the paper's name."""
    default_encoder: Role
    """Encoder that row labels omit."""
    columns: tuple[Column, ...]
    tables: dict[Annotated[FileName, AfterValidator(partial(_require_free, ALL_TABLES))], Table]
    figures: dict[Annotated[FileName, AfterValidator(partial(_require_free, ALL_GAPS))], Figure]

    @property
    def own_rows(self) -> list[Row]:
        """Rows of all tables that are no published rows alone."""
        rows = (row for table in self.tables.values() for row in table.rows)
        return [row for row in rows if isinstance(row, Row)]


@dataclass(frozen=True, config=STRICT)
class ContextSpec:
    """What all captions of a report share: which data and code its numbers come from."""

    paper: PaperSpec
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
    """Role of data or of an encoder (`coco`, `vgg`) → what plays it here."""
    paper_titles: dict[str, str]
    """Role → what played it in the paper."""
    default_encoder: str = ""
    """Role of the encoder that a row's label does not name."""
    settings: str = ""
    """What `--config` needs besides the preset to make these runs."""
    settings_file: str = ""
    """File that has all of these settings, as `vsepp try` writes one; empty where there is none."""
    serif: bool = False
    """Whether figures are set in the paper's serif type."""

    def here(self, role: str) -> str:
        """What plays a role in this report."""
        return self.titles.get(role, role)

    def in_paper(self, role: str) -> str:
        """What played a role in the paper; in a role that it does not have, what plays it here."""
        return self.paper_titles.get(role, self.here(role))

    def swaps(self, roles: Iterable[str]) -> list[str]:
        """`vgg_mini in place of VGG19`: the roles that something else plays here than in the paper."""
        names = dict.fromkeys((self.here(role), self.in_paper(role)) for role in roles)
        return [f"{ours} in place of {theirs}" for ours, theirs in names if ours != theirs]


@dataclass(frozen=True, config=STRICT)
class Feed:
    """What fills a published row."""

    run: str | None = None
    """The run; `None` for a quoted row."""
    protocol: str | None = None
    """Must be the published row's protocol: scores of different protocols are not comparable."""
    released: str | None = None
    """The checkpoint that the authors released for this row, evaluated here."""


@dataclass(frozen=True, config=STRICT)
class TrainedSpec:
    """A model of one seed, where what is reported of it lies, and what its provenance must say."""

    model: str
    """Id of the run, or name of the released checkpoint."""
    seed: int
    trained: bool
    """Whether it was trained here and has a history; a released checkpoint has none."""
    run: str = ""
    """Folder of the trained model and its embeddings; empty of a record."""
    evaluation: str = ""
    """Folder of its ranks and metrics, and of an ensemble's embeddings; empty of a record."""
    spec_digests: dict[str, str] = field(default_factory=dict)
    """`run` and `evaluation` → digest of the spec that the parameters give them; empty of a record, which stays what it is."""
    pictures: str = ""
    """Folder of small pictures of its test images; empty where its data have none."""
    study: str = ""
    """Folder of the records that it is one of; empty where its results are here."""


@dataclass(frozen=True, config=STRICT)
class FigureDataSpec:
    """What is computed for a figure of losses."""

    figure: FigureOfLosses
    """The figure without title, caption and width."""


@dataclass(frozen=True, config=STRICT)
class ReportSpec:
    """Everything that one `index.html` holds. Entries are pairs, since JSON's keys are sorted."""

    context: ContextSpec
    published: str = ""
    """Path of published.csv."""
    tables: tuple[tuple[str, Table], ...] = ()
    """(id, entry); the id is the name of its files."""
    figures: tuple[tuple[str, Figure], ...] = ()
    claims: tuple[tuple[str, Claim], ...] = ()
    runs: dict[str, dict[str, str]] = field(default_factory=dict)
    """Run that an entry names → what published.csv says of a row: `system`, `encoder`, `finetuned`, `dataset`, `trainset`."""
    feeds: dict[str, Feed] = field(default_factory=dict)
    """Published row → what fills it; rows that nothing fills are left out."""
    labelled: dict[str, Row] = field(default_factory=dict)
    """Label of a row that a figure shows → the row, of any of the paper's tables."""
    truths: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Role of data → the truths about them; roles without any are left out."""
    data: dict[str, str] = field(default_factory=dict)
    """Figure → folder of what a step computed for it."""
    photographs: tuple[str, ...] = ()
    """Roles of data whose pictures may be shown; of others their ids are."""
    models: tuple[TrainedSpec, ...] = ()
    """Seeds of one model stand together. Rows and lines whose run is not among them say that it was not run."""
    expected: str = ""
    """Path of the expected values of these scores; empty where there are none."""
    sources: tuple[tuple[str, ...], ...] = ()
    """(component, where it comes from) of what the models are made of."""

    def roles(self, runs: Iterable[str]) -> tuple[str, ...]:
        """Roles of the data, then of the encoders, of runs."""
        facts = [self.runs[run] for run in runs if run in self.runs]
        return tuple(dict.fromkeys(values[key] for key in ("dataset", "encoder") for values in facts))

    def is_own(self, runs: Iterable[str]) -> bool:
        """Whether data and encoders of runs are the paper's."""
        return not (self.context.data_note or self.context.swaps(self.roles(runs)))

    def feeding(self, row: Row) -> tuple[str, ...]:
        """The runs of a row that can be evaluated under its protocol: under a truth, only those whose data it is about."""
        if row.protocol in PROTOCOLS:
            return row.runs
        return tuple(
            run for run in row.runs if row.protocol in self.truths.get(self.runs[run]["dataset"], ())
        )

    @property
    def files(self) -> list[str]:
        """Files that the report has whatever came out, relative to its folder."""
        tables = [f"tables/{name}.{suffix}" for name, _ in self.tables for suffix in ("csv", "html", "tex")]
        drawn = [name for name, _ in self.figures]
        if any(claim.is_gap for _, claim in self.claims):
            drawn.append(ALL_GAPS)
        figures = [f"figures/{figure}.{suffix}" for figure in drawn for suffix in ("png", "svg", "pdf")]
        models = dict.fromkeys(f"runs/{model.model}.html" for model in self.models)
        curves = [f"curves/{model.model}-seed-{model.seed}.csv" for model in self.models if model.trained]
        always = ("headline.txt", "claims.csv", "metrics.json", f"tables/{ALL_TABLES}.tex")
        return [*always, *tables, *figures, *models, *curves]

    @property
    def inputs(self) -> dict[str, Path]:
        """Role → what the report is made of: the paper's numbers, evaluations, histories, and data of figures."""
        inputs = {"published": Path(self.published)}
        if self.expected:
            inputs["expected"] = Path(self.expected)
            if (ranks := Path(self.expected).with_name(KNOWN_RANKS)).is_file():
                inputs["expected/ranks"] = ranks
        for model in self.models:
            if model.study:
                inputs |= {f"records/{file}": Path(model.study) / file for file in STUDY_FILES}
                continue
            name = seeded(model.model, model.seed)
            inputs[f"evaluation/{name}"] = Path(model.evaluation)
            if model.trained:
                inputs[f"history/{name}"] = Path(model.run) / HISTORY_FILE
            if model.pictures:
                inputs[f"pictures/{Path(model.pictures).name}"] = Path(model.pictures)
        return inputs | {f"figure/{figure}": Path(folder) for figure, folder in self.data.items()}
