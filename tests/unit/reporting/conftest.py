"""Models on disk, and the specs of reports that show them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plans import PARAMS, plan
from reported import Models

from vsepp.evaluation import intervals
from vsepp.reporting import figures
from vsepp.reporting.records import read_published
from vsepp.reporting.specs import ContextSpec, PaperSpec, RowSpec

DATA_NOTE = "Numbers on generated scenes, not on MS-COCO or Flickr30K."


@pytest.fixture
def few_resamples(monkeypatch):
    """Enough for what is told apart by much, in a tenth of the time."""
    monkeypatch.setattr(intervals, "RESAMPLES", 999)


@pytest.fixture
def formats(request, monkeypatch):
    """Of figures: SVG alone, where a test asks for no others; all three take three times as long."""
    wanted = getattr(request, "param", ["svg"])
    monkeypatch.setattr(figures, "_METADATA", {name: figures._METADATA[name] for name in wanted})


@pytest.fixture
def models(tmp_path):
    return Models(tmp_path / "results")


@pytest.fixture(scope="session")
def context():
    return ContextSpec(
        paper=PaperSpec("VSE++: Improving", "Faghri et al., VSE++"),
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

    def filled(table, feeds):
        groups = (
            replace(group, rows=tuple(RowSpec(row.row, *feeds.get(row.row, ())) for row in group.rows))
            for group in table.groups
        )
        return replace(table, groups=tuple(groups))

    def make(feeds=None, models=()):
        tables = tuple(filled(table, feeds or {}) for table in planned.tables)
        # What is computed for figures is not there.
        figures = tuple(replace(figure, data="") for figure in planned.figures)
        sources = (("Loss max_of_hinges", "Faghri et al. (2018), Eq. 6"),)
        return replace(
            planned, context=context, tables=tables, figures=figures, models=tuple(models), sources=sources
        )

    return make
