"""The benchmarks run, and what they compare with is the authors' way of computing what the package computes."""

import sys
from pathlib import Path

import numpy as np
import torch
from csv_rows import csv_rows
from rounding import assert_near

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "benchmarks"))

import chance  # noqa: E402
import made_up  # noqa: E402
import measure  # noqa: E402
import reference  # noqa: E402

from vsepp.data.captions import END, START  # noqa: E402
from vsepp.losses.batch import WHOLE  # noqa: E402
from vsepp.losses.max_of_hinges import Options, loss  # noqa: E402
from vsepp.models.joint import JointEmbedding  # noqa: E402
from vsepp.models.sets import ImageBatch  # noqa: E402

PAIRS, DIM, WORDS = 12, 16, 40
RUN = made_up.base_run("mini/vgg_mini", 24, 28, 6, 8, 8)


def test_every_case_is_timed_and_recorded(tmp_path, capsys):
    table = tmp_path / "results.csv"
    left_out = ("sharing-1/*", "sharing-4/*")  # others do the same
    names = [name for name in measure.cases("cpu", tiny=True) if not measure.matches(name, left_out)]
    options = ["--tiny", "--seconds", "0.001", "--threads", "1", "--append", str(table)]
    assert measure.main([*options, "--only", *names]) == 0, capsys.readouterr().err
    rows = csv_rows(table)
    assert list(rows[0]) == list(csv_rows(ROOT / "benchmarks" / "results.csv")[0])
    assert [f"{row['what']}/{row['variant']}/{row['precision']}" for row in rows] == names
    for row in rows:
        assert 0 < float(row["low"]) <= float(row["median"]) <= float(row["high"]) and int(row["runs"]) > 0
        assert (row["device"], row["threads"]) == ("cpu", "1") and "cores" in row["machine"]
    notes = {f"{row['what']}/{row['variant']}/{row['precision']}": row["note"] for row in rows}
    assert notes["step-1c/12/8/bf16"].endswith("× reference-1c fp32")
    assert notes["tape/mini/vgg_mini@24/bf16"].endswith("× forward bf16")
    assert "step-finetuned/mini/vgg_mini@24/bf16 " in capsys.readouterr().out


def test_loss_and_gradients_of_the_reference_are_the_packages():
    generator = np.random.default_rng(1)
    captions = [[START, *generator.integers(4, WORDS, generator.integers(1, 9)), END] for _ in range(PAIRS)]
    torch.manual_seed(0)
    model = JointEmbedding(RUN.model, DIM, WORDS)
    other = reference.ReferenceModel(model)
    features = np.random.default_rng(2).standard_normal((PAIRS, DIM), np.float32)
    pairs = reference.Pairs(features, captions, range(PAIRS))
    images, ids, lengths = reference.collate([pairs[row] for row in range(len(pairs))])
    theirs = reference.max_of_hinges(other(images, ids, lengths))
    theirs.backward()
    embedded = model.embed_images(ImageBatch(images)), model.embed_captions(ids, torch.tensor(lengths))
    ours = loss(model.scores(*embedded), Options(), WHOLE)
    ours.backward()
    assert theirs > 0
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    for own, his in (
        (model.image_map, other.image_map),
        (model.text.words, other.words),
        (model.text.gru, other.gru),
    ):
        for first, second in zip(own.parameters(), his.parameters(), strict=True):
            assert_near(first.grad.flatten(), second.grad.flatten(), 1e-3)


def test_chance_tells_a_large_gain_and_seldom_one_that_is_not_there(monkeypatch):
    monkeypatch.setattr(chance, "PAGES", 20)
    noise = chance.measured("i2t_r1")
    assert 0 < noise.shared < noise.own
    shares = chance.shares(3, noise, (100.0,))
    assert shares["100 points told, on the page"] == 1.0
    assert 0 < shares["false, a claim alone"] < 0.1
    assert shares["false, on the page"] <= shares["pages with one or more"] < 1
