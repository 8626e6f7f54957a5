"""The four files of a study say the same as the results that they were kept of, and refuse what was edited."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trained_models import Models, ranks_of

from vsepp.base.errors import VseppError
from vsepp.report.entries import STUDY_FILES
from vsepp.report.records import Study, read_results, write_study

KEPT = ("name", "seed", "evaluated", "trained", "metrics", "history_csv")


def kept(models):
    return {
        (spec.model, spec.seed): read_results(Path(spec.evaluation), Path(spec.run), trained=spec.trained)
        for spec in models.all
    }


def assert_equal(first, second):
    assert all(getattr(first, name) == getattr(second, name) for name in KEPT)
    assert first.arrays.keys() == second.arrays.keys()
    for name, values in first.arrays.items():
        assert values.dtype == second.arrays[name].dtype and values.tobytes() == second.arrays[name].tobytes()


@settings(max_examples=20, deadline=None)
@given(
    halves=st.lists(st.integers(0, 2 * 70_000), min_size=12, max_size=12),
    history=st.lists(st.floats(0, 100), min_size=1, max_size=3),
)
def test_a_record_reads_as_its_results_to_the_last_digit(tmp_path_factory, halves, history):
    folder = tmp_path_factory.mktemp("study")
    models = Models(folder)
    ranks = ranks_of(np.array(halves[:2]) / 2, np.array(halves[2:]) / 2)
    models.add("a", fold_size=2, ranks=ranks, history=history, behind=["features"])
    models.add("a", seed=1, fold_size=2, ranks=ranks, history=history, behind=["features"])
    models.add("b", i2t=(1 / 3, 2 / 3, 0.1 + 0.2, 2, 5.5))
    results = kept(models)
    write_study(folder / "kept", results)
    study = Study(folder / "kept")
    assert study.models == sorted(results)
    for name, result in results.items():
        assert_equal(result, study.read(*name))


@pytest.fixture
def models(tmp_path):
    return Models(tmp_path / "results")


@pytest.fixture
def folder(models, tmp_path):
    """A study of three models."""
    models.add("a", behind=["features"])
    models.add("a", seed=1, behind=["features"])
    models.add("b")
    write_study(tmp_path / "kept", kept(models))
    return tmp_path / "kept"


def test_what_models_share_stands_once(folder):
    lines = [json.loads(line) for line in (folder / "manifests.jsonl").read_text().splitlines()]
    assert len(lines) == len({line["digest"] for line in lines})
    # Features, the same of all, and the training behind each evaluation.
    assert sum("ancestor" in line for line in lines) == 1 + 3 and len(lines) == 4 + 6
    with np.load(folder / "ranks.npz") as archive:
        assert sum(name.startswith("captions/") for name in archive.files) == 2
        assert all(values.dtype.kind == "u" for values in archive.values())


def test_a_file_that_is_missing_is_named(folder):
    (folder / STUDY_FILES[0]).unlink()
    with pytest.raises(VseppError, match=STUDY_FILES[0]):
        Study(folder)


@pytest.mark.parametrize(
    ("file", "old", "new", "named"),
    [
        ("runs.jsonl", '"rsum":379.0', '"rsum":380.0', "runs.jsonl"),
        ("runs.jsonl", '"ranks":"', '"ranks":"0', "ranks.npz"),
        ("history.csv", "\na,1,2,5.0,", "\na,1,2,4.0,", "history.csv"),
        ("manifests.jsonl", '"wall_seconds":6.0', '"wall_seconds":5.0', "manifests.jsonl"),
        ("manifests.jsonl", '"dirty":true', '"dirty":false', "manifests.jsonl"),
    ],
)
def test_what_was_edited_is_refused_with_file_and_record(folder, file, old, new, named):
    before = (folder / file).read_text()
    assert old in before
    (folder / file).write_text(before.replace(old, new))
    with pytest.raises(VseppError, match=rf"kept, a/seed-1: {named}.*--drop a"):
        Study(folder).read("a", 1)


def test_ranks_that_were_exchanged_or_damaged_are_refused(folder):
    with np.load(folder / "ranks.npz") as archive:
        arrays = dict(archive)
    arrays["a/seed-1/5x1K_i2t"] = arrays["a/seed-1/5x1K_i2t"][::-1]
    np.savez_compressed(folder / "ranks.npz", **arrays)
    Study(folder).read("a", 0)
    with pytest.raises(VseppError, match=r"a/seed-1: ranks\.npz"):
        Study(folder).read("a", 1)
    (folder / "ranks.npz").write_bytes((folder / "ranks.npz").read_bytes()[:1000])
    with pytest.raises(VseppError, match=r"kept, a/seed-0: .*ranks\.npz"):
        Study(folder).read("a", 0)


def test_a_study_that_was_interrupted_is_written_whole_again(folder, models):
    shutil.copytree(folder, folder.with_name("before"))
    models.add("c")
    write_study(folder, kept(models))
    assert len(Study(folder).models) == 4
    # Killed before runs.jsonl was replaced: the others hold more than it names.
    shutil.copyfile(folder.with_name("before") / "runs.jsonl", folder / "runs.jsonl")
    study = Study(folder)
    assert len([study.read(*name) for name in study.models]) == 3
