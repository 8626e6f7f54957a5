"""Ranking with torch gives the ranks of ranking with numpy."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import vsepp.evaluation.ranks_on_device as module
from vsepp.errors import VseppError
from vsepp.evaluation.ranks import retrieval_ranks
from vsepp.evaluation.ranks_on_device import ranks_on_device

CPU = torch.device("cpu")


def assert_same(problem, similarity, device=CPU):
    found, expected = ranks_on_device(*problem, similarity, device), retrieval_ranks(*problem, similarity)
    np.testing.assert_array_equal(found.image_to_text, expected.image_to_text)
    np.testing.assert_array_equal(found.text_to_image, expected.text_to_image)
    assert found.image_to_text.dtype == found.text_to_image.dtype == np.float64


def random_owner(rng, n_images, n_captions):
    return rng.permutation(
        np.concatenate([np.arange(n_images), rng.integers(0, n_images, n_captions - n_images)])
    )


@st.composite
def problems(draw):
    """Integers times powers of two, whose sums are exact however they are summed, with many ties."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_images = draw(st.integers(1, 30))
    n_captions = n_images + draw(st.integers(0, 60))
    width, largest = draw(st.integers(1, 13)), draw(st.integers(0, 3))
    sides = [
        rng.integers(-largest, largest + 1, (rows, width)).astype(np.float32)
        for rows in (n_images, n_captions)
    ]
    scale = np.float32(2.0 ** draw(st.integers(-40, 30)))
    return sides[0] * scale, sides[1] * scale, random_owner(rng, n_images, n_captions)


@settings(max_examples=150, deadline=None)
@given(problems(), st.sampled_from(["dot", "order"]), st.sampled_from([1, 7, 100, 1 << 24]))
def test_exact_sums_rank_alike(problem, similarity, elements):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_ELEMENTS", elements)
        assert_same(problem, similarity)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 4]), st.sampled_from([5, 333]))
def test_dot_products_rank_alike_for_any_embeddings(seed, power, width):
    """Ties, near-ties and norms far apart: both round to one grid, and sum without rounding."""
    rng = np.random.default_rng(seed)
    kinds = rng.standard_normal((6, width)).astype(np.float32)
    images, captions = kinds[rng.integers(0, 6, 40)], kinds[rng.integers(0, 6, 130)]
    captions[::3, 0] = np.nextafter(captions[::3, 0], np.float32(np.inf))
    images[:20] += np.float32(1e-7) * rng.standard_normal((20, width)).astype(np.float32)
    for side in (images, captions):
        side *= (10.0 ** rng.integers(-power, power + 1, (len(side), 1))).astype(np.float32)
    assert_same((images, captions, random_owner(rng, 40, 130)), "dot")


@pytest.mark.parametrize("similarity", ["dot", "order"])
@pytest.mark.parametrize("width", [3, 100, 257])
def test_collapsed_model_ranks_at_chance(width, similarity):
    rng = np.random.default_rng(width)
    vector, other = rng.standard_normal((2, width)).astype(np.float32)
    owner = rng.permutation(np.repeat(np.arange(300), 3))
    ranks = ranks_on_device(np.tile(vector, (300, 1)), np.tile(other, (900, 1)), owner, similarity, CPU)
    assert set(ranks.text_to_image) == {149.5}
    assert set(ranks.image_to_text) == {448.5}


def test_order_ties_are_exact_across_blocks(monkeypatch):
    """Eight vectors, many times over, in blocks of odd sizes: equal pairs have equal scores in each."""
    monkeypatch.setattr(module, "_ELEMENTS", 20_011)
    rng = np.random.default_rng(5)
    kinds = rng.standard_normal((8, 77)).astype(np.float32)
    problem = kinds[rng.integers(0, 8, 301)], kinds[rng.integers(0, 8, 907)], np.arange(907) % 301
    assert_same(problem, "order")


def test_bad_input_is_named():
    good = np.ones((2, 3), dtype=np.float32)
    with pytest.raises(VseppError, match="similarity: expected one of dot, order, got 'cosine'"):
        ranks_on_device(good, good, np.arange(2), "cosine", CPU)
    with pytest.raises(VseppError, match="image row 1 has no caption"):
        ranks_on_device(good, good, np.zeros(2, dtype=int), "dot", CPU)


@pytest.mark.gpu
@pytest.mark.parametrize("similarity", ["dot", "order"])
def test_ranks_on_a_gpu(similarity):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    rng = np.random.default_rng(9)
    sides = [rng.integers(-3, 4, (rows, 33)).astype(np.float32) for rows in (700, 3500)]
    if similarity == "dot":
        sides = [side + rng.standard_normal(side.shape).astype(np.float32) for side in sides]
        sides[1][:900] = sides[1][900:1800]
    assert_same((*sides, random_owner(rng, 700, 3500)), similarity, torch.device("cuda"))
