"""The best of each query scored again by a matcher, from a trained run's folder to its metrics."""

import dataclasses
import json

import numpy as np
import pytest
import tiny_corpus as tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from installed import COSINES, install
from safetensors.torch import save_file
from specs import change
from test_sets import under

from vsepp.base.run_spec import EvaluationSpec
from vsepp.base.spec import Component
from vsepp.data.captions import Tokens, Vocabulary
from vsepp.data.tables import read_tables, split_rows
from vsepp.evaluation.best import best_columns
from vsepp.evaluation.encode import encode_split
from vsepp.evaluation.ranks import rank, retrieval_ranks
from vsepp.evaluation.rerank import Reranker
from vsepp.evaluation.run import evaluate_run
from vsepp.evaluation.scores import ScoreMatrix
from vsepp.evaluation.truth import own_captions
from vsepp.features.images import Features
from vsepp.models.joint import JointEmbedding
from vsepp.models.sets import ImageBatch

IMAGES, CAPTIONS = tiny.SPLITS["test"], tiny.SPLITS["test"] * tiny.CAPTIONS_PER_IMAGE
FUSION = Component("fusion", {"layers": 1, "heads": 2, "intermediate": 12, "k": 4})
MODEL = change(
    tiny.MODEL,
    text=Component("bigru", {"word_dim": 6, "dim": 10}),
    image_pooling=Component("mean"),
    caption_pooling=Component("mean"),
    matcher=FUSION,
)


@pytest.fixture(autouse=True)
def package(tmp_path, monkeypatch):
    """A matcher that is installed: the inner product that the embeddings have."""
    folder = tmp_path / "package"
    folder.mkdir()
    install(monkeypatch, folder, "vsepp.models.matchers", "cosines", COSINES)


@pytest.fixture
def opened(corpus, tmp_path):
    """Makes a model with a matcher, and what it reads of the test split."""
    sets = tmp_path / "sets"
    sets.mkdir()
    alone = np.load(tiny.artefacts(corpus)["features"] / "features.npy")
    rng = np.random.default_rng(0)
    values = rng.standard_normal((len(alone), 4, alone.shape[2])).astype(np.float32)
    np.save(sets / "features.npy", values)
    vocabulary = Vocabulary.read(corpus / "tokens")

    def make(matcher):
        torch.manual_seed(0)
        model = JointEmbedding(change(MODEL, matcher=matcher), alone.shape[2], len(vocabulary)).eval()
        run = tmp_path / "run"
        run.mkdir(exist_ok=True)
        save_file(
            {key: value.contiguous() for key, value in model.state_dict().items()}, run / "model.safetensors"
        )
        vocabulary.write(run)
        rows = split_rows(*read_tables(corpus / "corpus"), "test")
        given = (
            model,
            Features(np.load(sets / "features.npy"), sets=True),
            Tokens.load(corpus / "tokens"),
            rows,
        )
        return given, tiny.artefacts(corpus, run=run, features=sets)

    return make


def by_pairs(given):
    """Logit of "match" of every image and caption, each pair alone and without padding."""
    model, images, captions, rows = given
    scores = np.empty((IMAGES, CAPTIONS), np.float32)
    with torch.inference_mode():
        for i, image in enumerate(rows.images):
            batch = images.eval(np.array([image]))
            alone = ImageBatch(batch.values[:, : batch.lengths[0]], batch.lengths)
            vectors, *_ = model.image_vectors(alone)
            for c, caption in enumerate(rows.captions):
                ids, lengths = map(torch.from_numpy, captions.eval(np.array([caption])))
                states = model.text(ids, lengths)
                there = [torch.ones(values.shape[:2], dtype=torch.bool) for values in (vectors, states)]
                scores[i, c] = model.matcher(vectors, there[0], states, there[1])[0, 1]
    return scores


def test_the_scores_are_the_matchers_and_the_items_the_best_of_the_embeddings(opened):
    given, _ = opened(FUSION)
    tested = encode_split(*given, device=tiny.CPU)
    lists = (
        Reranker.from_split(*given, device=tiny.CPU)
        .best(tested.scores, slice(0, IMAGES), np.arange(CAPTIONS))
        .lists
    )
    similar = tested.scores.images @ tested.scores.captions.T
    expected = by_pairs(given)
    for direction, similarity, logits in (("i2t", similar, expected), ("t2i", similar.T, expected.T)):
        items, scores = lists[direction]
        assert np.array_equal(items, np.argsort(-similarity, axis=1)[:, :4])
        np.testing.assert_allclose(scores, np.take_along_axis(logits, items, axis=1), atol=1e-6)


def test_of_k_all_images_ranks_are_the_matchers_alone(opened):
    given, _ = opened(change(FUSION, k=IMAGES))
    tested = encode_split(*given, device=tiny.CPU)
    found = under(tested, rerank=Reranker.from_split(*given, device=tiny.CPU).best)
    alone = rank(ScoreMatrix(by_pairs(given)), own_captions(tested.caption_to_image))
    assert np.array_equal(found.ranks["t2i"].best, alone["t2i"].best)
    assert not np.array_equal(found.ranks["t2i"].best, retrieval_ranks(tested)["t2i"].best)


@pytest.mark.parametrize("k", [1, 4, IMAGES])
def test_a_matcher_that_says_what_the_embeddings_say_changes_no_rank_within_its_lists(opened, k):
    given, _ = opened(Component("cosines", {"k": k}))
    tested = encode_split(*given, device=tiny.CPU)
    rerank = Reranker.from_split(*given, device=tiny.CPU).best
    for protocol, size in (("5K", IMAGES), ("1K", IMAGES)):
        plain = under(tested, protocol, size).ranks
        found = under(tested, protocol, size, rerank)
        assert found.reranked == k
        for side in ("i2t", "t2i"):
            before, after = (ranks[side].ranks for ranks in (plain, found.ranks))
            if k == IMAGES and side == "t2i":
                assert np.array_equal(before, after)
            # What a list holds keeps its rank; what it leaves out is tied below.
            listed = np.isfinite(before) & (before < k - (side == "i2t") * (tiny.CAPTIONS_PER_IMAGE - 1))
            assert listed.any() or k == 1
            assert np.array_equal(before[listed], after[listed])


def test_a_matcher_that_says_the_opposite_turns_the_lists(opened):
    given, _ = opened(Component("cosines", {"k": IMAGES, "sign": -1.0}))
    tested = encode_split(*given, device=tiny.CPU)
    plain = retrieval_ranks(tested)
    found = under(tested, rerank=Reranker.from_split(*given, device=tiny.CPU).best).ranks
    assert np.array_equal(found["t2i"].best, IMAGES - 1 - plain["t2i"].best)


@pytest.mark.parametrize("protocol", ["5K", "5x1K"])
def test_an_evaluation_writes_its_lists_and_says_that_it_re_ranked(opened, tmp_path, protocol):
    k = {"5K": 4, "5x1K": 1}[protocol]
    given, folders = opened(change(FUSION, k=k))
    run = dataclasses.replace(tiny.FROZEN, model=given[0].spec)
    out = tmp_path / "out"
    encode_split(*given, device=tiny.CPU).save(folders["run"] / "embeddings.npz")
    spec = EvaluationSpec(run, (protocol,), fold_size=1)
    (found,) = evaluate_run(spec, folders, out, Reranker.from_split(*given, device=tiny.CPU).best)
    metrics = json.loads((out / "metrics.json").read_text(encoding="utf-8"))[protocol]
    assert metrics["reranked"] == k and metrics["n_images"] == len(found.ranks["i2t"].best)
    assert f"re-ranked, {k} of {metrics['fold_size']}" in str(found)
    with np.load(out / "best.npz") as arrays:
        lists = {name.removeprefix(f"{protocol}_"): values for name, values in arrays.items()}
    assert {name: values.shape for name, values in lists.items()} == {
        f"{side}_{part}": (size, k)
        for side, size in (("i2t", len(found.ranks["i2t"].best)), ("t2i", len(found.ranks["t2i"].best)))
        for part in ("items", "scores")
    }
    expected = by_pairs(given)
    of_images = expected[: len(found.ranks["i2t"].best)]
    np.testing.assert_allclose(
        lists["i2t_scores"], np.take_along_axis(of_images, lists["i2t_items"], axis=1), atol=1e-6
    )
    of_captions = expected.T[found.truth.tasks["t2i"].queries]
    np.testing.assert_allclose(
        lists["t2i_scores"], np.take_along_axis(of_captions, lists["t2i_items"], axis=1), atol=1e-6
    )
    if protocol == "5x1K":  # a fold is one image
        assert lists["t2i_items"].ravel().tolist() == found.truth.tasks["t2i"].items.tolist()


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_the_best_stand_first_and_equal_ones_keep_their_order(seed, k):
    rng = np.random.default_rng(seed)
    scores = rng.choice([-np.inf, -0.0, 0.0, 1.0, np.inf], size=rng.integers(1, 10, 2))
    np.testing.assert_array_equal(best_columns(scores, k), np.argsort(-scores, axis=1, kind="stable")[:, :k])
