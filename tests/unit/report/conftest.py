"""Models on disk, and the specs of reports that show them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plans import PARAMS, plan
from trained_models import I2T, Models

from vsepp.evaluation import intervals
from vsepp.report import plots
from vsepp.report.entries import ContextSpec, Feed, PaperSpec, ReportSpec, Row
from vsepp.report.pages import write_report
from vsepp.report.plots import write_figure
from vsepp.report.published import read_published

WILD = "50 % of $x_1$ & {evil} \\input{x} #~^ <b> שלום 🐕 日本 naïve"
DATA_NOTE = "Numbers on generated scenes, not on MS-COCO or Flickr30K."


@pytest.fixture
def few_resamples(monkeypatch):
    """Enough for what is told apart by much, in a tenth of the time."""
    monkeypatch.setattr(intervals, "RESAMPLES", 999)


@pytest.fixture
def formats(request, monkeypatch):
    """Figures are SVG alone where a test asks for no other formats; all three formats take three times as long."""
    wanted = getattr(request, "param", ["svg"])
    monkeypatch.setattr(plots, "_METADATA", {name: plots._METADATA[name] for name in wanted})


@pytest.fixture
def models(tmp_path):
    return Models(tmp_path / "results")


@pytest.fixture(scope="session")
def context():
    return ContextSpec(
        paper=PaperSpec("VSE++: Improving", "VSE++", "Faghri et al., VSE++"),
        preset="mini",
        variant="paper",
        fidelity="paper",
        title="VSE++ on generated scenes",
        summary="Rendered scenes with five captions each.",
        data_note=DATA_NOTE,
        seeds=(0,),
        fold_size=100,
        titles={"coco": "scenes A", "flickr": "scenes B", "vgg": "vgg_mini", "resnet": "resnet_mini"},
        paper_titles={"coco": "MS-COCO", "flickr": "Flickr30K", "vgg": "VGG19", "resnet": "ResNet152"},
        default_encoder="vgg",
    )


@pytest.fixture
def draw(models, context, tmp_path):
    """Draw a figure of the models that are there; `more`: what the report knows of its runs and data."""

    def drawn(name, spec, context=context, published=None, records=None, **more):
        records = models.records if records is None else records
        return write_figure(name, spec, ReportSpec(context, **more), records, tmp_path, published or {})

    return drawn


@pytest.fixture(scope="session")
def own_data(context):
    """The paper's own data and encoders."""
    return replace(context, titles=context.paper_titles, data_note="")


@pytest.fixture(scope="session")
def published():
    return read_published(PARAMS / "papers/vsepp/published.csv")


@pytest.fixture(scope="session")
def report(context):
    """Make the spec of the paper's whole report; `feeds` says which (run, protocol) and released checkpoint feed a row."""
    planned = plan().table["report", "vsepp"].spec

    def make(feeds=None, models=()):
        fed = {row: Feed(*feed) for row, feed in (feeds or {}).items()}
        sources = (("Loss max_of_hinges", "Faghri et al. (2018), Eq. 6"),)
        # What is computed for figures is not there.
        return replace(planned, context=context, feeds=fed, data={}, models=tuple(models), sources=sources)

    return make


@pytest.fixture(scope="session")
def report_folder(report, tmp_path_factory):
    """A report of two runs that a claim compares, of two seeds; one of them ranks like chance in a table, others were not run;
    captions and a row's name are full of specials."""
    models = Models(tmp_path_factory.mktemp("results"))
    for seed in (0, 1):
        models.add("coco-vsepp-rc", (50.0 + seed, *I2T[1:]), seed=seed)
        models.add("coco-vse0-rc", seed=seed)
    chance = (0.5, 2.0, 4.0, 60, 60.0)
    models.add("coco-vsepp-rc-rv", chance, chance)
    runs = {"2.2": "coco-vse0-rc", "1.7": "coco-vsepp-rc", "1.8": "coco-vsepp-rc-rv"}
    spec = report({row: (run, "5x1K") for row, run in runs.items()}, models.all)
    figures = tuple(
        (name, replace(figure, caption=f"{figure.caption} {WILD}")) for name, figure in spec.figures[1:3]
    )
    own = {"system": WILD, "encoder": "vgg", "finetuned": "no", "dataset": "coco", "trainset": "RC"}
    row = Row(run="coco-vse0-rc", protocol="5x1K")
    (name, first), *others = spec.tables
    groups = (replace(first.groups[0], rows=(*first.groups[0].rows, row)), *first.groups[1:])
    tables = ((name, replace(first, groups=groups)), *others)
    spec = replace(spec, tables=tables, figures=figures, runs={**spec.runs, "coco-vse0-rc": own})
    path = tmp_path_factory.mktemp("report")
    write_report(spec, path, path)
    return path
