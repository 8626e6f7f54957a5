"""Ranks in pieces beside the ranks of the whole."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsepp import components
from vsepp.evaluation import pieces
from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.pieces import Vectors, counts_of_images
from vsepp.evaluation.ranks import ranks_of_counts, retrieval_ranks
from vsepp.evaluation.scores import ranges
from vsepp.evaluation.truth import own_captions
from vsepp.spec import Component

SIMILARITIES = components.known("similarity")


def embeddings(seed, n_images, n_captions, similarity):
    """Embeddings of few different numbers, so that many scores are tied."""
    draw = np.random.default_rng(seed)
    owner = draw.permutation(
        np.append(np.arange(n_images), draw.integers(0, n_images, n_captions - n_images))
    )
    sides = (draw.integers(0, 3, (rows, 5)).astype(np.float32) / 3 for rows in (n_images, n_captions))
    return Embeddings(*sides, owner, Component(similarity))


@pytest.mark.parametrize("similarity", SIMILARITIES)
@given(seed=st.integers(0, 99), n_images=st.integers(1, 20), more=st.integers(0, 20), size=st.integers(1, 21))
def test_counts_of_ranges_add_up_to_the_whole(similarity, seed, n_images, more, size):
    whole = embeddings(seed, n_images, n_images + more, similarity)
    vectors = Vectors(whole.image_embeddings, whole.caption_embeddings, whole.similarity)
    owner = whole.caption_to_image
    with pytest.MonkeyPatch.context() as small:
        small.setattr(pieces, "_AT_ONCE", 7)
        counts = sum(counts_of_images(vectors, owner, images) for images in ranges(n_images, size))
    expected, ranks = retrieval_ranks(whole), ranks_of_counts(own_captions(owner), *counts)
    for direction in ("i2t", "t2i"):
        np.testing.assert_array_equal(ranks.of(direction).ranks, expected.of(direction).ranks)
        np.testing.assert_array_equal(getattr(ranks, direction), getattr(expected, direction))
    if similarity == "dot":  # twice what a loop counts
        scores = whole.image_embeddings.astype(np.float64) @ whole.caption_embeddings.T.astype(np.float64)
        for caption, image in enumerate(owner):
            wrong = np.delete(scores[:, caption], image)
            right = scores[image, caption]
            assert counts[1, caption] == (wrong > right).sum() + (wrong >= right).sum()
