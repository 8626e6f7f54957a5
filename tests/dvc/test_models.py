"""Trained models: what is listed of them, and one of them used away from its repository."""

import csv
import json

import numpy as np
import pytest
from repository import Repository

pytestmark = pytest.mark.dvc

RUN = "results/tiny/paper/runs/coco-vsepp-1c/seed-0"


def models(repository):
    found = json.loads(repository.call("vsepp", "models", "--json").stdout)
    return {entry["run"]: entry for entry in found}


def test_models_are_listed_with_their_own_scores_and_digests(tiny_repository):
    found = models(tiny_repository)
    assert set(found) == {"coco-vse0-1c", "coco-vsepp-1c", "coco-vsepp-rc"}
    for run, entry in found.items():
        folder = tiny_repository.run_folder(run)
        manifest = json.loads((folder / "manifest.json").read_text())
        assert entry["digest"] == manifest["outputs"]["model.safetensors"][:12]
        assert entry["commit"] == manifest["git"]["commit"][:10], "of committed code, so without a plus"
        metrics = folder.parents[2] / "metrics" / run / "seed-0" / "metrics.json"
        assert entry["rsum"] == json.loads(metrics.read_text())[entry["protocol"]]["rsum"]
    text = tiny_repository.call("vsepp", "models").stdout
    assert [line.split()[0] for line in text.splitlines()[1:]] == list(found)
    assert "uncommitted" not in text


def test_what_uncommitted_code_made_is_marked_in_the_list_and_in_the_report(repository):
    before = models(repository)
    repository.edit("vsepp/losses/sum_of_hinges.py", "captions.sum() + images.sum()", "captions.sum()")
    repository.call("snakemake", "--cores", "all", "--", "all_models")
    found = models(repository)
    assert found["coco-vse0-1c"]["digest"] != before["coco-vse0-1c"]["digest"]
    assert found["coco-vse0-1c"]["rsum"] is None, "the recalls that are there are the former model's"
    repository.call("snakemake", "--cores", "all", "--", "all_results")
    found = models(repository)
    assert {run for run, entry in found.items() if entry["commit"].endswith("+")} == {"coco-vse0-1c"}
    assert found["coco-vsepp-rc"] == before["coco-vsepp-rc"]
    assert (
        "+ made with uncommitted changes of code or parameters" in repository.call("vsepp", "models").stdout
    )
    report = repository.folder / "reports/tiny/paper"
    with (report / "tables/table2.csv").open() as stream:
        rows = {row["row"]: row["ours_uncommitted"].split() for row in csv.DictReader(stream)}
    assert {row for row, steps in rows.items() if steps} == {"2.1"}
    assert rows["2.1"] == ["train", "encode", "evaluate"]
    page = (report / "index.html").read_text()
    assert page.count("<sup>†</sup></td>") == 1
    assert (
        "+ uncommitted changes"
        in page[page.index("<dt>Trained by</dt>") : page.index("<dt>Evaluated by</dt>")]
    )
    repository.call("vsepp", "verify")


@pytest.fixture(params=["get", "import"])
def elsewhere(request, tiny_repository, tmp_path):
    """A folder of someone else's with one model and the data that it was tested on, each fetched by itself."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    mine = Repository(folder)
    if request.param == "import":
        mine.call("git", "init", "--quiet")
        mine.call("dvc", "init", "--quiet")
    whole = tiny_repository.folder
    (corpus,) = (whole / "results/tiny/corpora").glob("coco-*")
    (features,) = (whole / "results/tiny/features").glob("coco-*-vgg-*-1C")
    for name, path in {"model": whole / RUN, "corpus": corpus, "features": features}.items():
        mine.call("dvc", request.param, whole, path.relative_to(whole).as_posix(), "--out", name)
    return mine


def test_a_model_fetched_alone_gives_the_embeddings_and_recalls_of_its_repository(tiny_repository, elsewhere):
    code = {"PYTHONPATH": str(tiny_repository.folder)}
    read = ["--run", "model", "--corpus", "corpus", "--features", "features"]
    elsewhere.call("vsepp", "encode", *read, "--output", "out", **code)
    theirs = tiny_repository.folder / RUN.replace("/runs/", "/embeddings/")
    with (
        np.load(theirs / "embeddings.npz") as expected,
        np.load(elsewhere.folder / "out/embeddings.npz") as found,
    ):
        assert expected.files == found.files
        assert all(np.array_equal(expected[name], found[name]) for name in expected.files)
    score = ["--run", "model", "--protocol", "1K", "--fold-size", "10", "--output", "metrics"]
    elsewhere.call("vsepp", "evaluate", "out/embeddings.npz", *score, **code)
    expected = (tiny_repository.folder / RUN.replace("/runs/", "/metrics/") / "metrics.json").read_text()
    found = json.loads((elsewhere.folder / "metrics/metrics.json").read_text())
    assert found["1K"] == json.loads(expected)["1K"]
