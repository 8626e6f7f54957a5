"""Image heads and optimisers of another package; images as sets of vectors; token kinds."""

import dataclasses

import numpy as np
import pytest
import tiny_corpus as tiny
import torch
from installed import MOMENTUM, OWN_HEAD, install
from specs import change
from tiny_corpus import Killed, artefacts, assert_same_results, killed_at, run_in

from vsepp.base.errors import VseppError
from vsepp.base.placement import Placing
from vsepp.base.spec import Component, SizeAugmentationSpec, from_dict, to_dict
from vsepp.data.captions import Tokens, Vocabulary
from vsepp.evaluation.test_set import TestSet
from vsepp.features.images import Features, open_eval_images
from vsepp.models.joint import load_joint
from vsepp.models.sets import ImageBatch
from vsepp.training.data import load_training_data

MEAN = Component("mean")
POOLED = dataclasses.replace(
    tiny.FROZEN, model=change(tiny.MODEL, image_head=Component("own"), image_pooling=MEAN)
)
STEEP = dataclasses.replace(tiny.FROZEN, optimiser=Component("momentum", {"momentum": 0.5}))


@pytest.fixture(autouse=True)
def package(tmp_path, monkeypatch):
    """What an installed package offers."""
    folder = tmp_path / "package"
    folder.mkdir()
    for group, name, source in (
        ("vsepp.models.heads", "own", OWN_HEAD),
        ("vsepp.training.optimisers", "momentum", MOMENTUM),
    ):
        install(monkeypatch, folder, group, name, source)


def data_of(run, corpus, features=None):
    folders = artefacts(corpus) | ({"features": features} if features else {})
    return load_training_data(run, folders, Placing(tiny.CPU))


def test_sets_pooled_by_their_mean_train_like_their_means(corpus, sets, tmp_path):
    out, _ = run_in(tmp_path / "sets", POOLED, data_of(POOLED, corpus, sets))
    values = np.load(sets / "features.npy")
    unit = values / np.maximum(np.linalg.norm(values, axis=2, keepdims=True), 1e-9)
    means = tmp_path / "means"
    means.mkdir()
    np.save(means / "features.npy", unit.mean(axis=1, keepdims=True))
    plain = dataclasses.replace(tiny.FROZEN, model=change(tiny.MODEL, normalise_features=False))
    of_means, _ = run_in(tmp_path / "mean", plain, data_of(plain, corpus, means))
    one, other = tiny.weights(out), tiny.weights(of_means)
    torch.testing.assert_close(one["image_map.map.weight"], other["image_map.weight"], rtol=1e-3, atol=1e-4)
    assert [row["rsum"] for row in tiny.history(out)] == [row["rsum"] for row in tiny.history(of_means)]
    found = TestSet.read(out / "embeddings.npz")
    assert found.scores.images.shape == (tiny.SPLITS["test"], POOLED.model.joint_dim)
    model = load_joint(POOLED, out / "model.safetensors", len(Vocabulary.read(corpus / "tokens")))
    alone = Features(np.load(sets / "features.npy"), sets=True).eval(np.array([0]))
    padded = torch.cat([alone.values, torch.zeros(1, 9, alone.values.shape[2])], dim=1)
    torch.testing.assert_close(
        model.embed_images(alone), model.embed_images(ImageBatch(padded, alone.lengths)), rtol=0, atol=1e-6
    )


@pytest.mark.resume
def test_a_run_with_sets_and_another_optimiser_goes_on_to_the_same_bits(corpus, sets, tmp_path):
    run = dataclasses.replace(STEEP, model=POOLED.model)
    data = data_of(run, corpus, sets)
    whole, _ = run_in(tmp_path / "whole", run, data, checkpoint_seconds=0)
    with pytest.raises(Killed):
        run_in(tmp_path / "cut", run, killed_at(data, 6), checkpoint_seconds=0)
    out, _ = run_in(tmp_path / "cut", run, data, checkpoint_seconds=0)
    assert_same_results(whole, out)


@pytest.mark.resume
@pytest.mark.parametrize(
    "text",
    [
        Component("bigru", {"word_dim": 6, "dim": 10}),
        # With dropout, whose random numbers go on too.
        Component("bert", {"layers": 1, "hidden": 8, "heads": 2, "intermediate": 8, "dim": 10}),
    ],
    ids=["bigru", "bert"],
)
def test_a_tower_that_drops_vectors_and_words_goes_on_to_the_same_bits(corpus, sets, tmp_path, text):
    gpo = Component("gpo")
    run = dataclasses.replace(
        tiny.FROZEN,
        model=change(
            tiny.MODEL, text=text, image_head=Component("regions"), image_pooling=gpo, caption_pooling=gpo
        ),
        optimiser=Component("adamw"),
        size_augmentation=SizeAugmentationSpec(drop_vectors=0.2, drop_words=0.2),
    )
    data = data_of(run, corpus, sets)
    whole, _ = run_in(tmp_path / "whole", run, data, checkpoint_seconds=0)
    with pytest.raises(Killed):
        run_in(tmp_path / "cut", run, killed_at(data, 6), checkpoint_seconds=0)
    out, _ = run_in(tmp_path / "cut", run, data, checkpoint_seconds=0)
    assert_same_results(whole, out)
    # Each epoch drops others, and the statistics of batch normalisation are among the weights.
    assert len({row["loss"] for row in tiny.history(out)}) == run.schedule.epochs
    assert "image_map.norm.running_mean" in tiny.weights(out)


def test_another_optimiser_takes_other_steps_and_a_run_without_one_is_as_it_was(corpus, tmp_path):
    outs = [
        run_in(tmp_path / run.optimiser.name, run, data_of(run, corpus))[0] for run in (tiny.FROZEN, STEEP)
    ]
    one, other = map(tiny.weights, outs)
    assert not torch.equal(one["image_map.weight"], other["image_map.weight"])
    assert "optimiser" not in to_dict(tiny.FROZEN) and "image_head" not in to_dict(tiny.FROZEN.model)
    assert from_dict(type(STEEP), to_dict(STEEP)) == STEEP


def test_one_vector_an_image_for_a_run_that_pools_sets_is_refused_and_the_reverse(corpus, sets):
    alone = artefacts(corpus)["features"]
    for run, features, said in (
        (POOLED, alone, f"{alone}.*: has 1 vectors an image; run tiny pools sets of vectors"),
        (
            tiny.FROZEN,
            sets,
            f"{sets}.*: has 4 vectors an image; run tiny has no image_pooling and takes one",
        ),
    ):
        with pytest.raises(VseppError, match=said):  # of training and validation
            data_of(run, corpus, features)
        with pytest.raises(VseppError, match=said):  # of the test images
            open_eval_images(run, {"features": features}, len(np.load(features / "features.npy")), tiny.CPU)


def test_tokens_of_another_kind_are_kept_as_such(corpus, tmp_path):
    words = Tokens.load(artefacts(corpus)["tokens"])
    dataclasses.replace(words, kind="pieces").save(tmp_path)
    assert Tokens.load(tmp_path).kind == "pieces"
