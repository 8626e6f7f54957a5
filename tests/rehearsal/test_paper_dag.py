"""The whole DAG of the preset `paper`, from downloads to tables, on a slice: a few images a split, batches of four.

The raw files are made up, but as large as the real ones; the networks are VGG19 and ResNet152 with made-up weights. One
override makes the slice. Takes about half an hour on two cores, 20 GB of disk and 10 GB of memory.
"""

import csv
import json
import os
import shutil

import pytest
import yaml
from dag import ROOT, copy_of_the_project
from file_server import serve
from fullsize import Sizes, write_raw
from made_weights import write_weights

from vsepp.base.digests import file_digest
from vsepp.pipeline.planner import make_plan

pytestmark = [pytest.mark.rehearsal, pytest.mark.timeout(4 * 3600)]

SPLITS = {
    "coco": {"train": 8, "restval": 4, "val": 5, "test": 10},
    "flickr": {"train": 8, "val": 5, "test": 4},
}
SLICE = {
    "label": "slice",
    "corpora": {role: {"first_images": first} for role, first in SPLITS.items()},
    "evaluation": {"fold_size": 2},
    "runs": {
        "default": {"epochs": 2, "batch_size": 4, "vocabulary_threshold": 2},
        "finetune": {"epochs": 1},
    },
    "resources": {"threads": 1},
}


def known(path):
    return {"size": path.stat().st_size, "sha256": file_digest(path)}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The finished slice; its files came from a server, except the files that no mirror serves."""
    folder = tmp_path_factory.mktemp("paper")
    # Splits and captions of all images; of the photographs, all are listed and the first ones are there.
    raw = write_raw(folder / "raw", Sizes(photographs=60), images=32)
    archives = folder / "archives"
    archives.mkdir()
    (archives / "flickr30k-images.zip").symlink_to(raw["flickr30k-images.zip"])
    weights = {name: write_weights(folder, name) for name in ("vgg19", "resnet152")}
    served = {name: raw[name] for name in raw if name != "flickr30k-images.zip"}
    served |= {path.name: path for path in weights.values()}
    with serve(served) as server:
        sources = {
            name: {"mirrors": [server.url("gone/" + name), server.url(name)], **known(path)}
            for name, path in served.items()
        }
        # Nobody has published this one's sum: it is recorded.
        sources["caption_datasets.zip"]["sha256"] = None
        terms = {"licence": "made up", "citation": "nobody"}
        for path in weights.values():
            sources[path.name] |= terms
        encoders = {
            role: {"weights": f"file/{weights[name].name}"}
            for role, name in (("vgg", "vgg19"), ("resnet", "resnet152"))
        }
        config = {
            **SLICE,
            "preset": "paper",
            "archives": str(archives),
            "sources": sources,
            "encoders": encoders,
        }
        project = copy_of_the_project(folder / "work", config)
        done = project.call(*project.snakemake(), check=False)
        (folder / "snakemake.log").write_text(done.stdout)
        assert done.returncode == 0, f"{folder}: {done.stdout[-8000:]}"
        requests = list(server.requests)
    yield project, requests
    shutil.rmtree(folder)


@pytest.fixture
def paper(finished):
    return finished[0]


def test_every_run_of_the_paper_was_trained_and_evaluated(paper):
    results = paper.folder / "results/paper/slice"
    histories = sorted(results.glob("runs/*/seed-0/history.csv"))
    plan = make_plan(ROOT / "params", {"preset": "paper"})
    runs = {artefact.spec.id for artefact in plan.table.values() if artefact.kind == "run"}
    assert len(runs) > 30 and {history.parent.parent.name for history in histories} == runs
    for history in histories:
        with history.open() as stream:
            epochs = list(csv.DictReader(stream))
        assert len(epochs) == (1 if history.parent.parent.name.endswith("-ft") else 2)
        assert all(float(epoch["loss"]) > 0 for epoch in epochs)
        run = history.parent.parent.name
        metrics = json.loads((results / "evaluations" / run / "seed-0/metrics.json").read_text())
        assert all(0 <= found["i2t"]["r10"] <= 100 for found in metrics.values())


def test_every_trained_row_is_filled(paper):
    filled = 0
    for number in (1, 2, 3, 4):
        with (paper.folder / f"reports/paper/slice/vsepp/tables/table{number}.csv").open() as stream:
            rows = [row for row in csv.DictReader(stream) if row["kind"] == "trained"]
        assert all(row["status"] == "run" and row["ours_i2t_r1"] for row in rows)
        filled += len(rows)
    assert filled == 8 + 12 + 10 + 4


def test_encoders_and_crops_are_the_papers(paper):
    results = paper.folder / "results/paper"
    spec = json.loads((results / "slice/runs/coco-vsepp-rc-rv/seed-0/config.json").read_text())
    assert spec["encoder"]["architecture"] == "torchvision/vgg19"
    assert spec["train_store"] == {"resize": "squash", "side": 256}
    dims = {
        path.name.split("-")[0]: json.loads((path / "encoder.json").read_text())["dim"]
        for path in (results / "encoders").iterdir()
        if path.is_dir() and not path.name.startswith(".")
    }
    assert dims == {"vgg": 4096, "resnet": 2048}


def test_files_came_from_the_second_mirror_once_and_the_unknown_sum_was_recorded(finished):
    paper, requests = finished
    fetched = [request.name for request in requests if request.status == 200]
    assert sorted(set(fetched)) == sorted(fetched)
    assert any(request.name.startswith("gone/") and request.status == 404 for request in requests)
    recorded = yaml.safe_load((paper.folder / "params/sources.lock.yaml").read_text())
    assert list(recorded) == ["caption_datasets.zip"]
    assert (
        recorded["caption_datasets.zip"] | known(paper.folder / "resources/downloads/caption_datasets.zip")
        == (recorded["caption_datasets.zip"])
    )


def test_a_second_call_has_nothing_to_do_even_with_other_mirrors(paper):
    sources = {name: {**keys, "mirrors": []} for name, keys in paper.config["sources"].items()}
    assert paper.planned("reproduce_tables", sources=sources) == {}


def test_tapes_are_gone_after_their_last_reader_and_no_photograph_was_unpacked(paper):
    assert not list((paper.folder / "results/paper/tapes").glob("*/epoch-*.npy"))
    assert not [name for _, _, files in os.walk(paper.folder) for name in files if name.endswith(".jpg")]
