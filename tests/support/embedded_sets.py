"""Test sets of made-up embeddings, and what a protocol says of them."""

from vsepp.evaluation.embedding_scores import DOT, EmbeddingScores
from vsepp.evaluation.evaluate import evaluate
from vsepp.evaluation.test_set import TestSet
from vsepp.evaluation.truth import DEFAULT_FOLD_SIZE, own_captions


def embedded(images, captions, owner, similarity=DOT, **ids):
    return TestSet(EmbeddingScores(images, captions, similarity), owner, **ids)


def under(tested, protocol="5K", fold_size=DEFAULT_FOLD_SIZE, rerank=None):
    """The evaluation of a test set under one protocol."""
    (evaluation,) = evaluate(tested, [own_captions(tested.caption_to_image, protocol, fold_size)], rerank)
    return evaluation
