"""What a table, a figure and a report are: which models they show and what their captions say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from vsepp.base import components, declared
from vsepp.base.declared import PROTOCOLS, STRICT, Count, PositiveFloat
from vsepp.base.spec import Component, seeded
from vsepp.evaluation.metric_list import AVERAGED, METRICS
from vsepp.reporting.studies import FILES, HISTORY_FILE

TASKS: dict[str, str] = {
    **{task: name.capitalize() for task, name in declared.TASKS.items()},
    "sts": "STS, two captions",
    "sis": "SIS, two images",
    "sits": "SITS, image and caption",
}
"""What a table's metrics can be of, with its heading: retrieval tasks, and a truth's correlations with ratings."""
DIRECTIONS: dict[str, str] = {task: TASKS[task] for task in ("i2t", "t2i")}
"""Direction of a query → the field's name for it: image→text is caption retrieval."""


ClaimKind = Literal[
    "difference",
    "difference_of_differences",
    "no_difference",
    "best_value",
    "crossing",
    "overfitting",
    "start",
]


if TYPE_CHECKING:
    # Text wherever it is not checked.
    Column = str
    AveragedMetric = str
    Task = str
    Protocol = str
else:
    Column = Literal[(*METRICS, "spearman")]
    AveragedMetric = Literal[AVERAGED]
    Task = Literal[tuple(TASKS)]
    Protocol = Literal[(*PROTOCOLS, *components.known("truth"))]
    """A protocol, or a truth under which all images are ranked."""


@dataclass(frozen=True, config=STRICT)
class PaperSpec:
    """The paper whose numbers stand beside ours."""

    title: str
    short: str
    """What the paper is called, such as VSE++."""
    citation: str
    """Authors, title and year, as a sentence names them."""


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
        return [f"{here} in place of {there}" for here, there in names if here != there]


@dataclass(frozen=True, config=STRICT)
class RowSpec:
    """One row of a table: a published one, or a run that no paper published."""

    row: str
    """Its id in published.csv; of a row of one's own its run, or its label where it has several."""
    run: str | None = None
    """The run that feeds it; `None` for a quoted row."""
    protocol: str | None = None
    """Must be the published row's protocol: scores of different protocols are not comparable."""
    released: str | None = None
    """The checkpoint that the authors released for this row, evaluated here."""
    among: tuple[str, ...] = ()
    """Runs of which the one with the highest rsum on validation feeds it."""
    own: dict[str, str] = field(default_factory=dict)
    """What published.csv says of other rows, of a row of one's own: `system`, `encoder`, `finetuned`, `dataset`, `trainset`; `label`."""


@dataclass(frozen=True, config=STRICT)
class GroupSpec:
    """Rows that are compared with each other: the best of a column is the best of its group."""

    heading: str
    rows: tuple[RowSpec, ...]


@dataclass(frozen=True, config=STRICT, kw_only=True)
class TableEntry:
    """What a `tables.yaml` says of a table."""

    title: str
    caption: str
    dataset: str
    """Role."""
    trainset: bool = True
    """Whether a column names each row's training set."""
    columns: tuple[Column, ...] = ()
    """Metrics of each direction; if left out, the metrics of all the paper's tables."""
    tasks: tuple[Task, ...] = tuple(DIRECTIONS)
    """What the metrics are of; of a truth there are more than the two directions."""
    tint: Literal["green", "blue", "red"] | None = None
    """On a page, the darker a cell, the better it is among its column and group."""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class TableSpec(TableEntry):
    """One table."""

    id: str
    """The name of its files. `table2` is the paper's Table 2, `2` in published.csv; another id is one's own and no number."""
    groups: tuple[GroupSpec, ...]

    @property
    def cells(self) -> tuple[str, ...]:
        """Columns of numbers, both directions: `i2t_r1`, ..., `t2i_medr`."""
        return tuple(f"{task}_{metric}" for task in self.tasks for metric in self.columns)

    @property
    def headings(self) -> list[str]:
        """What its columns are of, in words."""
        return [TASKS[task] for task in self.tasks]


@dataclass(frozen=True, config=STRICT, kw_only=True)
class FigureEntry:
    """What a `tables.yaml` says of a figure; which of it each kind needs and takes, its module says."""

    kind: Component
    """A module of vsepp.reporting.figures; what is drawn, and how. The plot of all gaps is made without an entry."""
    title: str
    caption: str
    width: Literal["column", "page"] = "column"
    """Columns of a two-column page: 3.3 or 7 inches."""
    dataset: str = ""
    """Role; empty where no data are behind it."""
    metrics: tuple[str, ...] = ()
    """What is drawn, a panel each, such as i2t_r1; of standings one."""
    labels: tuple[str, ...] = ()
    """What the runs are called; negative_set names the line and the baseline, standings rows of tables, constellations and
    weights the losses."""
    baseline: str | None = None
    """Run drawn as a horizontal line."""
    protocol: Protocol | None = None
    """Under which test scores are shown."""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class FigureSpec(FigureEntry):
    """One figure."""

    id: str
    """The name of its files. `figure2a` is the paper's Figure 2a; another id is one's own and no number."""
    runs: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    """Negative-set sizes of the runs, in pairs, ascending; where runs are shown by size."""
    references: tuple[tuple[str, str], ...] = ()
    """(run, its row in published.csv)."""
    printed: tuple[tuple[str, str, str, float], ...] = ()
    """(run, other run, metric, the paper's effect), of the claims about the differences that it shows."""
    encoders: tuple[str, ...] = ()
    """Roles of the encoders of its runs."""
    data: str = ""
    """Folder of what a step computed for it; empty where there is none, or where it was not run."""
    photographs: bool = False
    """Whether pictures of its data may be shown; else their ids are."""

    @property
    def under(self) -> str:
        """Its protocol, of a figure that has one."""
        return self.protocol or ""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class ClaimEntry:
    """What a `claims.yaml` says of a claim; `vsepp.reporting.claims` says how each kind is judged."""

    claim: str
    """What the paper says, as a sentence."""
    place: str = ""
    """Where it says so: section, rows, figure; a comparison of one's own has none and is counted apart."""
    kind: ClaimKind
    protocol: Protocol | None = None
    """Under which test scores are compared; none for validation curves."""
    sign: Literal[1, -1] = 1
    """Sign of the effect that the paper claims."""
    margin: PositiveFloat = 1.0
    """Points within which there is no difference."""
    at_most: PositiveFloat | None = None
    """Points above which a difference is not the one that the paper calls slight."""
    epochs: Annotated[int, Field(ge=0)] = 0
    """Fewest epochs that the runs of validation curves must have, else it is not run."""
    best: tuple[Count, Count] | None = None
    """First and last of the sizes among which best_value is claimed to be."""
    note: str = ""
    """Said beside the claim."""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class ClaimSpec(ClaimEntry):
    """One claim of the paper about one metric, and how it is held against our runs."""

    id: str
    """Unique in the paper: `<entry of claims.yaml>/<metric>`."""
    runs: tuple[str, ...]
    metric: str
    """`i2t_r1`, ..., `rsum`."""
    roles: tuple[str, ...]
    """Roles of the data and the encoders of these runs."""
    published: float | None = None
    """The paper's effect; `None` where it prints none."""
    against: float | None = None
    """The number that others published, where a claim is about one run and a number."""
    sizes: tuple[int, ...] = ()
    """What the runs of a claim of kind `best_value` stand for, ascending."""

    @property
    def is_gap(self) -> bool:
        """Whether it is about one gap between two runs, which the plot of gaps shows."""
        return self.kind in ("difference", "no_difference") and len(self.runs) == 2


@dataclass(frozen=True, config=STRICT)
class TrainedSpec:
    """A model of one seed, where what is reported of it lies, and what its provenance must say."""

    model: str
    """Id of the run, or name of the released checkpoint."""
    seed: int
    trained: bool
    """Whether it was trained here and has a history; a released checkpoint has none."""
    run: str = ""
    """Folder of the trained model; empty of a record."""
    evaluation: str = ""
    """Folder of its embeddings, ranks and metrics; empty of a record."""
    spec_digests: dict[str, str] = field(default_factory=dict)
    """`run` and `evaluation` → digest of the spec that the parameters give them; empty of a record, which stays what it is."""
    pictures: str = ""
    """Folder of small pictures of its test images; empty where its data have none."""
    study: str = ""
    """Folder of the records that it is one of; empty where its results are here."""


@dataclass(frozen=True, config=STRICT)
class ReportSpec:
    """Everything that one `index.html` holds."""

    context: ContextSpec
    published: str
    """Path of published.csv."""
    tables: tuple[TableSpec, ...]
    figures: tuple[FigureSpec, ...]
    models: tuple[TrainedSpec, ...] = ()
    """Seeds of one model stand together. Rows and lines whose run is not among them say that it was not run."""
    claims: tuple[ClaimSpec, ...] = ()
    expected: str = ""
    """Path of the expected values of these scores; empty where there are none."""
    sources: tuple[tuple[str, ...], ...] = ()
    """(component, where it comes from) of what the models are made of."""

    @property
    def files(self) -> list[str]:
        """Files that the report has whatever came out, relative to its folder."""
        tables = [f"tables/{table.id}.{suffix}" for table in self.tables for suffix in ("csv", "html", "tex")]
        drawn = [figure.id for figure in self.figures]
        if any(claim.is_gap for claim in self.claims):
            drawn.append("gaps")
        figures = [f"figures/{figure}.{suffix}" for figure in drawn for suffix in ("png", "svg", "pdf")]
        models = dict.fromkeys(f"runs/{model.model}.html" for model in self.models)
        curves = [f"curves/{model.model}-seed-{model.seed}.csv" for model in self.models if model.trained]
        always = ("headline.txt", "claims.csv", "metrics.json", "tables/tables.tex")
        return [*always, *tables, *figures, *models, *curves]

    @property
    def inputs(self) -> dict[str, Path]:
        """Role → what the report is made of: the paper's numbers, evaluations, histories, and data of figures."""
        inputs = {"published": Path(self.published)}
        if self.expected:
            inputs["expected"] = Path(self.expected)
        for model in self.models:
            if model.study:
                inputs |= {f"records/{file}": Path(model.study) / file for file in FILES}
                continue
            name = seeded(model.model, model.seed)
            inputs[f"evaluation/{name}"] = Path(model.evaluation)
            if model.trained:
                inputs[f"history/{name}"] = Path(model.run) / HISTORY_FILE
            if model.pictures:
                inputs[f"pictures/{Path(model.pictures).name}"] = Path(model.pictures)
        for figure in self.figures:
            if figure.data:
                inputs[f"figure/{figure.id}"] = Path(figure.data)
        return inputs
