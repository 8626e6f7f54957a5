"""The benchmarks run, and what they compare with is the authors' way of computing what the package computes."""

import csv
import gc
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from closeness import assert_near
from processes import python

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import made_up  # noqa: E402
import measure  # noqa: E402
import reference  # noqa: E402
import timed  # noqa: E402

from vsepp.data.tokens import END, START  # noqa: E402
from vsepp.evaluation.embeddings import Embeddings  # noqa: E402
from vsepp.evaluation.ranks import retrieval_ranks  # noqa: E402
from vsepp.losses import WHOLE  # noqa: E402
from vsepp.losses.max_of_hinges import Options, loss  # noqa: E402
from vsepp.models.joint import JointEmbedding  # noqa: E402
from vsepp.spec import Component  # noqa: E402

PAIRS, DIM, WORDS = 12, 16, 40
RUN = measure.base_run("mini/vgg_mini", 24, 28, 6, 8, 8)
CPU = torch.device("cpu")


def read(path):
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_every_case_is_timed_and_recorded(tmp_path, capsys):
    table = tmp_path / "results.csv"
    assert measure.main(["--tiny", "--seconds", "0.001", "--threads", "1", "--append", str(table)]) == 0
    rows = read(table)
    assert list(rows[0]) == list(read(ROOT / "benchmarks" / "results.csv")[0])
    cases = measure.cases("cpu", tiny=True)
    assert [f"{row['what']}/{row['variant']}/{row['precision']}" for row in rows] == list(cases)
    for row in rows:
        assert 0 < float(row["low"]) <= float(row["median"]) <= float(row["high"]) and int(row["runs"]) > 0
        assert (row["device"], row["threads"]) == ("cpu", "1") and "cores" in row["machine"]
    notes = {f"{row['what']}/{row['precision']}": row["note"] for row in rows}
    assert "× reference-1c fp32" in notes["step-1c/bf16"] and "× head bf16" in notes["step-1c/bf16"]
    assert "× head bf16" in notes["step-rc-tape/bf16"]
    assert notes["tape/bf16"].endswith("× forward bf16")
    assert notes["rank-dot/fp32"].startswith("50 images × 250 captions; ")
    assert "step-finetuned/mini/vgg_mini@24/bf16: " in capsys.readouterr().out


def test_a_case_that_fails_costs_only_its_own_figures(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(timed, "LARGE", None)
    given = ["--tiny", "--only", "forward/*/fp32", "tape/*/fp32", "--seconds", "0.001"]
    assert measure.main([*given, "--append", str(tmp_path / "a.csv")]) == 1
    assert {row["what"] for row in read(tmp_path / "a.csv")} == {"forward"}
    assert "tape/mini/vgg_mini@24/fp32: TypeError: " in capsys.readouterr().err
    assert measure.main(["--only", "nothing"]) == 2


@pytest.fixture
def sharing(tmp_path, monkeypatch):
    """What a process that shares the machine steps with."""
    monkeypatch.setattr(timed, "_shared", {})
    case = measure.cases("cpu", tiny=True)["sharing-2/12/8/fp32"]
    return case, case.artefacts(tmp_path), CPU, 1, threading.Barrier(1)


def test_trainings_that_share_a_machine_go_on(sharing):
    timed._begin_sharing(*sharing)
    gc.collect()  # what holds the inputs must not end with the function that made them
    for _ in range(3):
        timed._take_steps()
    timed._shared["stack"].close()


def test_a_training_that_cannot_share_says_why(sharing):
    case, artefacts, *more = sharing
    timed._begin_sharing(case, {**artefacts, "tokens": Path("none")}, *more)
    with pytest.raises(RuntimeError, match=r"none.*missing"):
        timed._take_steps()


def test_the_script_needs_nothing_of_the_workflow():
    missing = "; ".join(f"sys.modules[{name!r}] = None" for name in ("snakemake", "dvc", "nltk"))
    code = (
        f"import sys; sys.path.insert(0, 'benchmarks'); {missing}; import measure; measure.main(['--list'])"
    )
    assert "step-1c/4096/1024/bf16" in python(code, cwd=ROOT).splitlines()


def test_captions_and_photographs_are_as_large_as_cocos(tmp_path):
    tokens = made_up.captions_of(2_000)
    assert 12.0 < tokens.lengths.mean() < 12.8 and tokens.ids.max() < made_up.VOCABULARY
    sizes = [file.stat().st_size for file in made_up.write_photographs(tmp_path / "p", (640, 480))[:3]]
    assert 100_000 < np.mean(sizes) < 200_000


@pytest.fixture
def captions():
    generator = np.random.default_rng(1)
    return [
        np.array([START, *generator.integers(4, WORDS, generator.integers(1, 9)), END]) for _ in range(PAIRS)
    ]


@pytest.mark.parametrize("with_encoder", [False, True])
def test_loss_and_gradients_of_the_reference_are_the_packages(captions, with_encoder):
    encoder = made_up.encoder_of(RUN).requires_grad_(True).eval() if with_encoder else None
    torch.manual_seed(0)
    model = JointEmbedding(RUN.model, encoder.dim if encoder else DIM, WORDS, encoder)
    other = reference.ReferenceModel(model, made_up.encoder_of(RUN).eval() if encoder else None)
    images = made_up.crops(RUN, PAIRS) if encoder else torch.randn(PAIRS, DIM)
    seen = encoder.normalise(images).contiguous() if encoder else images
    order = sorted(range(PAIRS), key=lambda row: len(captions[row]), reverse=True)
    batch = reference.collate([(seen[row], torch.tensor(captions[row])) for row in range(PAIRS)])
    theirs = reference.max_of_hinges(other(*batch))
    theirs.backward()
    embedded = model.embed_images(images[order]), model.embed_captions(batch[1], torch.tensor(batch[2]))
    ours = loss(model.scores(*embedded), Options(), WHOLE)
    ours.backward()
    assert theirs > 0
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    pairs = [(model.image_map, other.image_map), (model.text.words, other.words), (model.text.gru, other.gru)]
    if encoder:
        pairs.append((encoder.network, other.network))
    for one, two in pairs:
        for own, his in zip(one.parameters(), two.parameters(), strict=True):
            assert_near(own.grad.flatten(), his.grad.flatten(), 1e-3)


def test_sorting_gives_the_ranks_that_counting_gives():
    images, captions, owner = made_up.embeddings(20, 8)
    to_text, to_image = reference.argsort_ranks(images, captions, owner, range(20), range(100))
    counted = retrieval_ranks(Embeddings(images, captions, owner, Component("dot")))
    assert to_text.max() > 0
    np.testing.assert_array_equal(to_text, counted.i2t)
    np.testing.assert_array_equal(to_image, counted.t2i)


def test_running_over_the_padding_changes_no_embedding(captions):
    torch.manual_seed(0)
    model = JointEmbedding(RUN.model, DIM, WORDS)
    _, ids, lengths = reference.collate([(torch.zeros(1), torch.tensor(caption)) for caption in captions])
    expected = model.embed_captions(ids, torch.tensor(lengths))
    model.text = timed.OverPadding(model.text)
    assert_near(model.embed_captions(ids, torch.tensor(lengths)), expected, 1e-5)
