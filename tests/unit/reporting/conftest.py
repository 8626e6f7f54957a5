"""Models on disk, and the specs of reports that show them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from reported import Models

from vsepp.reporting.records import read_published
from vsepp.reporting.specs import (
    ContextSpec,
    FigureSpec,
    GroupSpec,
    PaperSpec,
    ReportSpec,
    RowSpec,
    TableSpec,
)

PAPER = Path(__file__).resolve().parents[3] / "params/papers/vsepp"
DATA_NOTE = "Numbers of the embedded corpus, not of MS-COCO or Flickr30K."


@pytest.fixture
def models(tmp_path):
    return Models(tmp_path / "results")


@pytest.fixture(scope="session")
def context():
    return ContextSpec(
        paper=PaperSpec("VSE++: Improving", "Faghri et al., VSE++", ("VSE0", "VSE++")),
        preset="mini",
        variant="paper",
        fidelity="paper",
        title="VSE++ on the embedded corpus",
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
    return read_published(PAPER / "published.csv")


@pytest.fixture(scope="session")
def report(context):
    """Make the spec of the paper's whole report; `feeds` says which (run, protocol) and released checkpoint feed a row."""
    declared = yaml.safe_load((PAPER / "tables.yaml").read_text(encoding="utf-8"))

    def table(name, keys, feeds):
        groups = tuple(
            GroupSpec(group["heading"], tuple(RowSpec(row, *feeds.get(row, ())) for row in group["rows"]))
            for group in keys.pop("groups")
        )
        return TableSpec(name, columns=tuple(declared["columns"]), groups=groups, **keys)

    def figure(name, keys):
        runs = keys.pop("runs")
        sizes = tuple(runs) if isinstance(runs, dict) else ()
        runs = tuple(runs.values()) if sizes else tuple(runs)
        for key in ("metrics", "labels"):
            keys[key] = tuple(keys[key])
        return FigureSpec(name, runs=runs, sizes=sizes, **keys)

    def make(feeds=None, models=()):
        tables = tuple(table(name, dict(keys), feeds or {}) for name, keys in declared["tables"].items())
        figures = tuple(figure(name, dict(keys)) for name, keys in declared["figures"].items())
        sources = (("Loss max_of_hinges", "Faghri et al. (2018), Eq. 6"),)
        return ReportSpec(context, str(PAPER / "published.csv"), tables, figures, tuple(models), sources)

    return make
