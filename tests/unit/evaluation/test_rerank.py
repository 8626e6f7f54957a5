"""The best of each query scored again by a matcher, from a trained run's folder to its metrics."""

import dataclasses
import json

import numpy as np
import pytest
import tiny_corpus as tiny
import torch
from embedded_sets import under
from hypothesis import given, settings
from hypothesis import strategies as st
from packages import COSINES, install
from safetensors.torch import save_file
from specs import change

from vsepp.base.run_spec import EvaluationSpec
from vsepp.base.spec import Component
from vsepp.data.captions import Tokens, Vocabulary
from vsepp.data.tables import read_tables, split_rows
from vsepp.evaluation.best import best_columns
from vsepp.evaluation.encode import encode_split
from vsepp.evaluation.evaluate_run import evaluate_run
from vsepp.evaluation.ranks import rank_positives, retrieval_ranks
from vsepp.evaluation.rerank import Reranker
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
        pairs = (
            model,
            Features(np.load(sets / "features.npy"), sets=True),
            Tokens.load(corpus / "tokens"),
            rows,
        )
        return pairs, tiny.artefacts(corpus, run=run, features=sets)

    return make


def by_pairs(pairs):
    """Logit of "match" of every image and caption, each pair alone and without padding."""
    model, images, captions, rows = pairs
    scores = np.empty((IMAGES, CAPTIONS), np.float32)
    with torch.inference_mode():
        for i, image in enumerate(rows.images):
            batch = images.eval(np.array([image]))
            alone = ImageBatch(batch.values[:, : batch.lengths[0]], batch.lengths)
            vectors, *_ = model.image_vectors(alone)
            for c, caption in enumerate(rows.captions):
                ids, lengths = map(torch.from_numpy, captions.eval(np.array([caption])))
                states = model.text(ids, lengths)
                present = [torch.ones(values.shape[:2], dtype=torch.bool) for values in (vectors, states)]
                scores[i, c] = model.matcher(vectors, present[0], states, present[1])[0, 1]
    return scores


def evaluated(pairs, protocol="5K"):
    """A test set, and its evaluation where the matcher scores the best again."""
    tested = encode_split(*pairs, device=tiny.CPU)
    return tested, under(tested, protocol, IMAGES, Reranker.from_split(*pairs, device=tiny.CPU).best)


def test_the_scores_are_the_matchers_and_the_items_the_best_of_the_embeddings(opened):
    pairs, _ = opened(FUSION)
    tested = encode_split(*pairs, device=tiny.CPU)
    reranker = Reranker.from_split(*pairs, device=tiny.CPU)
    lists = reranker.best(tested.scores, slice(0, IMAGES), np.arange(CAPTIONS)).lists
    similar, expected = tested.scores.images @ tested.scores.captions.T, by_pairs(pairs)
    for direction, similarity, logits in (("i2t", similar, expected), ("t2i", similar.T, expected.T)):
        items, scores = lists[direction]
        assert np.array_equal(items, np.argsort(-similarity, axis=1)[:, :4])
        np.testing.assert_allclose(scores, np.take_along_axis(logits, items, axis=1), atol=1e-6)


def test_of_k_all_images_ranks_are_the_matchers_alone(opened):
    pairs, _ = opened(change(FUSION, k=IMAGES))
    tested, evaluation = evaluated(pairs)
    alone = rank_positives(ScoreMatrix(by_pairs(pairs)), own_captions(tested.caption_to_image))
    assert np.array_equal(evaluation.ranks["t2i"].best, alone["t2i"].best)
    assert not np.array_equal(evaluation.ranks["t2i"].best, retrieval_ranks(tested)["t2i"].best)


@pytest.mark.parametrize("protocol", ["5K", "1K"])
@pytest.mark.parametrize("k", [1, 4, IMAGES])
def test_a_matcher_that_says_what_the_embeddings_say_changes_no_rank_within_its_lists(opened, k, protocol):
    tested, evaluation = evaluated(opened(Component("cosines", {"k": k}))[0], protocol)
    assert evaluation.reranked == k
    plain = under(tested, protocol, IMAGES).ranks
    for side, siblings in (("i2t", tiny.CAPTIONS_PER_IMAGE - 1), ("t2i", 0)):
        before, after = (ranks[side].ranks for ranks in (plain, evaluation.ranks))
        # What a list holds keeps its rank; what it leaves out is tied below.
        listed = np.isfinite(before) & (before < k - siblings)
        assert listed.any() or k == 1
        assert np.array_equal(before[listed], after[listed])


@pytest.mark.parametrize(("protocol", "k"), [("5K", 4), ("5x1K", 1)])
def test_an_evaluation_writes_its_lists_and_says_that_it_re_ranked(opened, tmp_path, protocol, k):
    pairs, folders = opened(change(FUSION, k=k))
    run = dataclasses.replace(tiny.FROZEN, model=pairs[0].spec)
    encode_split(*pairs, device=tiny.CPU).save(folders["run"] / "embeddings.npz")
    spec = EvaluationSpec(run, (protocol,), fold_size=1)
    rerank = Reranker.from_split(*pairs, device=tiny.CPU).best
    (evaluation,) = evaluate_run(spec, folders, tmp_path / "out", rerank)
    assert json.loads((tmp_path / "out/metrics.json").read_text())[protocol]["reranked"] == k
    with np.load(tmp_path / "out/best.npz") as arrays:
        lists = {name.removeprefix(f"{protocol}_"): values for name, values in arrays.items()}
    expected, queries = by_pairs(pairs), evaluation.truth.tasks["t2i"].queries
    for side, logits in (
        ("i2t", expected[: len(evaluation.ranks["i2t"].best)]),
        ("t2i", expected.T[queries]),
    ):
        items, scores = lists[f"{side}_items"], lists[f"{side}_scores"]
        assert items.shape == (len(logits), k)
        np.testing.assert_allclose(scores, np.take_along_axis(logits, items, axis=1), atol=1e-6)
    if protocol == "5x1K":  # a fold is one image
        assert lists["t2i_items"].ravel().tolist() == evaluation.truth.tasks["t2i"].items.tolist()


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_the_best_stand_first_and_equal_ones_keep_their_order(seed, k):
    rng = np.random.default_rng(seed)
    scores = rng.choice([-np.inf, -0.0, 0.0, 1.0, np.inf], size=rng.integers(1, 10, 2))
    np.testing.assert_array_equal(best_columns(scores, k), np.argsort(-scores, axis=1, kind="stable")[:, :k])
