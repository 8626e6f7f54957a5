"""The preset `paper` on a few images: from a server's archives and published regions to tables, with weights of a file."""

import csv
import json
import os
import zipfile

import numpy as np
import pytest
import torch
import yaml
from file_server import serve
from projects import copy_of_the_project
from raw_layouts import write_coco, write_precomp
from torchvision.models import get_model

from vsepp.base.digests import file_digest
from vsepp.pipeline.plan import DOWNLOADS

pytestmark = [pytest.mark.workflow, pytest.mark.whole]
CROPS, REGIONS = "coco-vsepp-rc-rv", "inf-flickr-regions"
# Of each split the first images are taken.
COCO = {"train": 8, "restval": 4, "val": 5, "test": 10}
FLICKR = {"train": 10, "val": 4, "test": 6}
CONFIG = {
    "preset": "paper",
    "label": "slice",
    "papers": ["vsepp", "vse_infinity"],
    "only": [CROPS, REGIONS],
    "corpora": {"coco": {"first_images": COCO}},
    "datasets": {
        "coco2014": {"expected_images": {split: count + 2 for split, count in COCO.items()}},
        "f30k_regions": {"expected_images": FLICKR},
    },
    # In the place of VGG19, whose weights are 575 MB.
    "encoders": {"vgg": {"architecture": "torchvision/resnet18", "weights": "file/resnet18.pth"}},
    "evaluation": {"fold_size": 2},
    "runs": {
        "default": {"epochs": 1, "batch_size": 4, "vocabulary_threshold": 2},
        "vse-infinity": {"epochs": 1, "batch_size": 4},
    },
    "resources": {"threads": 1},
}
UNKNOWN = "caption_datasets.zip"
"""Nobody has published its sum."""


def write_archives(folder):
    """COCO's archives as they are published; name → path."""
    splits = {"train": "train2014", "restval": "val2014", "val": "val2014", "test": "val2014"}
    listed = [split for split, count in COCO.items() for _ in range(count + 2)]
    raw = folder / "coco"
    write_coco(raw, [(7 * number + 1, splits[split], split) for number, split in enumerate(listed)])
    members = {
        "train2014.zip": raw / "train2014",
        "val2014.zip": raw / "val2014",
        "annotations_trainval2014.zip": raw / "annotations",
        UNKNOWN: raw / "dataset_coco.json",
    }
    for name, source in members.items():
        with zipfile.ZipFile(folder / name, "w") as archive:
            for path in sorted(source.iterdir()) if source.is_dir() else [source]:
                archive.write(path, path.relative_to(raw))
    return {name: folder / name for name in members}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The project with its tables, and what its server was asked."""
    folder = tmp_path_factory.mktemp("paper")
    served = write_archives(folder)
    torch.manual_seed(0)
    served["resnet18.pth"] = folder / "resnet18.pth"
    torch.save(get_model("resnet18", weights=None).state_dict(), served["resnet18.pth"])
    sizes = {"dev" if split == "val" else split: count for split, count in FLICKR.items()}
    write_precomp(folder, shape=(3, 16), **sizes)
    (folder / "archives").mkdir()
    (folder / "f30k_precomp").rename(folder / "archives/f30k_butd")
    with serve(served) as server:
        sources = {
            name: {
                "mirrors": [server.url("gone/" + name), server.url(name)],
                "size": path.stat().st_size,
                "sha256": None if name == UNKNOWN else file_digest(path),
                "licence": "made up",
                "citation": "nobody",
            }
            for name, path in served.items()
        }
        config = {**CONFIG, "archives": str(folder / "archives"), "sources": sources}
        project = copy_of_the_project(folder / "work", config)
        project.run(*(DOWNLOADS / name for name in served))
        project.make()
    return project, server.requests, served


def rows(project, paper, table):
    """Row of a table → R@1 of ours, for the rows that a trained run fills."""
    with (project.folder / f"reports/paper/slice/{paper}/tables/{table}.csv").open() as file:
        return {row["row"]: float(row["ours_i2t_r1"]) for row in csv.DictReader(file) if row["ours_i2t_r1"]}


def test_tables_hold_the_runs_and_runs_what_they_were_made_of(finished):
    project, *_ = finished
    results = project.folder / "results/paper"
    for run, paper, table, protocol in (
        (CROPS, "vsepp", "table1", "5x1K"),
        (f"{REGIONS}-published", "vse_infinity", "flickr", "1K"),
    ):
        metrics = json.loads((results / f"slice/evaluations/{run}/seed-0/metrics.json").read_text())
        assert metrics[protocol]["i2t"]["r1"] in rows(project, paper, table).values()
    spec = json.loads((results / f"slice/runs/{CROPS}/seed-0/config.json").read_text())
    assert spec["train_store"] == {"resize": "squash", "side": 256} and spec["restval"]
    (corpus,) = results.glob("corpora/coco*")
    assert json.loads((corpus / "manifest.json").read_text())["facts"]["images"] == COCO
    (regions,) = results.glob("features/*published*/features.npy")
    assert np.load(regions, mmap_mode="r").shape == (sum(FLICKR.values()), 3, 16)


def test_files_came_from_the_second_mirror_once_and_the_unknown_sum_was_recorded(finished):
    project, requests, served = finished
    fetched = [request.name for request in requests if request.status == 200]
    assert sorted(fetched) == sorted(served)
    assert any(request.name.startswith("gone/") and request.status == 404 for request in requests)
    recorded = yaml.safe_load((project.folder / "params/sources.lock.yaml").read_text())
    assert {name: entry["sha256"] for name, entry in recorded.items()} == {
        UNKNOWN: file_digest(served[UNKNOWN])
    }


def test_nothing_is_left_to_do_with_other_mirrors_and_no_archive_was_unpacked(finished):
    project, *_ = finished
    sources = {name: {**keys, "mirrors": []} for name, keys in project.config["sources"].items()}
    assert project.planned("reproduce_tables", sources=sources) == {}
    assert not [name for _, _, files in os.walk(project.folder) for name in files if name.endswith(".jpg")]
