"""Ranks by inner products equal the ranks of integer arithmetic, which rounds nothing."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_sets import embedded

from vsepp.evaluation import scores as blocks
from vsepp.evaluation.ranks import retrieval_ranks
from vsepp.evaluation.scores import on_grid


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
    n_images = draw(st.integers(1, 15))
    n_captions = n_images + draw(st.integers(0, 30))
    width, kinds = draw(st.sampled_from([1, 3, 17, 60])), draw(st.integers(1, 8))
    vectors = rng.standard_normal((kinds, width)).astype(np.float32)
    images, captions = near(rng, vectors, kinds, n_images), near(rng, vectors, kinds, n_captions)
    for side in (images, captions):
        power = draw(st.sampled_from([0, 1, 5, 16]))
        side *= (10.0 ** rng.integers(-power, power + 1, (len(side), 1))).astype(np.float32)
        if draw(st.booleans()):
            side *= np.float32(draw(st.sampled_from([0.0, 1e-40, 1e-22, 1e-19])))
        side[rng.random(len(side)) < draw(st.sampled_from([0, 0.2]))] = 0
    return images, captions, rng.permutation(np.arange(n_captions) % n_images)


def integers(vectors):
    """Vectors on their grid as Python's integers: all times one power of two, which every element is a multiple of."""
    return [[int(Fraction(number) * 2**400) for number in row] for row in on_grid(vectors).tolist()]


def exact_ranks(images, captions, owner):
    """The definition in loops: wrong items above, plus half of the wrong ones tied."""
    rows, columns = integers(images), integers(captions)
    scores = [[sum(f * g for f, g in zip(row, column, strict=True)) for column in columns] for row in rows]
    i2t, t2i = [[] for _ in rows], []
    for caption, image in enumerate(owner):
        right = scores[image][caption]
        others = [scores[image][other] for other in range(len(columns)) if owner[other] != image]
        i2t[image].append(sum(one > right for one in others) + sum(one == right for one in others) / 2)
        others = [scores[other][caption] for other in range(len(rows)) if other != image]
        t2i.append(sum(one > right for one in others) + sum(one == right for one in others) / 2)
    return [rank for own in i2t for rank in own], t2i


@settings(max_examples=100, deadline=None)
@given(hard_problems(), st.sampled_from([(1, 1), (4, 3), (1024, 512)]))
def test_ranks_are_those_of_integer_arithmetic_in_blocks_of_any_size_and_on_a_device(problem, tile):
    i2t, t2i = exact_ranks(*problem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "_TILE", tile)
        patch.setattr(blocks, "_ON_DEVICE", tile[0] * tile[1])
        for device in (None, torch.device("cpu")):
            found = retrieval_ranks(embedded(*problem), device)
            np.testing.assert_array_equal(found["i2t"].ranks, i2t)
            np.testing.assert_array_equal(found["t2i"].ranks, t2i)


@settings(max_examples=100, deadline=None)
@given(hard_problems())
def test_the_grid_moves_an_element_by_less_than_a_float32_sum_is_off(problem):
    for vectors in problem[:2]:
        norms = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
        assert (abs(on_grid(vectors) - vectors) <= norms * 2.0**-26).all()
