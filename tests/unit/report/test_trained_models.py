"""Trained models as reports read them: seeds, troubles, and whose code made them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from trained_models import CLEAN, DIRTY, I2T, T2I, seal

from vsepp.base.errors import VseppError
from vsepp.report.models import dirty_steps
from vsepp.report.pairing import level, pair, sound, trouble_of
from vsepp.report.records import read_models


def test_seeds_of_a_model_are_read_unrounded_into_one_entry(models):
    models.add("run", (50.25, *I2T[1:]), seed=3)
    models.add("run", (51.0, *I2T[1:]), seed=4)
    models.add("other")
    records = models.records
    assert [(name, len(seeds)) for name, seeds in records.items()] == [("run", 2), ("other", 1)]
    assert [model.score("5x1K", "i2t_r1") for model in records["run"]] == [50.25, 51.0]
    assert [model.score("5x1K", "t2i_medr") for model in records["run"]] == [3, 3]
    assert records["run"][1].score("5x1K", "rsum") == 51.0 + sum(I2T[1:3]) + sum(T2I[:3])


@pytest.mark.parametrize("part", ["run", "evaluation"])
def test_what_would_come_out_otherwise_now_is_refused_with_what_mends_it(models, part):
    spec = models.add("run")
    with pytest.raises(VseppError) as error:
        read_models([replace(spec, spec_digests={**spec.spec_digests, part: "now"})])
    text = str(error.value)
    assert text.startswith(f"{spec.evaluation}: ") and "expected digest now, got" in text
    assert f"--forcerun {getattr(spec, part)}/" in text and f" -- {spec.evaluation}/metrics.json" in text


def test_files_that_are_not_as_their_step_wrote_them_are_refused(models):
    spec = models.add("run")
    for file in (Path(spec.evaluation, "metrics.json"), Path(spec.run, "history.csv")):
        before = file.read_text()
        file.write_text(before + " ")
        with pytest.raises(VseppError, match=str(file)):
            read_models([spec])
        file.write_text(before)
    manifest = Path(spec.evaluation, "manifest.json")
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**content, "git": DIRTY}))
    with pytest.raises(VseppError, match=r"manifest\.json"):
        read_models([spec])


def test_metrics_of_another_model_than_the_one_beside_them_are_refused(models):
    spec = models.add("run")
    Path(spec.run, "model.safetensors").write_text("another")
    seal(Path(spec.run), "train", CLEAN, {})
    with pytest.raises(VseppError, match="another run"):
        read_models([spec])


def test_sound_seeds_that_all_have_are_paired_and_what_was_left_out_is_said(models):
    for run, seeds in (("a", (2, 10, 1)), ("b", (10, 2, 3))):
        for seed in seeds:
            models.add(run, seed=seed, collapsed=(run, seed) == ("a", 1))
    models.add("lost", collapsed=True)
    records = models.records
    compared = pair(records, "5x1K")
    assert compared.seeds == (2, 10), "by number"
    for run in "ab":
        assert [model.seed for model in compared.models[run]] == [2, 10]
    assert compared.notes == ("a collapsed (seed 1), left out",)
    assert compared.trouble == {"lost": "collapsed (seed 0)"}
    assert [model.seed for model in sound(records["a"])] == [2, 10]
    assert (trouble_of(records["a"]), trouble_of(records["lost"])) == ("", "collapsed (seed 0)")
    assert sound(records["lost"]) == records["lost"], "its numbers stand, marked"


def test_a_number_that_an_evaluation_does_not_have_is_none(models):
    """As correlations with ratings of scores that are no inner product."""
    models.add("run")
    (model,) = models.records["run"]
    assert model.score("5x1K", "sts_spearman") is None
    assert level([model], "5x1K", "sts_spearman") is None
    assert model.score("5x1K", "i2t_mrr") == pytest.approx(model.values("5x1K", "i2t_mrr").mean())


def test_a_history_is_read_by_epoch_and_an_unknown_metric_named(models):
    models.add("run", history=(10.5, 20.0))
    (record,) = models.records["run"]
    assert record.history("t2i_r1") == {1: 5.5, 2: 15.0}
    with pytest.raises(VseppError, match=r"run/seed-0: .*i2t_r5"):
        record.history("i2t_r5")


def test_a_model_is_as_clean_as_all_that_it_was_made_from(models):
    models.add("clean")
    models.add("data", behind=["store", "tape"], trained=DIRTY)
    models.add("measured", git=DIRTY, measured_on="features")
    models.add("tuned", behind=["train"])
    unknown = {"commit": "unknown", "dirty": None}
    models.add("without git", git=unknown, trained=unknown)
    records = models.records
    dirty = {name: dirty_steps(seeds) for name, seeds in records.items()}
    assert dirty == {
        "clean": (),
        "data": ("store", "tape", "train"),  # in the order of the work
        "measured": ("features", "evaluate"),
        "tuned": ("train",),
        "without git": (),
    }
    assert dirty_steps(records["data"], training=True) == dirty["data"]
    assert dirty_steps(records["measured"], training=True) == ()
    states = {name: (seed.trained_by, seed.evaluated_by) for name, (seed,) in records.items()}
    assert states["clean"] == (("abc", False), ("abc", False))
    assert states["measured"][1] == ("abc", True)
    assert states["tuned"][0] == ("abc", True), "as dirty as the run that it starts from"
    assert states["without git"][0] == ("unknown", False)


# Start of the SHA-256 of each of these columns: of its cells, with spaces between the cells.
