"""Ranks by their definition, in loops."""

from contextlib import contextmanager

import numpy as np
import pytest

from vsepp.evaluation import embedding_scores
from vsepp.evaluation.best import BestLists


def naive_ranks(table, positives):
    """Of each positive of each query the wrong items above, and half of the wrong ones tied; `table[query][item]`."""
    ranks = []
    for row, query in enumerate(positives.queries):
        right = set(positives.items[positives.starts[row] : positives.starts[row + 1]].tolist())
        wrong = [score for item, score in enumerate(table[query]) if item not in right]
        for item in sorted(right):
            own = table[query][item]
            ranks.append(sum(score > own for score in wrong) + sum(score == own for score in wrong) / 2)
    return np.array(ranks)


def assert_ranks(ranks, scores, truth):
    """Both directions have the ranks of `scores[image, caption]`."""
    for task, table in (("i2t", scores), ("t2i", np.asarray(scores).T)):
        np.testing.assert_array_equal(ranks[task].ranks, naive_ranks(table, truth.tasks[task]))


def best(scores, k):
    """Items and scores of the k best of each row."""
    items = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return items, np.take_along_axis(scores, items, axis=1)


def lists_of(scores, of_images, of_captions):
    """The best captions of each image, and the best images of each caption."""
    return BestLists(best(scores, of_images), best(scores.T, of_captions))


@contextmanager
def block_sizes(tile, elements):
    """Scores of embeddings are computed in such tiles and blocks of so many numbers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedding_scores, "_TILE", tile)
        patch.setattr(embedding_scores, "_ON_CPU", elements)
        patch.setattr(embedding_scores, "_ON_DEVICE", elements)
        yield
