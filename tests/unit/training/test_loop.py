"""A training from end to end: seeds, an epoch written out, its published files, fine-tuning, and what is told."""

import dataclasses
import json
import logging
from types import SimpleNamespace

import numpy as np
import pytest
import tiny_corpus as tiny
import torch
from rounding import assert_near
from safetensors.torch import load_file
from tiny_corpus import assert_same_results, history, run_in, weights

from vsepp.base.errors import VseppError
from vsepp.base.spec import Component
from vsepp.data.captions import Tokens, Vocabulary
from vsepp.data.tables import read_tables, split_rows
from vsepp.evaluation.encode import encode_split, open_run
from vsepp.evaluation.paper import chance_rsum, retrieval_metrics
from vsepp.evaluation.ranks import retrieval_ranks
from vsepp.losses import max_of_hinges
from vsepp.models.encoder import load_encoder
from vsepp.models.joint import JointEmbedding
from vsepp.models.sets import ImageBatch
from vsepp.models.text import gru
from vsepp.training.loop import is_collapsed

LEGACY_BN = tiny.change(tiny.LEGACY, encoder=tiny.ENCODERS["resnet"])


def test_one_seed_gives_one_model_and_other_seeds_give_others(corpus, tmp_path):
    data = tiny.data_of(tiny.FROZEN, corpus)
    changes = {"a": {}, "b": {}, "init": {"init_seed": 1}, "order": {"order_seed": 1}}
    maps = {}
    for name, change in changes.items():
        torch.manual_seed(len(name))
        out, _ = run_in(tmp_path / name, tiny.change(tiny.FROZEN, schedule__epochs=1, **change), data)
        maps[name] = weights(out)["image_map.weight"]
    assert torch.equal(maps["a"], maps["b"])
    assert not torch.equal(maps["a"], maps["init"])
    assert not torch.equal(maps["a"], maps["order"])


ADAMW = Component("adamw", {"weight_decay": 0.1})


@pytest.mark.parametrize(
    ("changes", "clip_norm"),
    [
        ({}, 0.5),
        ({}, None),
        ({"optimiser": ADAMW, "schedule__warmup": 1.0, "schedule__warmup_of": "loss"}, 3.0),
    ],
    ids=["Adam, clipped", "Adam", "AdamW, warm-up of the loss"],
)
def test_an_epoch_is_that_of_torchs_optimiser_on_the_clipped_gradient_of_the_loss(
    corpus, tmp_path, changes, clip_norm
):
    """One epoch written out, no code of the loop."""
    run = tiny.change(tiny.FROZEN, schedule__epochs=1, schedule__clip_norm=clip_norm, **changes)
    data = tiny.data_of(run, corpus)
    out, _ = run_in(tmp_path, run, data)
    torch.manual_seed(run.init_seed)
    model = JointEmbedding(run.model, data.images.dim, len(data.vocabulary))
    plain = {"lr": 0.01, "fused": False, "foreach": False}
    if run.optimiser == ADAMW:
        optimiser = torch.optim.AdamW(model.parameters(), weight_decay=0.1, **plain)
    else:
        optimiser = torch.optim.Adam(model.parameters(), **plain)
    order = np.random.default_rng((1, run.order_seed, 0)).permutation(len(data.pairs))
    features = np.load(corpus / "features-vgg" / "features.npy")[:, 0]
    total, clipped = 0.0, set()
    for step in range(4):
        pairs = order[16 * step : 16 * step + 16]
        ids, lengths = data.captions.all.eval(data.pairs[pairs])
        images = model.embed_images(ImageBatch(torch.from_numpy(features[data.image_rows[pairs]])))
        captions = model.embed_captions(torch.from_numpy(ids), torch.from_numpy(lengths))
        loss = max_of_hinges.loss(images @ captions.T)
        optimiser.zero_grad()
        loss.backward()
        factor = step / 4 if run.schedule.warmup else 1.0
        norm = factor * torch.sqrt(sum((p.grad**2).sum() for p in model.parameters()))
        clipped.add(bool(clip_norm and norm > clip_norm))
        for parameter in model.parameters():
            parameter.grad *= factor * (clip_norm / norm if clip_norm and norm > clip_norm else 1.0)
        optimiser.step()
        total += loss.item()
    assert (True in clipped) == (clip_norm is not None)
    for key, value in weights(out).items():
        assert_near(value.flatten(), model.state_dict()[key].flatten(), 1e-3)
    assert float(history(out)[0]["loss"]) == pytest.approx(total / len(order), rel=1e-4)


def encoded(run, out, corpus, split):
    """Embeddings of a split by a trained run, whose folder has the vocabulary as the step leaves it."""
    Vocabulary.read(corpus / "tokens").write(out)
    return encode_split(
        *open_run(run, split, tiny.artefacts(corpus) | {"run": out}, tiny.CPU), device=tiny.CPU
    )


@pytest.mark.parametrize("run", [tiny.FROZEN, tiny.LEGACY], ids=["frozen", "live"])
def test_the_published_weights_are_those_of_the_best_epoch(corpus, tmp_path, run):
    run = tiny.change(run, schedule__epochs=4, schedule__learning_rate=0.03)
    out, facts = run_in(tmp_path, run, tiny.data_of(run, corpus))
    rows = history(out)
    scores = [float(row["rsum"]) for row in rows]
    assert facts["best_epoch"] == scores.index(max(scores)) + 1
    metrics = retrieval_metrics(retrieval_ranks(encoded(run, out, corpus, "val")))
    assert metrics.rsum == pytest.approx(facts["best_rsum"])
    assert metrics.t2i.r5 == pytest.approx(float(rows[facts["best_epoch"] - 1]["t2i_r5"]))
    # So are the embeddings of the test split.
    encoded(run, out, corpus, "test").save(tmp_path / "embeddings.npz")
    assert (out / "embeddings.npz").read_bytes() == (tmp_path / "embeddings.npz").read_bytes()


def test_the_test_split_decides_nothing(corpus, tmp_path):
    data = tiny.data_of(tiny.FROZEN, corpus)
    other = dataclasses.replace(data, test=split_rows(*read_tables(corpus / "corpus"), "restval"))
    first, _ = run_in(tmp_path / "first", tiny.FROZEN, data)
    second, _ = run_in(tmp_path / "second", tiny.FROZEN, other)
    assert (first / "embeddings.npz").read_bytes() != (second / "embeddings.npz").read_bytes()
    (second / "embeddings.npz").write_bytes((first / "embeddings.npz").read_bytes())
    assert_same_results(first, second)


def test_results_hold_the_spec_a_row_an_epoch_and_no_frozen_encoder(corpus, tmp_path):
    out, facts = run_in(tmp_path, tiny.RC, tiny.data_of(tiny.RC, corpus))
    assert json.loads((out / "config.json").read_text())["id"] == "tiny"
    rows = history(out)
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]
    assert [float(row["lr"]) for row in rows] == pytest.approx([0.01, 0.01, 0.001])
    assert all(float(row["pairs_per_second"]) > 0 for row in rows)
    assert not any(key.startswith("encoder.") for key in weights(out))
    assert not facts["encoder_in_model"]
    names = ["config.json", "embeddings.npz", "history.csv", "model.safetensors"]
    assert sorted(path.name for path in out.iterdir()) == names


def test_a_legacy_encoder_moves_its_statistics_and_not_its_weights(corpus, tmp_path):
    out, _ = run_in(tmp_path, LEGACY_BN, tiny.data_of(LEGACY_BN, corpus))
    before = load_encoder(LEGACY_BN.encoder, corpus / "encoder-resnet").state_dict()
    after = {k.removeprefix("encoder."): v for k, v in weights(out).items() if k.startswith("encoder.")}
    assert after.keys() == before.keys()
    moved = {key for key in before if not torch.equal(before[key], after[key])}
    statistics = ("running_mean", "running_var", "num_batches_tracked")
    assert moved == {key for key in before if key.endswith(statistics)}
    counts = [int(after[key]) for key in after if key.endswith("num_batches_tracked")]
    best = max(range(3), key=lambda row: float(history(out)[row]["rsum"]))
    # Two of the four steps of each epoch, up to the best one.
    assert set(counts) == {2 * (best + 1)}


RESNET_FT = tiny.change(tiny.FINETUNED, encoder=tiny.ENCODERS["resnet"])


def test_fine_tuning_starts_from_all_weights_of_the_run_before(corpus, tmp_path):
    # At a rate that moves nothing in single precision.
    run = tiny.change(RESNET_FT, schedule__epochs=1, schedule__learning_rate=1e-50)
    encoder = load_encoder(run.encoder, corpus / "encoder-resnet").state_dict()
    frozen = tiny.change(LEGACY_BN, encoder_mode="eval", rc_features="inline")
    # A `legacy` run hands over the statistics that it moved; a frozen run has no encoder.
    for name, before in (("legacy", LEGACY_BN), ("frozen", frozen)):
        start, _ = run_in(tmp_path / name, before, tiny.data_of(before, corpus))
        expected = weights(start)
        if name == "frozen":
            expected |= {f"encoder.{key}": value for key, value in encoder.items()}
        out, _ = run_in(tmp_path / f"from-{name}", run, tiny.data_of(run, corpus), start)
        values = weights(out)
        assert values.keys() == expected.keys()
        assert all(torch.equal(values[key], value) for key, value in expected.items())


def test_fine_tuning_goes_on_with_the_state_of_the_same_loss_and_begins_with_that_of_another(
    corpus, tmp_path
):
    nce, siglip = Component("info_nce"), Component("siglip")
    start = tiny.change(RESNET_FT, finetune_from=None, trainset="1C", loss=nce, schedule__epochs=1)
    frozen, _ = run_in(tmp_path / "frozen", start, tiny.data_of(start, corpus))
    begun = load_file(frozen / "loss.safetensors")
    first = {}
    for loss in (nce, siglip):
        # At a rate that moves nothing the state stays as it begins.
        run = tiny.change(RESNET_FT, loss=loss, schedule__epochs=1, schedule__learning_rate=1e-30)
        out, _ = run_in(tmp_path / loss.name, run, tiny.data_of(run, corpus), frozen)
        first[loss.name] = load_file(out / "loss.safetensors")
    assert first["info_nce"].keys() == begun.keys() != first["siglip"].keys()
    assert all(torch.equal(value, begun[name]) for name, value in first["info_nce"].items())


def test_a_training_starts_from_the_weights_of_its_text_encoder(corpus, tmp_path, monkeypatch):
    file, begun = tmp_path / "text.safetensors", []
    monkeypatch.setattr(gru.TextEncoder, "start", lambda encoder, path: begun.append(path), raising=False)
    run, data = tiny.change(tiny.FROZEN, schedule__epochs=1), tiny.data_of(tiny.FROZEN, corpus)
    run_in(tmp_path / "a", run, data, folders={"text_weights": file})
    run_in(tmp_path / "b", run, data)
    assert begun == [file, None]


def test_nan_in_the_loss_names_the_step_and_keeps_the_state(corpus, tmp_path):
    data = tiny.data_of(tiny.FROZEN, corpus)

    def spoilt(rows, epoch):
        batch = data.images.train(rows, epoch)
        if epoch == 1 and data.pairs[17] in rows:
            batch.values[0, 0] = float("nan")
        return batch

    images = SimpleNamespace(dim=data.images.dim, train=spoilt, eval=data.images.eval)
    order = np.random.default_rng((1, 0, 1)).permutation(len(data.pairs)).tolist()
    step = order.index(17) // 16 + 1
    with pytest.raises(VseppError, match=f"run tiny: .*nan.*epoch 2, step {step}"):
        run_in(tmp_path, tiny.FROZEN, dataclasses.replace(data, images=images), checkpoint_seconds=0)
    out, _ = run_in(tmp_path, tiny.FROZEN, data)
    whole, _ = run_in(tmp_path / "whole", tiny.FROZEN, data)
    assert_same_results(whole, out)


def test_weights_that_are_not_finite_are_not_kept(corpus, tmp_path):
    # The first step sees a finite loss and throws the weights beyond what single precision holds.
    run = tiny.change(tiny.FROZEN, schedule__learning_rate=1e39)
    with pytest.raises(VseppError, match=r"nan.*epoch 1, step 2"):
        run_in(tmp_path, run, tiny.data_of(run, corpus), checkpoint_seconds=0)
    assert not list((tmp_path / "state").iterdir())


def all_alike(data):
    """The same data with one image and one caption in place of all."""
    same, captions = torch.ones(1, data.images.dim), Tokens.from_lists([[1, 4, 2]] * len(data.captions.all))

    def images(rows, epoch=0):
        return ImageBatch(same.expand(len(rows), -1))

    return dataclasses.replace(
        data,
        captions=SimpleNamespace(all=captions, train=lambda rows, epoch: captions.eval(rows)),
        images=SimpleNamespace(dim=data.images.dim, train=images, eval=images),
    )


def test_a_collapse_is_logged_with_advice_and_recorded(corpus, tmp_path, caplog):
    # All images and all captions alike: no negative is harder than another.
    run = tiny.change(tiny.FROZEN, schedule__epochs=2)
    data = tiny.data_of(run, corpus)
    with caplog.at_level(logging.WARNING, logger="vsepp"):
        out, facts = run_in(tmp_path / "collapsed", run, all_alike(data))
    assert [row["collapsed"] for row in history(out)] == ["1", "1"]
    assert float(history(out)[0]["loss"]) == pytest.approx(0.4)
    assert facts["collapsed"] and facts["best_epoch"] == 1  # of equal epochs the first
    assert "curriculum" in caplog.text and "learning_rate" in caplog.text
    assert float(history(out)[0]["i2t_r1"]) == 0

    caplog.clear()
    sound = tiny.change(run, loss__name="sum_of_hinges", schedule__epochs=12)
    _, facts = run_in(tmp_path / "sound", sound, data)
    assert not facts["collapsed"] and "collapsed" not in caplog.text


@pytest.mark.parametrize(
    ("n_images", "limit"), [(1000, 2 * chance_rsum(1000, 5000)), (50, chance_rsum(50, 250) + 16)]
)
def test_a_model_has_collapsed_below_twice_chance_and_on_a_small_split_below_chance_and_16(n_images, limit):
    assert is_collapsed(0.0, n_images, 5 * n_images)  # all tied: half of the ties count
    assert is_collapsed(0.99 * limit, n_images, 5 * n_images)
    assert not is_collapsed(1.01 * limit, n_images, 5 * n_images)


def stops_after(rsums, patience):
    """Epochs that a training of these rsums has, by reading them one after another."""
    best, waited = -1.0, 0
    for epoch, rsum in enumerate(rsums, start=1):
        best, waited = (rsum, 0) if rsum > best else (best, waited + 1)
        if waited == patience:
            return epoch
    return len(rsums)


def test_training_ends_where_validation_no_longer_rises(corpus, tmp_path):
    run = tiny.change(tiny.FROZEN, schedule__epochs=12, schedule__learning_rate=0.05)
    data = tiny.data_of(run, corpus)
    rsums = [epoch["rsum"] for epoch in history(run_in(tmp_path / "whole", run, data)[0])]
    for patience in (1, 3, 20):
        expected = stops_after([float(rsum) for rsum in rsums], patience)
        assert patience == 20 or expected < 12
        patient = tiny.change(run, schedule__patience=patience)
        out, facts = run_in(tmp_path / str(patience), patient, data)
        assert [epoch["rsum"] for epoch in history(out)] == rsums[:expected]
        assert facts["epochs"] == expected
