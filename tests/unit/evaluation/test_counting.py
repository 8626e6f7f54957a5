"""Rough scores decide what they can: the ranks stay those of the exact scores."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vsepp.evaluation.counting import count_tiles
from vsepp.evaluation.ranks import retrieval_ranks
from vsepp.evaluation.tiles import on_grid, similarity_tiles


def twice_ranks(scores, owner):
    """Twice the ranks from a whole matrix of exact scores: wrong items above count two, tied ones one."""
    wrong = owner[None, :] != np.arange(len(scores))[:, None]
    best = np.where(wrong, -np.inf, scores).max(axis=1)[:, None]
    own = scores[owner, np.arange(len(owner))]
    return (
        (wrong * (2 * (scores > best) + (scores == best))).sum(axis=1),
        (wrong * (2 * (scores > own) + (scores == own))).sum(axis=0),
    )


def assert_ranks(found, expected):
    for direction, right in zip(found, expected, strict=True):
        np.testing.assert_array_equal(direction, right)


def exact_scores(images, captions):
    return on_grid(images) @ on_grid(captions).T


def owners(n_images, n_captions):
    return np.sort(np.arange(n_captions) % n_images)


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
    return images, captions, owners(n_images, n_captions)


@settings(max_examples=200, deadline=None)
@given(hard_problems())
def test_ranks_are_those_of_the_exact_scores(problem):
    images, captions, owner = problem
    ranks = retrieval_ranks(images, captions, owner, "dot")
    assert_ranks(
        (2 * ranks.image_to_text, 2 * ranks.text_to_image), twice_ranks(exact_scores(images, captions), owner)
    )


@settings(max_examples=100, deadline=None)
@given(hard_problems())
def test_float32_scores_stay_within_their_bound(problem):
    images, captions, _ = problem
    rough = similarity_tiles(images, captions, None, "dot").rough
    scores = rough.compute(slice(0, len(images)), slice(0, len(captions))).astype(np.float64)
    bound = rough.of_images[:, None] * rough.of_captions + rough.least
    assert (abs(scores - exact_scores(images, captions)) <= bound).all()


def learned(n_images, n_captions, width, noise=6.0):
    """Unit vectors, captions near their image."""
    rng = np.random.default_rng(n_images)
    owner = owners(n_images, n_captions)
    images = rng.standard_normal((n_images, width)).astype(np.float32)
    captions = images[owner] + noise * rng.standard_normal((n_captions, width)).astype(np.float32)
    for side in (images, captions):
        side /= np.linalg.norm(side, axis=1, keepdims=True)
    return images, captions, owner


def moved(tiles, shift):
    """Tiles whose rough scores are the exact ones, off by `shift` times their bound."""
    rough = tiles.rough

    def compute(rows, cols):
        bound = rough.of_images[rows][:, None] * rough.of_captions[cols] + rough.least
        return (tiles.compute(rows, cols) + shift(bound.shape) * bound).astype(np.float32)

    return replace(tiles, rough=replace(rough, compute=compute))


@pytest.mark.parametrize("side", [-0.999, 0.999, None])
def test_rough_scores_anywhere_within_their_bound_change_no_rank(side):
    """With norms that differ, and with ties, which then lie at the very end of what the bound allows."""
    images, captions, owner = learned(700, 2100, 64)
    rng = np.random.default_rng(1)
    for vectors in (images, captions):
        vectors *= rng.uniform(1, 4, (len(vectors), 1)).astype(np.float32)
        vectors[1::20] = vectors[0::20]
    shift = (lambda shape: rng.uniform(-0.999, 0.999, shape)) if side is None else (lambda _: side)
    tiles = similarity_tiles(images, captions, None, "dot")
    expected = twice_ranks(exact_scores(images, captions), owner)
    assert_ranks(count_tiles(moved(tiles, shift), owner), expected)
    # The test would notice: scores that are off by much more than their bound are believed, and rank otherwise.
    beyond = count_tiles(moved(tiles, lambda shape: rng.uniform(-2000, 2000, shape)), owner)
    assert (beyond[1] != expected[1]).any()


def test_near_ties_are_scored_one_by_one_without_an_exact_tile():
    """Items of the right score give or take a unit in the last place: few enough to look at each of them."""
    images, captions, owner = learned(600, 1800, 48)
    rng = np.random.default_rng(2)
    for image in range(0, 300, 10):
        images[image + 1] = images[image]
        captions[3 * image + 4] = captions[3 * image]
        captions[3 * image + 5] = captions[3 * image]
        captions[3 * image + 5, rng.integers(48)] *= np.float32(1 + 2**-22)

    def refuse(rows, cols):
        raise AssertionError("an exact tile was made")

    tiles = replace(similarity_tiles(images, captions, None, "dot"), compute=refuse)
    expected = twice_ranks(exact_scores(images, captions), owner)
    assert (expected[0] % 2).any() and (expected[1] % 2).any(), "there must be ties"
    assert_ranks(count_tiles(tiles, owner), expected)


def test_a_collapsed_model_gives_up_rough_tiles():
    """All scores are equal, so float32 decides nothing: after a few tiles only exact ones are made."""
    n_images, n_captions = 3100, 6200
    owner = owners(n_images, n_captions)
    images = np.tile(np.float32([0.6, 0.3]), (n_images, 1))
    tiles = similarity_tiles(images, np.tile(np.float32([0.1, 0.7]), (n_captions, 1)), None, "dot")
    made = []

    def compute(rows, cols):
        made.append((rows, cols))
        return tiles.rough.compute(rows, cols)

    found = count_tiles(replace(tiles, rough=replace(tiles.rough, compute=compute)), owner)
    assert set(found[0]) == {n_captions - 2} and set(found[1]) == {n_images - 1}
    assert 0 < len(made) < 10


def test_a_hard_tile_does_not_stop_rough_ones():
    """Captions of one place tie with one another, the others do not: only their tiles are made exactly."""
    images, captions, owner = learned(400, 20_000, 16, noise=0.3)
    captions[5000:6000] = captions[5000]
    exact, rough = [], []
    tiles = similarity_tiles(images, captions, None, "dot")

    def noted(compute, made):
        return lambda rows, cols: (made.append((rows.start, cols.start)), compute(rows, cols))[1]

    counted = replace(
        tiles,
        compute=noted(tiles.compute, exact),
        rough=replace(tiles.rough, compute=noted(tiles.rough.compute, rough)),
    )
    assert_ranks(count_tiles(counted, owner), twice_ranks(exact_scores(images, captions), owner))
    assert 0 < len(exact) < 5
    assert len(rough) == 20


@pytest.mark.filterwarnings("error")
def test_counting_warns_of_nothing():
    images, captions, owner = learned(30, 90, 8)
    retrieval_ranks(images, captions, owner, "dot")
    retrieval_ranks(images, captions, owner, "order")
    retrieval_ranks(0 * images, 1e-40 * captions, owner, "dot")
