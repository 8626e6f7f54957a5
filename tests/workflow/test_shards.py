"""A corpus in shards gives the same models as one file, in several jobs; a damaged shard is named."""

import json

import pytest
from dag import RUNS

pytestmark = pytest.mark.workflow
VSE0, _, RC, FT = RUNS
CUT = {"corpora": {"coco": {"shards": {"items": 25, "jobs": 2}}}, "label": "cut"}
VERIFY = ["verify", "--config", *[f"{key}={json.dumps(value)}" for key, value in CUT.items()]]


@pytest.fixture(scope="module")
def cut(reproduced, tmp_path_factory):
    """A project whose COCO part was made in shards, beside the COCO part that was made in files."""
    project = reproduced.copy(tmp_path_factory.mktemp("cut") / "project")
    project.run("all_features", "reproduce_tables", **CUT)
    return project


def features(project):
    (folder,) = project.folder.glob("results/tiny/features/coco-*-by25-*-1C")
    return folder


def test_models_and_ranks_are_those_of_one_file(cut):
    for run in RUNS:
        model, whole = cut.model(run, "cut"), cut.model(run)
        assert (model / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
        ranks = f"evaluations/{run}/seed-0/ranks.npz"
        assert (cut.folder / f"results/tiny/cut/{ranks}").read_bytes() == (
            cut.folder / f"results/tiny/paper/{ranks}"
        ).read_bytes()


def test_files_have_the_number_of_items_and_are_made_by_the_number_of_jobs(cut):
    listed = json.loads((features(cut) / "shards.json").read_text())["files"]["features.npy"]
    assert [shard["rows"] for shard in listed] == [25, 25, 25, 25, 25, 5]  # of 130 images
    assert sorted({shard["path"].split("/")[0] for shard in listed}) == ["part-000", "part-001"]
    tape = json.loads(next(cut.folder.glob("results/tiny/tapes/coco-*-by25-*/shards.json")).read_text())[
        "files"
    ]
    assert len(tape["epoch-000.npy"]) == len(tape["captions.npy"]) > 10
    assert next(cut.folder.glob("results/tiny/corpora/coco-*/00005.images.parquet")).is_file()
    words = json.loads(next(cut.folder.glob("results/tiny/tokens/coco-*-by25/shards.json")).read_text())[
        "files"
    ]
    assert {shard["rows"] for shard in words["lengths.npy"][:-1]} == {25}
    assert len(words["ids.npy"]) == len(words["lengths.npy"]) > 25  # at least five captions an image
    assert cut.planned("reproduce_tables", **CUT) == {}
    cut.vsepp(*VERIFY)


def test_a_missing_shard_is_named_and_made_again_alone(cut):
    folder = features(cut)
    (folder / "part-001" / "00004.features.npy").unlink()
    assert "00004.features.npy is missing" in cut.vsepp(*VERIFY, status=1)
    planned = cut.planned("all_features", **CUT)
    assert planned["features_part"] == 1 and "store_part" not in planned
