"""Ranks against one naive loop: of one and of several positives, with ties, in blocks, of embeddings, a matrix and lists."""

import itertools
import os
from fractions import Fraction

import numpy as np
import pytest
import torch
from embedded_sets import embedded, truth_of
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_ranks import assert_ranks, block_sizes, lists_of
from packages import MANHATTAN as INSTALLED
from packages import install
from processes import python

from vsepp.base.errors import VseppError
from vsepp.base.spec import Component
from vsepp.evaluation.embedding_scores import EmbeddingScores, on_grid
from vsepp.evaluation.ranks import rank_positives, retrieval_ranks
from vsepp.evaluation.scores import ScoreMatrix
from vsepp.evaluation.truth import Positives, own_captions

DOT, ORDER, ROOT = Component("dot"), Component("order"), Component("order", {"form": "root"})
MANHATTAN = Component("manhattan", {"power": 1.0})
SIMILARITIES = {"dot": DOT, "order": ORDER, "root": ROOT, "theirs": MANHATTAN}
EVERY = pytest.mark.parametrize("similarity", SIMILARITIES.values(), ids=SIMILARITIES)
DEVICES = [None, torch.device("cpu")]
EVERYWHERE = pytest.mark.parametrize("device", DEVICES, ids=["numpy", "torch"])


@pytest.fixture(scope="module", autouse=True)
def installed_similarity(tmp_path_factory):
    """An installed package with a similarity of its own."""
    with pytest.MonkeyPatch.context() as patch:
        install(patch, tmp_path_factory.mktemp("theirs"), "vsepp.models.similarity", "manhattan", INSTALLED)
        yield


def score_matrix(images, captions, similarity):
    """scores[image, caption] by a double loop in float64."""
    scores = np.empty((len(images), len(captions)))
    for (i, f), (c, g) in itertools.product(enumerate(np.float64(images)), enumerate(np.float64(captions))):
        scores[i, c] = {
            "dot": f @ g,
            "order": -np.sum(np.maximum(0.0, g - f) ** 2),
            "manhattan": -np.abs(f - g).sum(),
        }[similarity.name]
    return scores


def ranked(images, captions, owner, similarity, device=None):
    return retrieval_ranks(embedded(images, captions, owner, similarity), device)


def ranked_scores(scores, owner):
    """Ranks by a matrix of scores: its rows are the images, and unit vectors are the captions."""
    return ranked(scores, np.eye(scores.shape[1]), np.array(owner), DOT)


def owners(rng, n_images, n_captions):
    """Every image has a caption, in no order."""
    more = rng.integers(0, n_images, n_captions - n_images)
    return rng.permutation(np.concatenate([np.arange(n_images), more]))


@pytest.mark.parametrize(
    ("scores", "owner", "i2t", "t2i"),
    [
        # Row 1: captions 0 (.8) and 2 (.3) lie above its own .2. Column 1: images 2 (.7) above .2, image 0 below.
        ([[0.9, 0.1, 0.5], [0.8, 0.2, 0.3], [0.1, 0.7, 0.6]], [0, 1, 2], [0, 2, 1], [0, 1, 0]),
        # Image 0: of image 1's captions .95 is above all of its own, .5 above .4 and .3. Siblings are not wrong.
        (
            [[0.5, 0.9, 0.4, 0.95, 0.3], [0.6, 0.7, 0.8, 0.1, 0.65]], [1, 0, 0, 1, 0],
            [1, 2, 2, 3, 3], [0, 0, 1, 1, 1],
        ),
        # A tie counts half, a tie between own captions nothing.
        (
            [[0.5, 0.5, 0.5, 0.7], [0.5, 0.1, 0.4, 0.4], [0.2, 0.5, 0.4, 0.9]], [0, 0, 1, 2],
            [1.5, 1.5, 1.5, 0], [0.5, 0.5, 1.5, 0],
        ),
    ],
    ids=["one caption each", "several in no order", "ties"],
)  # fmt: skip
def test_ranks_by_hand(scores, owner, i2t, t2i):
    ranks = ranked_scores(np.array(scores), owner)
    assert (ranks["i2t"].ranks.tolist(), ranks["t2i"].ranks.tolist()) == (i2t, t2i)


def some_truth(rng, n_images, n_captions):
    """Some images and captions ask; each has one to all of the other side as positives."""
    sides = []
    for queries, gallery in ((n_images, n_captions), (n_captions, n_images)):
        asking = np.flatnonzero(rng.random(queries) < 0.7)
        asking = asking if len(asking) else np.array([0])
        pairs = [
            (query, item)
            for query in asking
            for item in rng.choice(gallery, rng.integers(1, gallery + 1), replace=False)
        ]
        sides.append(Positives.from_pairs(*np.array(rng.permutation(pairs)).T))
    return truth_of(*sides)


@st.composite
def small_problems(draw):
    """Integers times a power of two: every product and sum is exact, and ties are frequent."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_images, more = draw(st.integers(1, 8)), draw(st.integers(0, 12))
    width, largest = draw(st.integers(1, 9)), draw(st.integers(0, 3))
    scale = np.float32(2.0 ** draw(st.integers(-40, 30)))
    images, captions = (
        scale * rng.integers(-largest, largest + 1, (rows, width)).astype(np.float32)
        for rows in (n_images, n_images + more)
    )
    own = draw(st.booleans())
    truth = (
        own_captions(owners(rng, n_images, len(captions)))
        if own
        else some_truth(rng, n_images, len(captions))
    )
    return images, captions, truth


@settings(max_examples=150, deadline=None)
@given(small_problems(), st.sampled_from(list(SIMILARITIES.values())), st.sampled_from([1, 7, 100, 1 << 20]))
def test_ranks_equal_the_double_loop_whatever_holds_the_scores(problem, similarity, elements):
    images, captions, truth = problem
    scores = score_matrix(images, captions, similarity)
    with block_sizes((min(elements, 1024), elements), elements):
        forms = [EmbeddingScores(images, captions, similarity, device) for device in DEVICES]
        forms += [ScoreMatrix(scores), lists_of(scores, *reversed(scores.shape))]
        for form in forms:
            assert_ranks(rank_positives(form, truth), scores, truth)


@settings(max_examples=100, deadline=None)
@given(small_problems(), st.data())
def test_what_a_list_leaves_out_is_tied_below_it(problem, data):
    images, captions, truth = problem
    scores = score_matrix(images, captions, DOT)
    lists = lists_of(scores, *(data.draw(st.integers(1, size)) for size in reversed(scores.shape)))
    ranks = rank_positives(lists, truth)
    for task, table in (("i2t", scores), ("t2i", scores.T)):
        below = np.full(table.shape, -np.inf)
        np.put_along_axis(below, *lists.lists[task], axis=1)
        alone = rank_positives(ScoreMatrix(below if task == "i2t" else below.T), truth)[task]
        np.testing.assert_array_equal(ranks[task].ranks, alone.ranks)


# Inner products that are all but equal, held to integer arithmetic, which rounds nothing.


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
    rows = [[int(Fraction(number) * 2**400) for number in row] for row in on_grid(vectors).tolist()]
    return np.array(rows, dtype=object)


@settings(max_examples=60, deadline=None)
@given(hard_problems(), st.sampled_from([(1, 1), (4, 3), (1024, 512)]))
def test_ranks_are_those_of_integer_arithmetic_in_blocks_of_any_size_and_on_a_device(problem, tile):
    images, captions, owner = problem
    scores = integers(images) @ integers(captions).T
    with block_sizes(tile, tile[0] * tile[1]):
        for device in DEVICES:
            assert_ranks(ranked(*problem, DOT, device), scores, own_captions(owner))


@settings(max_examples=100, deadline=None)
@given(hard_problems())
def test_the_grid_moves_an_element_by_less_than_a_float32_sum_is_off(problem):
    for vectors in problem[:2]:
        norms = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
        assert (abs(on_grid(vectors) - vectors) <= norms * 2.0**-26).all()


# Equal vectors have equal scores, whatever a kernel's order of adding up.


@EVERYWHERE
@EVERY
def test_repeated_random_vectors_tie_exactly_across_tiles(similarity, device):
    """Eight distinct vectors scattered over several tiles and blocks: a rank is then a sum of whole groups."""
    # Ten blocks or so of either problem; what is no inner product is slow, and has no tiles of BLAS.
    large = similarity is DOT
    rng = np.random.default_rng(5)
    n_images, n_captions, width = (1111, 2222, 77) if large else (222, 444, 77)
    kinds = rng.standard_normal((8, width)).astype(np.float32)
    kind_of_image, kind_of_caption = rng.integers(0, 8, n_images), rng.integers(0, 8, n_captions)
    owner = rng.permutation(np.arange(n_captions) % n_images)
    with block_sizes((300, 260), 200_011 if large else 10_011):
        ranks = ranked(kinds[kind_of_image], kinds[kind_of_caption], owner, similarity, device)
    table = score_matrix(kinds, kinds, similarity)
    assert len(np.unique(table.round(4))) > 28, "the vectors must differ"
    expected = ranked(table[kind_of_image], np.eye(8)[kind_of_caption], owner, DOT)
    for task in ("i2t", "t2i"):
        np.testing.assert_array_equal(ranks[task].ranks, expected[task].ranks)


@pytest.mark.parametrize(("kernel", "threads"), [("Haswell", "1"), ("Haswell", "2"), ("Nehalem", "2")])
def test_ties_are_exact_with_every_blas_kernel(kernel, threads):
    """The float32 kernels of AVX2 processors sum an element by its place in the matrix; it must not show. Nor is torch needed."""
    script = (
        "import sys; sys.modules['torch'] = None; import numpy as np; from vsepp.evaluation.ranks import retrieval_ranks; "
        "from vsepp.evaluation.embedding_scores import EmbeddingScores; from vsepp.evaluation.test_set import TestSet; from vsepp.base.spec import Component; "
        "rng = np.random.default_rng(0); f, g = rng.standard_normal((2, 333)).astype('f4'); "
        "sides, owner = (np.tile(f, (700, 1)), np.tile(g, (2100, 1))), rng.permutation(np.arange(2100) % 700); "
        "found = [retrieval_ranks(TestSet(EmbeddingScores(*sides, Component(name)), owner)) for name in ('dot', 'order')]; "
        "print(*({rank for ranks in found for rank in ranks[task].ranks.tolist()} for task in ('t2i', 'i2t')))"
    )
    environment = {**os.environ, "OPENBLAS_CORETYPE": kernel, "OPENBLAS_NUM_THREADS": threads}
    assert python(script, env=environment) == "{349.5} {1048.5}\n"


@EVERYWHERE
@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_similarity_that_is_no_number_is_refused(device, tmp_path, monkeypatch):
    source = "def score(images, captions, options=None):\n    return (images * captions).sum(-1) / images.sum(-1)\n"
    install(monkeypatch, tmp_path, "vsepp.models.similarity", "ratio", source)
    vectors = np.float32([[1, 1], [0, 0]])
    with pytest.raises(VseppError, match="NaN"):
        ranked(vectors, vectors, np.arange(2), Component("ratio"), device)


@pytest.mark.gpu
@EVERY
@pytest.mark.parametrize("width", [33, 333, 512])
def test_ranks_on_a_gpu(similarity, width, cuda):
    """Few vectors, many times over: their scores differ by more than what the devices' sums do, or not at all."""
    rng = np.random.default_rng(9)
    kinds = rng.standard_normal((12, width)).astype(np.float32)
    images, captions = kinds[rng.integers(0, 12, 700)], kinds[rng.integers(0, 12, 3500)]
    problem = images, captions, owners(rng, 700, 3500), similarity
    on_device, here = ranked(*problem, cuda), ranked(*problem)
    for task in ("i2t", "t2i"):
        np.testing.assert_array_equal(on_device[task].ranks, here[task].ranks)
