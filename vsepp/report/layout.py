"""What a report holds: entries of a paper's `tables.yaml` and `claims.yaml`, and what the plan knows of their runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from pydantic.dataclasses import dataclass

from vsepp.base import components
from vsepp.base.declared import PROTOCOLS, STRICT
from vsepp.base.spec import seeded
from vsepp.report import text
from vsepp.report.claims import Claim
from vsepp.report.entries import Figure, PaperSpec, Row, Table
from vsepp.report.records import FILES, HISTORY_FILE

if TYPE_CHECKING:
    from vsepp.pipeline.papers import Paper
    from vsepp.pipeline.plan import Plan

OF_A_ROW = ("system", "encoder", "dataset", "trainset")
"""Keys of a run that published.csv has as columns."""


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
        known = [self.runs[run] for run in runs if run in self.runs]
        return tuple(dict.fromkeys(values[key] for key in ("dataset", "encoder") for values in known))

    def encoders(self, runs: Iterable[str]) -> tuple[str, ...]:
        """Roles of the encoders of runs."""
        return tuple(dict.fromkeys(self.runs[run]["encoder"] for run in runs if run in self.runs))

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
        return inputs | {f"figure/{figure}": Path(folder) for figure, folder in self.data.items()}


def report_spec(plan: Plan, paper: Paper) -> ReportSpec:
    """Tables and figures that a paper's report holds, in their order, and what the plan knows of them."""
    parameters, entries = plan.parameters, paper.tables
    chosen = paper.selected(parameters.preset.tables)
    tables = tuple(
        (name, replace(entry, columns=entry.columns or entries.columns))
        for name in chosen
        if (entry := entries.tables.get(name))
    )
    figures = tuple((name, entries.figures[name]) for name in chosen if name in entries.figures)
    labels = {label for _, figure in figures for label in figure.labels}
    named = {
        *(run for row in entries.own_rows for run in row.runs),
        *(run for figure in entries.figures.values() for run in figure.named),
        *(run for claim in paper.claims.values() for run in claim.named),
    }
    feeds = dict(_feeds(plan, paper))
    # Its own runs, the runs of other papers that it names, and its released checkpoints.
    models = [model for model in plan.models if model in {*named, *paper.entries, *paper.released}]
    data = {role: parameters.datasets[keys.dataset] for role, keys in parameters.corpora.items()}
    expected = plan.expected
    return ReportSpec(
        context=_context(plan, paper, models),
        published=str(paper.published),
        tables=tables,
        figures=figures,
        claims=tuple(paper.claims.items()),
        runs={
            run: {
                **{key: getattr(parameters.all_runs[run], key) for key in OF_A_ROW},
                "finetuned": "yes" if parameters.all_runs[run].finetune_from else "no",
            }
            for run in {*named, *(feed.run for feed in feeds.values() if feed.run)}
        },
        feeds=feeds,
        labelled={row.label: row for row in reversed(entries.own_rows) if row.label in labels},
        truths={role: entry.truths for role, entry in data.items() if entry.truths},
        data={
            name: str(made.folder)
            for name, _ in figures
            if (made := plan.table.get(("figure_data", f"{paper.name}/{name}")))
        },
        photographs=tuple(
            role
            for role in dict.fromkeys(figure.dataset for _, figure in figures)
            if role in data and data[role].photographs
        ),
        models=tuple(_trained(plan, model, seed) for model in models for seed in plan.models[model].specs),
        expected=str(expected) if expected.is_file() else "",
        sources=tuple(_sources(plan, models)),
    )


def _feeds(plan: Plan, paper: Paper) -> Iterator[tuple[str, Feed]]:
    """Each published row that a run feeds."""
    for row, (run, protocol) in plan.parameters.feeders(paper).items():
        checkpoints = (name for name, model in plan.models.items() if model.released == run)
        yield row, Feed(run, protocol, next(checkpoints, None))


def _context(plan: Plan, paper: Paper, models: list[str]) -> ContextSpec:
    """Context that all captions share: data sets, variant, seeds."""
    parameters, preset = plan.parameters, plan.parameters.preset
    data = {role: parameters.datasets[keys.dataset].title for role, keys in parameters.corpora.items()}
    encoders = {role: keys.title for role, keys in preset.encoders.items() if keys}
    runs = [model for model in models if plan.models[model].trained]
    systems = text.listing(dict.fromkeys(plan.models[run].spec.system for run in runs))
    summary = f"{len(runs)} run{'s' * (len(runs) > 1)} of {systems} on {preset.title}"
    summary += f", beside the numbers of {paper.tables.paper.citation}." if paper.rows else "."
    left_out = {role: len(keys.leave_out) for role, keys in parameters.corpora.items() if keys.leave_out}
    if left_out:
        counts = text.listing(f"{number} of {data[role]}" for role, number in left_out.items())
        summary += f" Images left out: {counts}."
    if parameters.changed:
        summary += f" Overridden: {json.dumps(parameters.changed)}."
    return ContextSpec(
        paper=paper.tables.paper,
        preset=plan.preset,
        variant=plan.variant,
        fidelity=parameters.settings.fidelity,
        title=f"{paper.tables.paper.short} on {preset.title}",
        summary=summary,
        data_note=preset.data_note.strip(),
        seeds=tuple(plan.seeds),
        fold_size=preset.evaluation.fold_size,
        titles={**data, **encoders},
        paper_titles=dict(paper.tables.titles),
        default_encoder=paper.tables.default_encoder,
        settings=_settings(plan),
        serif=parameters.settings.serif,
    )


def _settings(plan: Plan) -> str:
    """The given settings as `--config` takes them, quoted for a shell."""
    settings = plan.parameters.settings
    values: dict[str, Any] = {
        "papers": settings.papers,
        "fidelity": settings.fidelity,
        "seeds": settings.seeds,
    }
    values |= plan.parameters.changed
    values |= {"label": settings.label} if settings.label else {}
    # A folder of the project, not of this machine.
    if settings.archives and not Path(settings.archives).is_absolute():
        values["archives"] = settings.archives
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
    return " ".join(quote(f"{key}={value}") for key, value in texts.items() if key != "preset")


def _trained(plan: Plan, model: str, seed: int) -> TrainedSpec:
    """One model of one seed, and what its manifest must say."""
    if seed in plan.models[model].recorded:
        return TrainedSpec(model, seed, trained=True, study=str(plan.study.folder))
    evaluation = plan.evaluation(model, seed)
    assert evaluation
    run = plan.owner(evaluation.inputs["run"].path)
    assert run
    return TrainedSpec(
        model,
        seed,
        trained=plan.models[model].trained,
        run=str(run.folder),
        evaluation=str(evaluation.folder),
        spec_digests={"run": run.spec_digest, "evaluation": evaluation.spec_digest},
        pictures=str(plan.models[model].pictures or ""),
    )


def _sources(plan: Plan, models: list[str]) -> Iterator[tuple[str, str]]:
    """Citations of the models' components, where they have one."""
    used: dict[tuple[str, str], None] = {}
    for name in models:
        spec = plan.models[name].spec
        evaluation = plan.evaluation(name, spec.init_seed)
        corpus = plan.owner(evaluation.inputs["corpus"].path) if evaluation else None
        dataset = plan.parameters.datasets[plan.parameters.corpora[spec.dataset].dataset]
        reader = (corpus.spec if corpus else dataset).reader
        used |= dict.fromkeys([*spec.components, spec.encoder.component, ("reader", reader.name)])
    for kind, name in sorted(used, key=lambda component: list(components.KINDS).index(component[0])):
        if citation := components.describe(kind, name).citation:
            yield f"{kind.capitalize()} {name}", citation
