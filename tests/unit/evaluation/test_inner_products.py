"""Rough scores decide what they can: the ranks stay those of the exact scores."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vsepp.evaluation.products import ProductCounter, on_grid
from vsepp.evaluation.ranks import rank_positives
from vsepp.evaluation.truth import own_captions


class Watched(ProductCounter):
    """Keeps which tiles were made; `shift` moves rough scores off the exact ones, by parts of their bound."""

    def __init__(self, problem, shift=None):
        super().__init__(*problem[:2])
        self.owner = problem[2]
        self.shift, self.made = shift, {"exact": [], "rough": []}

    def exact(self, rows, cols):
        self.made["exact"].append((rows.start, cols.start))
        return super().exact(rows, cols)

    def rough(self, rows, cols):
        self.made["rough"].append((rows.start, cols.start))
        if self.shift is None:
            return super().rough(rows, cols)
        bound = self.of_images[rows][:, None] * self.of_captions[cols] + self.least
        return (super().exact(rows, cols) + self.shift(bound.shape) * bound).astype(np.float32)


def exact_scores(images, captions):
    return on_grid(images) @ on_grid(captions).T


def ranks(counter):
    found = rank_positives(counter, own_captions(counter.owner))
    return np.concatenate([found.i2t, found.t2i])


def exact_ranks(images, captions, owner):
    """By the definition of `retrieval_ranks`, from the whole matrix."""
    scores = exact_scores(images, captions)
    right, its_own = scores[owner, np.arange(len(owner))], owner == np.arange(len(images))[:, None]
    best, wrong = np.where(its_own, scores, -np.inf).max(axis=1)[:, None], np.where(its_own, np.nan, scores)
    i2t = (wrong > best).sum(axis=1) + (wrong == best).sum(axis=1) / 2
    return np.concatenate([i2t, (wrong > right).sum(axis=0) + (wrong == right).sum(axis=0) / 2])


def near(rng, vectors, kinds, rows):
    """Copies of a few vectors, some with single elements moved to the next number: ties and nearly ties."""
    copies = vectors[rng.integers(0, kinds, rows)]
    moved = np.flatnonzero(rng.random(rows) < 0.5)
    places = rng.integers(0, copies.shape[1], len(moved))
    copies[moved, places] = np.nextafter(copies[moved, places], np.float32(np.inf))
    return copies


@st.composite
def hard_problems(draw):
    """Duplicates, near-ties, norms far apart, numbers below the normal ones, zeros."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_images = draw(st.integers(1, 40))
    n_captions = n_images + draw(st.integers(0, 80))
    width, kinds = draw(st.sampled_from([1, 3, 17, 200])), draw(st.integers(1, 8))
    vectors = rng.standard_normal((kinds, width)).astype(np.float32)
    images, captions = near(rng, vectors, kinds, n_images), near(rng, vectors, kinds, n_captions)
    for side in (images, captions):
        power = draw(st.sampled_from([0, 1, 5, 16]))
        side *= (10.0 ** rng.integers(-power, power + 1, (len(side), 1))).astype(np.float32)
        if draw(st.booleans()):
            side *= np.float32(draw(st.sampled_from([0.0, 1e-40, 1e-22, 1e-19])))
        side[rng.random(len(side)) < draw(st.sampled_from([0, 0.2]))] = 0
    return images, captions, rng.permutation(np.arange(n_captions) % n_images)


@settings(max_examples=200, deadline=None)
@given(hard_problems())
def test_ranks_are_those_of_exact_scores_and_rough_ones_stay_within_their_bound(problem):
    images, captions, _ = problem
    products = Watched(problem)
    np.testing.assert_array_equal(ranks(products), exact_ranks(*problem))
    scores = products.rough(slice(0, len(images)), slice(0, len(captions))).astype(np.float64)
    bound = products.of_images[:, None] * products.of_captions + products.least
    assert (abs(scores - exact_scores(images, captions)) <= bound).all()


def learned(n_images, n_captions, width, noise=6.0):
    """Unit vectors, captions near their image."""
    rng = np.random.default_rng(n_images)
    owner = np.sort(np.arange(n_captions) % n_images)
    images = rng.standard_normal((n_images, width)).astype(np.float32)
    captions = images[owner] + noise * rng.standard_normal((n_captions, width)).astype(np.float32)
    for side in (images, captions):
        side /= np.linalg.norm(side, axis=1, keepdims=True)
    return images, captions, owner


@pytest.mark.parametrize("side", [-0.999, 0.999, None])
def test_rough_scores_anywhere_within_their_bound_change_no_rank(side):
    """With norms that differ, and with ties, which then lie at the very end of what the bound allows."""
    problem = learned(700, 2100, 64)
    rng = np.random.default_rng(1)
    for vectors in problem[:2]:
        vectors *= rng.uniform(1, 4, (len(vectors), 1)).astype(np.float32)
        vectors[1::20] = vectors[0::20]
    shift = (lambda shape: rng.uniform(-0.999, 0.999, shape)) if side is None else (lambda _: side)
    expected = exact_ranks(*problem)
    np.testing.assert_array_equal(ranks(Watched(problem, shift)), expected)
    # The test would notice: scores that are off by much more than their bound are believed, and rank otherwise.
    beyond = ranks(Watched(problem, lambda shape: rng.uniform(-2000, 2000, shape)))
    assert (beyond[700:] != expected[700:]).any()


def test_near_ties_are_scored_one_by_one_without_an_exact_tile():
    """Items of the right score give or take a unit in the last place: few enough to look at each of them."""
    images, captions, _ = problem = learned(600, 1800, 48)
    rng = np.random.default_rng(2)
    for image in range(0, 300, 10):
        images[image + 1] = images[image]
        captions[3 * image + 4] = captions[3 * image]
        captions[3 * image + 5] = captions[3 * image]
        captions[3 * image + 5, rng.integers(48)] *= np.float32(1 + 2**-22)
    products, expected = Watched(problem), exact_ranks(*problem)
    assert (expected[:600] % 1).any() and (expected[600:] % 1).any(), "there must be ties"
    np.testing.assert_array_equal(ranks(products), expected)
    assert not products.made["exact"]


def test_only_a_tile_of_many_ties_is_made_exactly():
    """Captions of one place tie with one another, the others do not."""
    problem = learned(400, 20_000, 16, noise=0.3)
    problem[1][5000:6000] = problem[1][5000]
    products = Watched(problem)
    np.testing.assert_array_equal(ranks(products), exact_ranks(*problem))
    assert 0 < len(products.made["exact"]) < 5
    assert len(products.made["rough"]) == 20
