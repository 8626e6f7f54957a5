"""Hand-written metrics, histories and specs for the tests of reporting."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from vsepp.provenance.manifest import write_manifest
from vsepp.reporting.specs import (
    ContextSpec,
    FigureSpec,
    GroupSpec,
    ReportSpec,
    RowSpec,
    SeriesSpec,
    TableSpec,
)

ROOT = Path(__file__).resolve().parents[3]
DATA_NOTE = "Numbers of the embedded corpus, not of MS-COCO or Flickr30K."


def metrics_section(protocol, i2t, t2i, fold_size=100, n_images=500):
    """What evaluation writes for one protocol; `i2t` and `t2i` are R@1, R@5, R@10, Med r, Mean r."""
    names = ("r1", "r5", "r10", "medr", "meanr")
    return {
        "protocol": protocol,
        "fold_size": fold_size,
        "n_images": n_images,
        "n_captions": 5 * n_images,
        "similarity": "dot",
        "image_to_text": dict(zip(names, i2t, strict=True)),
        "text_to_image": dict(zip(names, t2i, strict=True)),
        "rsum": sum(i2t[:3]) + sum(t2i[:3]),
    }


def metrics_writer(root):
    def write(run, i2t, t2i, protocol="5x1K", seed=0, git=None, trained=None, **more):
        folder = root / "metrics" / run / f"seed-{seed}"
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "metrics.json"
        content = json.loads(file.read_text()) if file.is_file() else {}
        content[protocol] = metrics_section(protocol, i2t, t2i, **more)
        file.write_text(json.dumps(content))
        if git is not None:
            seal(folder, "evaluate", git, {"run": {"step": "train", **trained}} if trained else {}, seed)
        return str(file)

    return write


def history_writer(root):
    def write(run, i2t_r1, seed=0, git=None, ancestors=None):
        file = root / "runs" / run / f"seed-{seed}" / "history.csv"
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = ["epoch,loss,i2t_r1,t2i_r1"]
        lines += [f"{epoch},{10 / epoch},{value},{value - 5}" for epoch, value in enumerate(i2t_r1, start=1)]
        file.write_text("\n".join(lines) + "\n")
        if git is not None:
            seal(file.parent, "train", git, ancestors or {}, seed)
        return str(file)

    return write


def seal(folder, step, git, ancestors, seed=0):
    """A manifest with what reports read of it."""
    write_manifest(folder, {"step": step, "seed": seed, "git": git, "ancestors": ancestors})


@pytest.fixture
def write_metrics(tmp_path):
    return metrics_writer(tmp_path)


@pytest.fixture
def write_history(tmp_path):
    return history_writer(tmp_path)


@pytest.fixture(scope="session")
def context():
    return ContextSpec(
        preset="mini",
        variant="paper",
        fidelity="paper",
        title="VSE++ on the embedded corpus",
        summary="Rendered scenes with five captions each.",
        data_note=DATA_NOTE,
        seeds=(0,),
        fold_size=100,
        titles={
            "coco": "scenes A",
            "flickr": "scenes B",
            "vgg": "vgg_mini",
            "resnet": "resnet_mini",
        },
        paper_titles={"coco": "MS-COCO", "flickr": "Flickr30K", "vgg": "VGG19", "resnet": "ResNet152"},
        commit="0123456789abcdef",
        dirty=False,
    )


@pytest.fixture(scope="session")
def writers():
    """Functions that make a writer of metrics, or of histories, for a folder."""
    return metrics_writer, history_writer


@pytest.fixture(scope="session")
def published():
    return ROOT / "params" / "published.csv"


@pytest.fixture(scope="session")
def declared():
    """params/tables.yaml as plain values."""
    return yaml.safe_load((ROOT / "params" / "tables.yaml").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def report(declared, context, published):
    """Make the whole report's spec; `rows` and `series` say which files feed what."""

    def make(rows=None, series=None):
        rows, series = rows or {}, series or {}
        tables = tuple(table_spec(name, table, declared, rows) for name, table in declared["tables"].items())
        figures = tuple(figure_spec(name, figure, series) for name, figure in declared["figures"].items())
        return ReportSpec(context, str(published), tables, figures)

    return make


def table_spec(name, table, declared, rows):
    groups = tuple(
        GroupSpec(group["heading"], tuple(rows.get(row, RowSpec(row)) for row in group["rows"]))
        for group in table["groups"]
    )
    columns = tuple(declared["columns"])
    return TableSpec(
        name, table["title"], table["caption"], table["dataset"], columns, groups, table["trainset"]
    )


def figure_spec(name, figure, series):
    curves = figure["kind"] == "curves"
    pairs = [(None, run) for run in figure["runs"]] if curves else list(figure["runs"].items())
    labels = figure["labels"] if curves else [figure["labels"][0]] * len(pairs)
    drawn = tuple(
        SeriesSpec(run, label, tuple(series.get((name, run), ())), size)
        for (size, run), label in zip(pairs, labels, strict=True)
    )
    baseline = figure.get("baseline")
    return FigureSpec(
        id=name,
        kind=figure["kind"],
        title=figure["title"],
        caption=figure["caption"],
        dataset=figure["dataset"],
        metrics=tuple(figure["metrics"]),
        series=drawn,
        baseline=baseline
        and SeriesSpec(baseline, figure["labels"][1], tuple(series.get((name, baseline), ()))),
        protocol=figure.get("protocol"),
    )
