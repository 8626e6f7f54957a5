"""Test sets of made-up embeddings, and what a protocol or a truth says of them."""

import numpy as np

from vsepp.evaluation.embedding_scores import DOT, EmbeddingScores
from vsepp.evaluation.evaluate import evaluate
from vsepp.evaluation.test_set import TestSet
from vsepp.evaluation.truth import DEFAULT_FOLD_SIZE, Truth, own_captions


def embedded(images, captions, owner, similarity=DOT, **ids):
    return TestSet(EmbeddingScores(images, captions, similarity), owner, **ids)


def noisy(owner, width, noise, rng, similarity=DOT, **ids):
    """Images at random, and captions that are their images and noise."""
    images = rng.standard_normal((owner.max() + 1, width))
    captions = images[owner] + noise * rng.standard_normal((len(owner), width))
    return embedded(images, captions, owner, similarity, **ids)


def under(tested, protocol="5K", fold_size=DEFAULT_FOLD_SIZE, rerank=None):
    """The evaluation of a test set under one protocol."""
    (evaluation,) = evaluate(tested, [own_captions(tested.caption_to_image, protocol, fold_size)], rerank)
    return evaluation


def truth_of(i2t, t2i):
    """A truth of images whose own captions are not known: each caption's image is its row."""
    rows = 1 + max(*t2i.queries, *i2t.items)
    return Truth("some", {"i2t": i2t, "t2i": t2i}, caption_to_image=np.arange(rows))
