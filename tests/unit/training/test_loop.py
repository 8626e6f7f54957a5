import csv
import dataclasses
import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tiny_corpus as tiny
import torch
from safetensors.torch import load_file

from vsepp.data.tokens import Tokens
from vsepp.errors import VseppError
from vsepp.evaluation.encode import encode_run, split_rows
from vsepp.evaluation.metrics import retrieval_metrics
from vsepp.evaluation.ranks import retrieval_ranks
from vsepp.losses import max_of_hinges
from vsepp.models.encoders import load_encoder
from vsepp.models.joint import JointEmbedding
from vsepp.spec import to_json
from vsepp.training.loop import train

RUNS = {
    "1C": tiny.FROZEN,
    "RC, negatives beyond the batch": tiny.change(tiny.RC, loss__negative_set=24),
    "few negatives, curriculum": tiny.change(tiny.FROZEN, loss__negative_set=2, loss__curriculum=1 / 3),
    "order": tiny.change(tiny.FROZEN, model__similarity="order", model__absolute=True),
    "legacy with dropout": tiny.LEGACY,
    "legacy with BN": tiny.change(tiny.LEGACY, encoder=tiny.ENCODERS["resnet"]),
}


class Killed(Exception):
    """Stands for whatever ends a process between two steps."""


def killed_at(data, call):
    """The data with a source of features that fails at its `call`-th use."""
    calls = iter(range(call))

    def inputs(pairs, epoch):
        if next(calls, None) is None:
            raise Killed
        return data.train_inputs(pairs, epoch)

    return dataclasses.replace(data, train_inputs=inputs)


def weights(folder):
    return load_file(folder / "model.safetensors")


def history(folder):
    with (folder / "history.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def assert_same_results(one, other):
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[key], second[key]) for key in first)
    clock = {"seconds", "pairs_per_second"}
    for mine, theirs in zip(history(one), history(other), strict=True):
        assert {k: v for k, v in mine.items() if k not in clock} == {
            k: v for k, v in theirs.items() if k not in clock
        }


def run_in(folder, run, data, init_from=None):
    facts = train(run, data, folder / "out", folder / "state", tiny.CPU, init_from)
    return folder / "out", facts


@pytest.mark.parametrize("name", RUNS)
def test_a_training_cut_short_ends_bit_identical_with_one_that_was_not(corpus, tmp_path, name):
    run = RUNS[name]
    data = tiny.data_of(run, corpus)
    whole, _ = run_in(tmp_path / "whole", run, data)
    cut = tmp_path / "cut"
    # Four steps an epoch: within the first, within the second, and within the third epoch.
    for call in (3, 6, 5):
        torch.manual_seed(call)
        with pytest.raises(Killed):
            run_in(cut, run, killed_at(data, call))
        assert not (cut / "out").exists()
    torch.manual_seed(99)
    out, facts = run_in(cut, run, data)
    assert_same_results(whole, out)
    assert facts["epochs"] == 3


def test_a_killed_process_goes_on_and_ends_bit_identical(corpus, tmp_path):
    run = tiny.change(tiny.LEGACY, schedule__epochs=20)
    out, state = tmp_path / "out", tmp_path / "state"
    spec = tmp_path / "run.json"
    spec.write_text(to_json(run))
    command = [sys.executable, tiny.__file__, *map(str, (spec, corpus, out, state))]
    process = subprocess.Popen(
        command, cwd=Path(__file__).parents[3], env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    try:
        deadline = time.monotonic() + 120
        while not (state / "checkpoint.pt").is_file():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.005)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert process.returncode == -signal.SIGKILL
    assert not out.exists()
    finished = len(torch.load(state / "checkpoint.pt", weights_only=True)["history"])
    assert 1 <= finished < 20
    data = tiny.data_of(run, corpus)
    train(run, data, out, state, tiny.CPU)
    whole, _ = run_in(tmp_path / "whole", run, data)
    assert_same_results(whole, out)


def test_a_training_that_was_killed_while_publishing_publishes(corpus, tmp_path):
    data = tiny.data_of(tiny.FROZEN, corpus)
    out, _ = run_in(tmp_path, tiny.FROZEN, data)
    before = weights(out)
    (out / "model.safetensors").unlink()
    run_in(tmp_path, tiny.FROZEN, killed_at(data, 0))  # no step is taken again
    assert all(torch.equal(value, before[key]) for key, value in weights(out).items())


def test_one_seed_gives_one_model_and_other_seeds_give_others(corpus, tmp_path):
    data = tiny.data_of(tiny.FROZEN, corpus)
    changes = {"a": {}, "b": {}, "init": {"init_seed": 1}, "order": {"order_seed": 1}}
    found = {}
    for name, change in changes.items():
        torch.manual_seed(len(name))
        out, _ = run_in(tmp_path / name, tiny.change(tiny.FROZEN, schedule__epochs=1, **change), data)
        found[name] = weights(out)["image_map.weight"]
    assert torch.equal(found["a"], found["b"])
    assert not torch.equal(found["a"], found["init"])
    assert not torch.equal(found["a"], found["order"])


def test_an_epoch_is_adam_on_the_clipped_gradient_of_the_summed_loss(corpus, tmp_path):
    """One epoch written out with torch's plain Adam, no code of the loop."""
    run = tiny.change(tiny.FROZEN, schedule__epochs=1, schedule__clip_norm=0.5)
    data = tiny.data_of(run, corpus)
    out, _ = run_in(tmp_path, run, data)
    torch.manual_seed(run.init_seed)
    model = JointEmbedding(run.model, data.feature_dim, data.vocabulary_size)
    adam = torch.optim.Adam(model.parameters(), lr=0.01, fused=False, foreach=False)
    order = np.random.default_rng((1, run.order_seed, 0)).permutation(len(data.pairs))
    features = np.load(corpus / "features-vgg" / "features.npy")[:, 0]
    total = 0.0
    for start in range(0, len(order), 16):
        pairs = order[start : start + 16]
        ids, lengths = data.tokens.padded(data.pairs[pairs])
        images = model.embed_images(torch.from_numpy(features[data.image_of[pairs]]))
        captions = model.embed_captions(torch.from_numpy(ids), torch.from_numpy(lengths))
        loss = max_of_hinges.loss(images @ captions.T, 0.2)
        adam.zero_grad()
        loss.backward()
        norm = torch.sqrt(sum((p.grad**2).sum() for p in model.parameters()))
        assert norm > 0.5
        for parameter in model.parameters():
            parameter.grad *= 0.5 / norm
        adam.step()
        total += loss.item()
    for key, value in weights(out).items():
        torch.testing.assert_close(value, model.state_dict()[key], rtol=1e-3, atol=1e-5)
    assert float(history(out)[0]["loss"]) == pytest.approx(total / len(order), rel=1e-5)


def test_training_learns_what_there_is_to_learn(corpus, tmp_path):
    run = tiny.change(tiny.FROZEN, schedule__epochs=12, loss__name="sum_of_hinges")
    _, facts = run_in(tmp_path, run, tiny.data_of(run, corpus))
    losses = [float(row["loss"]) for row in history(tmp_path / "out")]
    assert losses[-1] < 0.6 * losses[0]
    assert facts["best_rsum"] > float(history(tmp_path / "out")[0]["rsum"])


@pytest.mark.parametrize("run", [tiny.FROZEN, tiny.LEGACY], ids=["frozen", "live"])
def test_the_published_weights_are_those_of_the_best_epoch(corpus, tmp_path, run):
    run = tiny.change(run, schedule__epochs=4, schedule__learning_rate=0.03)
    out, facts = run_in(tmp_path, run, tiny.data_of(run, corpus))
    rows = history(out)
    scores = [float(row["rsum"]) for row in rows]
    assert facts["best_epoch"] == scores.index(max(scores)) + 1
    places = tiny.artefacts(corpus)
    found = encode_run(
        run,
        run_folder=out,
        corpus=places.corpus,
        tokens=places.tokens,
        features=places.features,
        eval_store=places.eval_store,
        encoder=places.encoder,
        device=tiny.CPU,
        split="val",
    )
    ranks = retrieval_ranks(
        found.image_embeddings, found.caption_embeddings, found.caption_to_image, found.similarity
    )
    metrics = retrieval_metrics(ranks)
    assert metrics.rsum == pytest.approx(facts["best_rsum"])
    assert metrics.text_to_image.r5 == pytest.approx(float(rows[facts["best_epoch"] - 1]["t2i_r5"]))


def test_results_hold_the_spec_a_row_an_epoch_and_no_frozen_encoder(corpus, tmp_path):
    out, facts = run_in(tmp_path, tiny.RC, tiny.data_of(tiny.RC, corpus))
    assert json.loads((out / "config.json").read_text())["id"] == "tiny"
    rows = history(out)
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]
    assert [float(row["lr"]) for row in rows] == pytest.approx([0.01, 0.01, 0.001])
    assert all(float(row["pairs_per_second"]) > 0 for row in rows)
    assert not any(key.startswith("encoder.") for key in weights(out))
    assert not facts["encoder_in_model"]
    assert sorted(path.name for path in out.iterdir()) == ["config.json", "history.csv", "model.safetensors"]


def test_a_legacy_encoder_moves_its_statistics_and_not_its_weights(corpus, tmp_path):
    run = RUNS["legacy with BN"]
    out, _ = run_in(tmp_path, run, tiny.data_of(run, corpus))
    before = load_encoder(run.encoder, corpus / "encoder-resnet").state_dict()
    after = {k.removeprefix("encoder."): v for k, v in weights(out).items() if k.startswith("encoder.")}
    assert after.keys() == before.keys()
    moved = {key for key in before if not torch.equal(before[key], after[key])}
    statistics = ("running_mean", "running_var", "num_batches_tracked")
    assert moved == {key for key in before if key.endswith(statistics)}
    counts = [int(after[key]) for key in after if key.endswith("num_batches_tracked")]
    best = max(range(3), key=lambda row: float(history(out)[row]["rsum"]))
    # Two of the four steps of each epoch, up to the best one.
    assert set(counts) == {2 * (best + 1)}


@pytest.fixture(scope="module")
def frozen_run(corpus, tmp_path_factory):
    run = tiny.change(tiny.RC, encoder=tiny.ENCODERS["resnet"])
    return run_in(tmp_path_factory.mktemp("frozen"), run, tiny.data_of(run, corpus))[0]


def test_fine_tuning_starts_from_the_frozen_runs_best_snapshot(corpus, tmp_path, frozen_run):
    run = tiny.change(
        tiny.FINETUNED, encoder=tiny.ENCODERS["resnet"], schedule__epochs=1, schedule__learning_rate=0.0
    )
    out, _ = run_in(tmp_path, run, tiny.data_of(run, corpus), frozen_run)
    found, started = weights(out), weights(frozen_run)
    assert all(torch.equal(found[key], value) for key, value in started.items())
    encoder = load_encoder(run.encoder, corpus / "encoder-resnet").state_dict()
    assert all(torch.equal(found[f"encoder.{key}"], value) for key, value in encoder.items())


def test_fine_tuning_trains_the_encoder_and_leaves_its_statistics(corpus, tmp_path, frozen_run):
    run = tiny.change(
        tiny.FINETUNED, encoder=tiny.ENCODERS["resnet"], schedule__epochs=2, schedule__learning_rate=1e-3
    )
    data = tiny.data_of(run, corpus)
    out, facts = run_in(tmp_path / "whole", run, data, frozen_run)
    before = load_encoder(run.encoder, corpus / "encoder-resnet").state_dict()
    found = weights(out)
    moved = {key for key in before if not torch.equal(found[f"encoder.{key}"], before[key])}
    assert moved == {key for key in before if key.endswith(("weight", "bias"))}
    assert facts["encoder_in_model"]
    with pytest.raises(Killed):
        run_in(tmp_path / "cut", run, killed_at(data, 6), frozen_run)
    again, _ = run_in(tmp_path / "cut", run, data, frozen_run)
    assert_same_results(out, again)


def test_fine_tuning_goes_on_from_another_live_encoder(corpus, tmp_path):
    """A frozen `legacy` run hands over the statistics that it moved."""
    first = RUNS["legacy with BN"]
    start, _ = run_in(tmp_path / "first", first, tiny.data_of(first, corpus))
    run = tiny.change(
        tiny.FINETUNED, encoder=tiny.ENCODERS["resnet"], schedule__epochs=1, schedule__learning_rate=0.0
    )
    out, _ = run_in(tmp_path / "second", run, tiny.data_of(run, corpus), start)
    found = weights(out)
    assert all(torch.equal(found[key], value) for key, value in weights(start).items())


def test_init_from_must_be_given_when_fine_tuning_and_then_only(corpus, tmp_path, frozen_run):
    with pytest.raises(VseppError, match="starts from tiny, but no folder"):
        run_in(tmp_path, tiny.FINETUNED, tiny.data_of(tiny.FINETUNED, corpus))
    with pytest.raises(VseppError, match="is not fine-tuned"):
        run_in(tmp_path, tiny.FROZEN, tiny.data_of(tiny.FROZEN, corpus), frozen_run)
    with pytest.raises(VseppError, match=r"model.safetensors: missing"):
        run_in(tmp_path, tiny.FINETUNED, tiny.data_of(tiny.FINETUNED, corpus), tmp_path / "none")


def test_nan_in_the_loss_names_the_step_and_keeps_the_state(corpus, tmp_path):
    data = tiny.data_of(tiny.FROZEN, corpus)

    def spoilt(pairs, epoch):
        inputs = data.train_inputs(pairs, epoch)
        if epoch == 1 and 17 in pairs:
            inputs[0, 0] = float("nan")
        return inputs

    order = np.random.default_rng((1, 0, 1)).permutation(len(data.pairs)).tolist()
    step = order.index(17) // 16 + 1
    with pytest.raises(VseppError) as caught:
        run_in(tmp_path, tiny.FROZEN, dataclasses.replace(data, train_inputs=spoilt))
    for part in (
        "run tiny",
        "the loss is nan",
        f"epoch 2, step {step}",
        "learning rate 0.01",
        "after epoch 1 is kept",
    ):
        assert part in str(caught.value)
    out, _ = run_in(tmp_path, tiny.FROZEN, data)
    whole, _ = run_in(tmp_path / "whole", tiny.FROZEN, data)
    assert_same_results(whole, out)


def test_a_collapse_is_logged_with_advice_and_recorded(corpus, tmp_path, caplog):
    # All images and all captions alike: no negative is harder than another.
    run = tiny.change(tiny.FROZEN, schedule__epochs=2)
    data = tiny.data_of(run, corpus)
    tokens = Tokens.from_lists([[1, 4, 2]] * len(data.tokens))
    same = torch.ones(1, data.feature_dim)
    collapsed = dataclasses.replace(
        data,
        tokens=tokens,
        train_inputs=lambda pairs, epoch: same.expand(len(pairs), -1),
        eval_inputs=lambda rows: same.expand(len(rows), -1),
    )
    with caplog.at_level(logging.WARNING, logger="vsepp"):
        out, facts = run_in(tmp_path / "collapsed", run, collapsed)
    assert [row["collapsed"] for row in history(out)] == ["1", "1"]
    assert float(history(out)[0]["loss"]) == pytest.approx(0.4)
    assert facts["collapsed"] and facts["collapsed_epochs"] == [1, 2]
    assert "curriculum" in caplog.text and "learning_rate" in caplog.text
    assert float(history(out)[0]["i2t_r1"]) == 0

    caplog.clear()
    out, facts = run_in(tmp_path / "sound", tiny.change(run, loss__name="sum_of_hinges"), data)
    assert not facts["collapsed_epochs"] and "may recover" not in caplog.text


def test_the_checkpoint_of_another_run_is_refused(corpus, tmp_path):
    data = tiny.data_of(tiny.FROZEN, corpus)
    with pytest.raises(Killed):
        run_in(tmp_path, tiny.FROZEN, killed_at(data, 5))
    with pytest.raises(VseppError, match="checkpoint of another run"):
        run_in(tmp_path, tiny.change(tiny.FROZEN, loss__margin=0.3), data)


def test_a_split_that_is_not_there_is_refused():
    images, captions = tiny.tables()
    with pytest.raises(VseppError, match="'dev' has no images"):
        split_rows(images, captions, "dev")
