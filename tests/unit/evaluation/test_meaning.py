"""Arrays of the right shape and another meaning are refused, and odd models are not."""

import numpy as np
import pytest

from vsepp.base.errors import VseppError
from vsepp.evaluation.best import BestLists
from vsepp.evaluation.embedding_scores import DOT, EmbeddingScores
from vsepp.evaluation.scores import ScoreMatrix
from vsepp.evaluation.test_set import TestSet

N, DRAWN = 60, np.random.default_rng(0)
IMAGES = DRAWN.standard_normal((N, 16)).astype(np.float32)
OWN = np.repeat(np.arange(N), 5)
CAPTIONS = IMAGES[OWN] + 0.3 * DRAWN.standard_normal((5 * N, 16)).astype(np.float32)
SCORES = IMAGES @ CAPTIONS.T


def ranked(images, own=None):
    own = np.arange(len(images)) if own is None else own
    return TestSet(EmbeddingScores(images, CAPTIONS[: len(own)], DOT), own)


def lists(scores, k=10, *, shuffled=False):
    def best(rows):
        items = np.argsort(-rows, axis=1)[:, :k]
        items = DRAWN.permuted(items, axis=1) if shuffled else items
        return items, np.take_along_axis(rows, items, 1)

    return BestLists(best(scores), best(scores.T))


def noisy(rows, part):
    return rows * (1 + part * DRAWN.standard_normal(rows.shape).astype(np.float32))


FIVE = IMAGES[OWN]
REPEATED = {
    "equal": (FIVE, "images[::5]"),
    "tiled with noise": (noisy(np.tile(IMAGES, (5, 1)), 4e-3), "images[:60]"),
    "as often as captions": (noisy(np.repeat(IMAGES, 3 + OWN[:N] % 3, 0), 2e-3), "each image once"),
    "with an offset": (5 + 0.01 * FIVE, "images[::5]"),
    "in any order": (FIVE[DRAWN.permutation(5 * N)], "each image once"),
}


@pytest.mark.parametrize("case", REPEATED)
def test_images_that_are_listed_several_times_are_refused_with_the_cure(case):
    images, cure = REPEATED[case]
    with pytest.raises(VseppError, match="image_embeddings") as error:
        ranked(images)
    assert cure in str(error.value)
    if len(images) == len(OWN):
        with pytest.raises(VseppError, match=r"scores: "):
            TestSet(ScoreMatrix(images @ CAPTIONS.T), np.arange(len(images)))
    assert ranked(IMAGES, own=OWN).scores.shape == (N, 5 * N)


@pytest.mark.parametrize(
    "images",
    [
        np.ones((N, 16), np.float32) * (1 + 1e-6 * DRAWN.standard_normal((N, 16)).astype(np.float32)),
        np.concatenate([IMAGES, IMAGES[:5]]),
        np.repeat(IMAGES[:2], 30, 0),
        np.stack([np.cos(np.arange(N) / N), np.sin(np.arange(N) / N)], 1).repeat(8, 1),
    ],
    ids=["collapsed up to rounding", "a few doubles", "two embeddings for all", "a path"],
)
def test_collapsed_models_and_a_few_doubles_are_ranked(images):
    assert ranked(images).scores.shape[0] == len(images)


def test_a_corpus_may_hold_copies_of_most_pictures(tmp_path):
    scores, own = EmbeddingScores(np.repeat(IMAGES, 2, 0), CAPTIONS[: 2 * N], DOT), np.arange(2 * N)
    TestSet(scores, own, of_corpus=True).save(tmp_path / "embeddings.npz")
    with pytest.raises(VseppError, match="image_embeddings"):
        TestSet.read(tmp_path / "embeddings.npz")
    assert TestSet.read(tmp_path / "embeddings.npz", of_corpus=True).scores.shape == (2 * N, 2 * N)


def test_distances_in_the_place_of_scores_are_refused():
    distances = ((IMAGES[:, None] - CAPTIONS) ** 2).sum(2)
    weak = IMAGES @ (IMAGES[OWN] + 2 * DRAWN.standard_normal((5 * N, 16))).T
    for wrong in (distances, -weak):
        with pytest.raises(VseppError, match=r"^scores: .*negative"):
            TestSet(ScoreMatrix(wrong), OWN)
    for right in (-distances, weak):
        assert TestSet(ScoreMatrix(right), OWN)


@pytest.mark.parametrize("direction", ["i2t", "t2i"])
def test_distances_in_lists_of_any_order_are_refused(direction):
    turned = lists(SCORES, shuffled=True)
    items, scores = turned.lists[direction]
    turned.lists[direction] = (items, -scores)
    with pytest.raises(VseppError, match=rf"^{direction}_scores: .*negative"):
        TestSet(turned, OWN)


@pytest.mark.parametrize(
    "scores",
    [
        lists(SCORES, 1),
        lists(SCORES, 10, shuffled=True),
        lists(np.zeros_like(SCORES)),
        ScoreMatrix(DRAWN.standard_normal(SCORES.shape)),
        ScoreMatrix(np.where(DRAWN.random(SCORES.shape) < 0.5, -np.inf, SCORES)),
    ],
    ids=["lists of one", "any order", "tied lists", "chance", "half left out"],
)
def test_what_is_odd_and_no_distance_is_ranked(scores):
    assert TestSet(scores, OWN).scores is scores
