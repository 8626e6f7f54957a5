"""Models on disk, and the specs of reports that show them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plans import PARAMS, plan
from trained_models import DIRTY, I2T, OWN, T2I, Models

from vsepp.evaluation import intervals
from vsepp.report import plots
from vsepp.report.entries import ContextSpec, Feed, Group, PaperSpec, ReportSpec, Row
from vsepp.report.pages import write_report
from vsepp.report.pairing import Material
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
        material = Material(ReportSpec(context, **more), records, published or {})
        return write_figure(name, spec, material, tmp_path)

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
def report_spec(report, tmp_path_factory):
    """Rows 2.2 (two seeds), 1.7 (code that no commit holds) and one of one's own were run; 2.2 and 2.4 have checkpoints.

    A seed of one's own run collapsed. A claim compares two runs of two seeds; others were not run.
    """
    models = Models(tmp_path_factory.mktemp("results"))
    models.add("vse0", (50.26, *I2T[1:]))
    models.add("vse0", (50.26, *I2T[1:]), (32.0, *T2I[1:]), seed=2)
    models.add("vsepp", (55, *I2T[1:]), trained=DIRTY)
    models.add("mine", (60, *I2T[1:]))
    models.add("mine", seed=1, collapsed=True)
    models.add("released", (71.26, *I2T[1:]), (61, *T2I[1:]), history=())
    models.add("flickr-vse0-rc", protocol="1K")
    for seed in (0, 1):
        models.add("coco-vsepp-rc", (50.0 + seed, *I2T[1:]), seed=seed)
        models.add("coco-vse0-rc", seed=seed)
    feeds = {
        "2.2": ("vse0", "5x1K", "released"),
        "1.7": ("vsepp", "5x1K"),
        "2.4": ("none", "5x1K", "released"),
    }
    spec = report(feeds, models.all)
    rows = (Row(run="mine", protocol="5x1K"), Row(run="later", protocol="1K", label="My_1 <i> & 50 %"))
    (_, first), *_ = spec.tables
    table = replace(first, title="Margins", groups=(Group(heading="", rows=rows),), trainset=False)
    (name, figure) = spec.figures[1]
    figures = ((name, replace(figure, caption=f"{figure.caption} {WILD}")),)
    runs = {**spec.runs, "mine": OWN, "later": OWN}
    return replace(spec, tables=(*spec.tables, ("margins", table)), figures=figures, runs=runs)


@pytest.fixture(scope="session")
def report_folder(report_spec, tmp_path_factory):
    """Where that report was written."""
    path = tmp_path_factory.mktemp("report")
    write_report(report_spec, path, path)
    return path
