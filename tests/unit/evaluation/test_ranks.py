import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vsepp.errors import VseppError
from vsepp.evaluation.metrics import direction_metrics
from vsepp.evaluation.ranks import Ranks, ranks_from_scores, retrieval_ranks


def score_matrix(images, captions, similarity):
    """scores[image, caption] by a double loop in float64."""
    scores = np.empty((len(images), len(captions)))
    for i, f in enumerate(images.astype(np.float64)):
        for c, g in enumerate(captions.astype(np.float64)):
            scores[i, c] = f @ g if similarity == "dot" else -float(np.sum(np.maximum(0.0, g - f) ** 2))
    return scores


def naive_ranks(scores, owner):
    """The definition, word by word: wrong items above, plus half of the wrong ones tied."""
    image_to_text, text_to_image = [], []
    for i in range(scores.shape[0]):
        of_its_own = []
        for c in np.flatnonzero(owner == i):
            wrong = [scores[i, other] for other in range(scores.shape[1]) if owner[other] != i]
            above = sum(score > scores[i, c] for score in wrong)
            of_its_own.append(above + sum(score == scores[i, c] for score in wrong) / 2)
        image_to_text.append(min(of_its_own))
    for c in range(scores.shape[1]):
        right = scores[owner[c], c]
        wrong = [scores[i, c] for i in range(scores.shape[0]) if i != owner[c]]
        text_to_image.append(sum(s > right for s in wrong) + sum(s == right for s in wrong) / 2)
    return Ranks(np.array(image_to_text), np.array(text_to_image))


def assert_same(found, expected):
    np.testing.assert_array_equal(found.image_to_text, expected.image_to_text)
    np.testing.assert_array_equal(found.text_to_image, expected.text_to_image)
    assert found.image_to_text.dtype == found.text_to_image.dtype == np.float64


def test_one_caption_an_image_without_ties():
    scores = np.array(
        [
            [0.9, 0.1, 0.5],
            [0.8, 0.2, 0.3],
            [0.1, 0.7, 0.6],
        ]
    )
    ranks = ranks_from_scores(scores, np.array([0, 1, 2]))
    # Row 1: captions 0 (.8) and 2 (.3) lie above its own .2. Column 1: images 2 (.7) above .2, image 0 below.
    np.testing.assert_array_equal(ranks.image_to_text, [0, 2, 1])
    np.testing.assert_array_equal(ranks.text_to_image, [0, 1, 0])


def test_best_of_several_shuffled_captions_counts_and_siblings_are_not_wrong():
    owner = np.array([1, 0, 0, 1, 0])
    scores = np.array(
        [
            [0.5, 0.9, 0.4, 0.95, 0.3],
            [0.6, 0.7, 0.8, 0.1, 0.65],
        ]
    )
    ranks = ranks_from_scores(scores, owner)
    # Image 0: best own caption 1 (.9); of image 1's captions only .95 is above it.
    # Image 1: best own caption 0 (.6); captions .7, .8 and .65 of image 0 are above it.
    np.testing.assert_array_equal(ranks.image_to_text, [1, 3])
    # Captions in the given order: .6 > .5; .9 > .7; .4 < .8; .1 < .95; .3 < .65.
    np.testing.assert_array_equal(ranks.text_to_image, [0, 0, 1, 1, 1])


def test_a_tie_counts_half_and_a_tie_between_own_captions_counts_nothing():
    owner = np.array([0, 0, 1, 2])
    scores = np.array(
        [
            [0.5, 0.5, 0.5, 0.7],
            [0.5, 0.1, 0.4, 0.4],
            [0.2, 0.5, 0.4, 0.9],
        ]
    )
    ranks = ranks_from_scores(scores, owner)
    np.testing.assert_array_equal(ranks.image_to_text, [1.5, 1.5, 0])
    np.testing.assert_array_equal(ranks.text_to_image, [0.5, 0.5, 1.5, 0])


def test_infinite_scores_rank_like_any_other():
    scores = np.array([[np.inf, -np.inf], [np.inf, -np.inf]])
    ranks = ranks_from_scores(scores, np.array([0, 1]))
    np.testing.assert_array_equal(ranks.image_to_text, [0, 1])
    np.testing.assert_array_equal(ranks.text_to_image, [0.5, 0.5])


@st.composite
def small_problems(draw):
    """Integer-valued embeddings: every product and sum is exact, and ties are frequent."""
    n_images = draw(st.integers(1, 7))
    owner = draw(
        st.permutations(list(range(n_images)) + draw(st.lists(st.integers(0, n_images - 1), max_size=9)))
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    width, largest = draw(st.integers(1, 5)), draw(st.integers(0, 3))
    images = rng.integers(-largest, largest + 1, (n_images, width)).astype(np.float32)
    captions = rng.integers(-largest, largest + 1, (len(owner), width)).astype(np.float32)
    return images, captions, np.array(owner)


@settings(max_examples=150, deadline=None)
@given(small_problems(), st.sampled_from(["dot", "order"]))
def test_ranks_equal_the_double_loop(problem, similarity):
    images, captions, owner = problem
    scores = score_matrix(images, captions, similarity)
    expected = naive_ranks(scores, owner)
    assert_same(retrieval_ranks(images, captions, owner, similarity), expected)
    assert_same(ranks_from_scores(scores, owner), expected)


@pytest.mark.parametrize("similarity", ["dot", "order"])
@pytest.mark.parametrize(
    ("n_images", "n_captions"),
    [(1, 1), (63, 64), (64, 65), (511, 1024), (512, 1025), (513, 2047), (1025, 2049), (3, 2100), (700, 700)],
)
def test_sizes_around_a_tile_agree_with_whole_matrix_counting(n_images, n_captions, similarity):
    rng = np.random.default_rng(n_images * 10_000 + n_captions)
    owner = rng.permutation(
        np.concatenate([np.arange(n_images), rng.integers(0, n_images, n_captions - n_images)])
    )
    images = rng.integers(-2, 3, (n_images, 6)).astype(np.float32)
    captions = rng.integers(-2, 3, (n_captions, 6)).astype(np.float32)
    if similarity == "dot":
        scores = images @ captions.T
    else:
        scores = sum(-(np.maximum(0, captions[None, :, k] - images[:, None, k]) ** 2) for k in range(6))
    ranks = retrieval_ranks(images, captions, owner, similarity)

    right = scores[owner, np.arange(n_captions)]
    above = (scores > right).sum(0) + ((scores == right).sum(0) - 1) / 2
    np.testing.assert_array_equal(ranks.text_to_image, above)
    for image in rng.integers(0, n_images, 20):
        row, own = scores[image], owner == image
        best = row[own].max()
        expected = (row[~own] > best).sum() + (row[~own] == best).sum() / 2
        assert ranks.image_to_text[image] == expected


@pytest.mark.parametrize("similarity", ["dot", "order"])
@pytest.mark.parametrize(("n_images", "width"), [(7, 3), (333, 100), (1100, 257)])
def test_collapsed_model_ranks_at_chance(n_images, width, similarity):
    """One vector for everything, with values whose products are inexact: all items tie, bit for bit."""
    rng = np.random.default_rng(n_images)
    owner = rng.permutation(np.repeat(np.arange(n_images), 3))
    vector = rng.standard_normal(width).astype(np.float32)
    other = vector + rng.standard_normal(width).astype(np.float32)
    ranks = retrieval_ranks(
        np.tile(vector, (n_images, 1)), np.tile(other, (3 * n_images, 1)), owner, similarity
    )
    assert set(ranks.text_to_image) == {(n_images - 1) / 2}
    assert set(ranks.image_to_text) == {(3 * n_images - 3) / 2}
    if n_images > 20:
        assert direction_metrics(ranks.image_to_text).r10 == 0


@pytest.mark.parametrize("similarity", ["dot", "order"])
def test_repeated_random_vectors_tie_exactly_across_tiles(similarity):
    """Eight distinct vectors scattered over several tiles: a rank is then a sum of whole groups."""
    rng = np.random.default_rng(5)
    n_images, n_captions, width = 1111, 4444, 333
    kinds = rng.standard_normal((8, width)).astype(np.float32)
    kind_of_image = rng.integers(0, 8, n_images)
    kind_of_caption = rng.integers(0, 8, n_captions)
    owner = rng.permutation(np.arange(n_captions) % n_images)
    ranks = retrieval_ranks(kinds[kind_of_image], kinds[kind_of_caption], owner, similarity)

    table = score_matrix(kinds, kinds, similarity)
    assert len(np.unique(table.round(4))) > 28, "the vectors must differ"
    scores = table[np.ix_(kind_of_image, kind_of_caption)]
    right = scores[owner, np.arange(n_captions)]
    np.testing.assert_array_equal(
        ranks.text_to_image, (scores > right).sum(0) + ((scores == right).sum(0) - 1) / 2
    )
    for image in range(0, n_images, 50):
        row, own = scores[image], owner == image
        best = row[own].max()
        assert ranks.image_to_text[image] == (row[~own] > best).sum() + (row[~own] == best).sum() / 2


@pytest.mark.parametrize(("kernel", "threads"), [("Haswell", "1"), ("Haswell", "2"), ("Nehalem", "2")])
def test_ties_are_exact_with_every_blas_kernel(kernel, threads):
    """The float32 kernels of AVX2 processors sum an element by its place in the matrix; it must not show."""
    script = (
        "import numpy as np; from vsepp.evaluation.ranks import retrieval_ranks; "
        "rng = np.random.default_rng(0); f, g = rng.standard_normal((2, 333)).astype('f4'); "
        "owner = rng.permutation(np.arange(2100) % 700); "
        "ranks = retrieval_ranks(np.tile(f, (700, 1)), np.tile(g, (2100, 1)), owner, 'dot'); "
        "print(set(ranks.text_to_image.tolist()), set(ranks.image_to_text.tolist()))"
    )
    environment = {**os.environ, "OPENBLAS_CORETYPE": kernel, "OPENBLAS_NUM_THREADS": threads}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.stdout.split("\n")[0] == "{349.5} {1048.5}", done.stderr


def test_norms_of_any_size_rank_as_in_double_precision():
    """VSE0 does not normalise its images: their norms differ, here by nine orders of magnitude."""
    rng = np.random.default_rng(8)
    owner = rng.permutation(np.arange(1300) % 600)
    images = rng.standard_normal((600, 200)) * 10.0 ** rng.integers(-4, 6, (600, 1))
    captions = rng.standard_normal((1300, 200)) * 10.0 ** rng.integers(-4, 6, (1300, 1))
    images, captions = images.astype(np.float32), captions.astype(np.float32)
    exact = images.astype(np.float64) @ captions.astype(np.float64).T
    assert_same(retrieval_ranks(images, captions, owner, "dot"), ranks_from_scores(exact, owner))


def test_one_array_for_images_and_captions_ties_exactly():
    """The product of an array with its own transpose takes another path in BLAS."""
    vectors = np.tile(np.random.default_rng(1).standard_normal(77).astype(np.float32), (200, 1))
    ranks = retrieval_ranks(vectors, vectors, np.arange(200), "dot")
    assert set(ranks.text_to_image) == set(ranks.image_to_text) == {99.5}


@pytest.mark.parametrize("similarity", ["dot", "order"])
def test_order_of_the_captions_changes_no_recall(similarity):
    rng = np.random.default_rng(3)
    owner = np.repeat(np.arange(150), 5)
    images = rng.standard_normal((150, 40)).astype(np.float32)
    captions = images[owner] + 2 * rng.standard_normal((750, 40)).astype(np.float32)
    shuffle = rng.permutation(750)
    plain = retrieval_ranks(images, captions, owner, similarity)
    shuffled = retrieval_ranks(images, captions[shuffle], owner[shuffle], similarity)
    np.testing.assert_array_equal(shuffled.text_to_image, plain.text_to_image[shuffle])
    assert direction_metrics(shuffled.text_to_image) == direction_metrics(plain.text_to_image)
    assert direction_metrics(shuffled.image_to_text) == direction_metrics(plain.image_to_text)
    assert 0 < direction_metrics(plain.image_to_text).r1 < 100


def test_order_similarity_is_not_symmetric():
    """A caption is more general than its image: max(0, g−f) is zero where g lies below f."""
    images = np.array([[1, 1], [3, 3]], dtype=np.float32)
    captions = np.array([[1, 1], [2, 3]], dtype=np.float32)
    ranks = retrieval_ranks(images, captions, np.array([0, 1]), "order")
    # Caption 0 lies below both images (tie at 0); caption 1 only below image 1.
    np.testing.assert_array_equal(ranks.text_to_image, [0.5, 0])
    np.testing.assert_array_equal(ranks.image_to_text, [0, 0.5])


def test_float64_and_strided_embeddings_are_taken():
    rng = np.random.default_rng(2)
    wide = rng.standard_normal((40, 24))
    owner = np.arange(40)
    expected = retrieval_ranks(
        wide[:, ::2].astype(np.float32), wide[:, 1::2].astype(np.float32), owner, "dot"
    )
    assert_same(retrieval_ranks(wide[:, ::2], wide[:, 1::2], owner, "dot"), expected)


GOOD = np.ones((3, 2), dtype=np.float32)


def bad(row, value):
    embeddings = GOOD.copy()
    embeddings[row, 1] = value
    return embeddings


@pytest.mark.parametrize(
    ("images", "captions", "owner", "similarity", "message"),
    [
        (bad(2, np.nan), GOOD, [0, 1, 2], "dot", "image_embeddings: row 2 holds NaN"),
        (GOOD, bad(1, np.nan), [0, 1, 2], "order", "caption_embeddings: row 1 holds NaN"),
        (GOOD, bad(1, np.inf), [0, 1, 2], "dot", "caption_embeddings: row 1 holds a value or norm beyond"),
        (GOOD, bad(0, 1e20), [0, 1, 2], "dot", "caption_embeddings: row 0 holds a value or norm beyond"),
        (GOOD[:, :1], GOOD, [0, 1, 2], "dot", "image_embeddings have 1 dimensions, caption_embeddings 2"),
        (GOOD[:0], GOOD, [0, 1, 2], "dot", r"image_embeddings: expected shape .* got \(0, 2\)"),
        (GOOD, GOOD[:0], [], "dot", r"caption_embeddings: expected shape .* got \(0, 2\)"),
        (GOOD[0], GOOD, [0, 1, 2], "dot", r"image_embeddings: expected shape .* got \(2,\)"),
        (GOOD.astype(int), GOOD, [0, 1, 2], "dot", "image_embeddings: expected floating-point.* int64"),
        (GOOD, GOOD, [0, 1, 3], "dot", "caption_to_image: row 2 is 3, expected an image row from 0 to 2"),
        (GOOD, GOOD, [0, -1, 2], "dot", "caption_to_image: row 1 is -1"),
        (GOOD, GOOD, [0, 2, 2], "dot", "image row 1 has no caption"),
        (GOOD, GOOD, [0, 1], "dot", r"caption_to_image: expected 3 integers.* shape \(2,\)"),
        (GOOD, GOOD, [0.0, 1.0, 2.0], "dot", "caption_to_image: expected 3 integers.* float64"),
        (GOOD, GOOD, [0, 1, 2], "cosine", "similarity: expected one of dot, order, got 'cosine'"),
    ],
)
def test_bad_input_is_named(images, captions, owner, similarity, message):
    with pytest.raises(VseppError, match=message):
        retrieval_ranks(images, captions, np.array(owner), similarity)


@pytest.mark.parametrize(
    ("scores", "owner", "message"),
    [
        ([[1.0, np.nan], [0.0, 1.0]], [0, 1], r"scores\[0, 1\] is NaN"),
        ([1.0, 2.0], [0, 1], r"expected \(n_images, n_captions\)"),
        ([[1.0, 2.0], [1.0, 2.0]], [0, 0], "image row 1 has no caption"),
    ],
)
def test_bad_scores_are_named(scores, owner, message):
    with pytest.raises(VseppError, match=message):
        ranks_from_scores(np.array(scores), np.array(owner))
