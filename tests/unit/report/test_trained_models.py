from __future__ import annotations

import csv
import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from plans import PARAMS
from reported import CLEAN, DIRTY, I2T, T2I, seal

from vsepp.base.errors import VseppError
from vsepp.report.models import dirty_steps, level, pair, require_one_test, sound, trouble_of
from vsepp.report.published import read_published
from vsepp.report.records import read_models

PAPERS = Path(__file__).resolve().parents[4] / "shared" / "paper"
SOURCE, GOALS = PAPERS / "vsepp_tables.csv", PAPERS / "goal_recall_at_1.csv"
ROLES = {"vgg19": "vgg", "resnet152": "resnet", "flickr30k": "flickr"}


# Models.


def test_seeds_of_a_model_are_read_unrounded_into_one_entry(models):
    models.add("run", (50.25, *I2T[1:]), seed=3)
    models.add("run", (51.0, *I2T[1:]), seed=4)
    models.add("other")
    records = models.records
    assert [(name, len(seeds)) for name, seeds in records.items()] == [("run", 2), ("other", 1)]
    assert [model.score("5x1K", "i2t_r1") for model in records["run"]] == [50.25, 51.0]
    assert [model.score("5x1K", "t2i_medr") for model in records["run"]] == [3, 3]
    assert records["run"][1].score("5x1K", "rsum") == 51.0 + sum(I2T[1:3]) + sum(T2I[:3])


@pytest.mark.parametrize(
    "part, what", [("run", "the model behind it was trained"), ("evaluation", "it was measured")]
)
def test_what_would_come_out_otherwise_now_is_refused_with_what_mends_it(models, part, what):
    spec = models.add("run")
    with pytest.raises(VseppError) as error:
        read_models([replace(spec, spec_digests={**spec.spec_digests, part: "now"})])
    text = str(error.value)
    assert f"{spec.evaluation}: {what} with other parameters than the present ones" in text
    assert "expected digest now, got" in text and "commit abc" in text
    assert f"--forcerun {getattr(spec, part)}/" in text and f" -- {spec.evaluation}/metrics.json" in text


def test_files_that_are_not_as_their_step_wrote_them_are_refused(models):
    spec = models.add("run")
    for file in (Path(spec.evaluation, "metrics.json"), Path(spec.run, "history.csv")):
        before = file.read_text()
        file.write_text(before + " ")
        with pytest.raises(VseppError, match=f"{file}: is not what its step wrote"):
            read_models([spec])
        file.write_text(before)
    manifest = Path(spec.evaluation, "manifest.json")
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**content, "git": DIRTY}))
    with pytest.raises(VseppError, match="not as its step wrote it"):
        read_models([spec])


def test_metrics_of_another_model_than_the_one_beside_them_are_refused(models):
    spec = models.add("run")
    Path(spec.run, "model.safetensors").write_text("another")
    seal(Path(spec.run), "train", CLEAN, {})
    with pytest.raises(VseppError, match="was made from another run"):
        read_models([spec])


def test_scores_of_different_test_sets_are_not_averaged(models):
    models.add("run")
    models.add("run", seed=1, fold_size=90)
    with pytest.raises(VseppError, match=r"run/seed-1, 5x1K: fold_size is 90, but 100 in .*run/seed-0"):
        require_one_test(models.records["run"], "5x1K")
    with pytest.raises(VseppError, match=r"no protocol 1K; it has 5x1K"):
        require_one_test(models.records["run"], "1K")


def test_a_seed_that_a_plan_names_twice_is_refused(models):
    spec = models.add("run")
    with pytest.raises(VseppError, match=r"a seed is given twice, or none is named: .*run/seed-0 and"):
        read_models([spec, spec])


def test_sound_seeds_that_all_have_are_paired_and_what_was_left_out_is_said(models):
    for run, seeds in (("a", (2, 10, 1)), ("b", (10, 2, 3))):
        for seed in seeds:
            models.add(run, seed=seed, collapsed=(run, seed) == ("a", 1))
    models.add("lost", collapsed=True)
    records = models.records
    found = pair(records, "5x1K")
    assert found.seeds == (2, 10), "by number"
    assert {run: [model.seed for model in side] for run, side in found.models.items() if run != "lost"} == {
        "a": [2, 10],
        "b": [2, 10],
    }
    assert found.left_out == ("a collapsed (seed 1), left out",)
    assert found.trouble == {"lost": "collapsed (seed 0)"}
    assert "2 and 10" in found.common
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
    with pytest.raises(
        VseppError, match=r"run/seed-0: its history has no column i2t_r5; it has epoch, loss, i2t_r1, t2i_r1"
    ):
        record.history("i2t_r5")


# What no commit holds.


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


# The paper's numbers.


def rows(path):
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.skipif(not SOURCE.is_file(), reason="the paper's tables are not beside the repository")
def test_every_published_cell_is_the_papers(report):
    theirs, ours = rows(SOURCE), rows(Path(report().published))
    assert len(ours) == len(theirs) == 48
    for here, there in zip(ours, theirs, strict=True):
        expected = {key: ROLES.get(value, value) for key, value in there.items()}
        assert {key: here[key] for key in there} == expected


CELLS = ("i2t_r1", "i2t_r1_sd", "t2i_r1", "t2i_r1_sd")
# Start of the SHA-256 of each of these columns: of its cells, with spaces between the cells.
DIGESTS = {
    "3": "f41eb269 822caa62 2489e493 1173aadd",
    "4": "a1bd2487 7f688b45 f249afcf 6c04b65f",
    "5": "0b01cb4d 8f6409d0 33f119af 3a87c4ea",
}


@pytest.mark.parametrize("table", DIGESTS)
def test_no_cell_of_goals_combinations_has_changed_since_it_was_compared_with_the_paper(table):
    ours = [row for row in rows(PARAMS / "papers/goal/published.csv") if row["table"] == table]
    columns = [" ".join(row[cell] for row in ours) for cell in CELLS]
    found = [hashlib.sha256(column.encode()).hexdigest()[:8] for column in columns]
    assert len(ours) == 30 and found == DIGESTS[table].split()


@pytest.mark.skipif(not GOALS.is_file(), reason="the paper's tables are not beside the repository")
def test_every_recall_of_goals_combinations_is_the_papers():
    theirs, ours = rows(GOALS), rows(PARAMS / "papers/goal/published.csv")
    expected = {}
    for row in theirs:
        named = f"T {row['triplet_weight']} · P {row['pair_weight']}"
        direction = "i2t_r1" if row["direction"] == "image_to_text" else "t2i_r1"
        expected.setdefault((row["table"], row["model"], named), {})[direction] = row["mean"], row["std"]
    found = [row for row in ours if row["table"] in DIGESTS]
    for row, ((table, _, named), cells) in zip(found, expected.items(), strict=True):
        assert (row["table"], row["system"]) == (table, named)
        assert {cell: (row[cell], row[f"{cell}_sd"]) for cell in cells} == cells, row["row"]
    assert sum(map(len, expected.values())) == len(theirs) == 180


def test_published_rows_are_consistent_and_all_of_them_are_declared_in_order(report):
    published, seen = rows(Path(report().published)), {}
    for row in published:
        quoted = row["kind"] == "quoted"
        assert bool(row["citation"]) == quoted, row["row"]
        assert bool(row["encoder"]) == bool(row["finetuned"]) == (not quoted), row["row"]
        facts = {key: value for key, value in row.items() if key not in ("table", "note")}
        assert seen.setdefault(row["row"], facts) == facts, "a row in two tables has the same cells"
    declared = [(name, row) for name, table in report().tables for row in table.rows]
    assert declared == [(f"table{row['table']}", row["row"]) for row in published]


def test_a_missing_file_and_a_row_that_is_published_twice_are_named(report, tmp_path):
    with pytest.raises(VseppError, match=r"gone\.csv: no such file"):
        read_published(tmp_path / "gone.csv")
    lines = Path(report().published).read_text(encoding="utf-8").splitlines()
    twice = tmp_path / "published.csv"
    twice.write_text("\n".join([*lines, lines[1]]) + "\n", encoding="utf-8")
    with pytest.raises(VseppError, match=r"line \d+, row '1\.1': is there twice in one table; keep one"):
        read_published(twice)
    twice.write_text("table,row\n1,1.1\n", encoding="utf-8")
    with pytest.raises(VseppError, match=r"published\.csv: has no column kind in its heading"):
        read_published(twice)
