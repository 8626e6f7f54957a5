import itertools
import os

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from installed import MANHATTAN as INSTALLED
from installed import install
from processes import python
from test_sets import embedded

from vsepp.base.errors import VseppError
from vsepp.base.spec import Component
from vsepp.evaluation import scores as blocks
from vsepp.evaluation.ranks import kept_ranks, retrieval_metrics, retrieval_ranks

DOT, ORDER, ROOT = Component("dot"), Component("order"), Component("order", {"form": "root"})
MANHATTAN = Component("manhattan", {"power": 1.0})
SIMILARITIES = [DOT, ORDER, ROOT, MANHATTAN]
EVERY = pytest.mark.parametrize("similarity", SIMILARITIES, ids=["dot", "order", "root", "theirs"])
DEVICES = [None, torch.device("cpu")]
EVERYWHERE = pytest.mark.parametrize("device", DEVICES, ids=["numpy", "torch"])


@pytest.fixture(scope="module", autouse=True)
def theirs(tmp_path_factory):
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


def naive_ranks(scores, owner):
    """The definition, word by word: wrong items above, plus half of the wrong ones tied."""
    i2t, t2i, of_captions = [], [], np.empty(len(owner))
    for i in range(scores.shape[0]):
        for c in np.flatnonzero(owner == i):
            wrong = [scores[i, other] for other in range(scores.shape[1]) if owner[other] != i]
            above = sum(score > scores[i, c] for score in wrong)
            of_captions[c] = above + sum(score == scores[i, c] for score in wrong) / 2
        i2t.append(min(of_captions[owner == i]))
    for c in range(scores.shape[1]):
        right = scores[owner[c], c]
        wrong = [scores[i, c] for i in range(scores.shape[0]) if i != owner[c]]
        t2i.append(sum(s > right for s in wrong) + sum(s == right for s in wrong) / 2)
    return ranks_of(i2t, t2i, of_captions, owner)


def ranks_of(i2t, t2i, of_captions, owner):
    """Ranks of own captions; what an image's captions have, caption by caption."""
    arrays = {"i2t": i2t, "t2i": t2i, "i2t_captions": of_captions, "caption_images": owner}
    found = kept_ranks({f"5K_{part}": np.array(values) for part, values in arrays.items()}, "5K")
    assert found["i2t"].best.tolist() == list(i2t)
    return found


def assert_same(found, expected):
    for direction in ("i2t", "t2i"):
        one, other = found[direction], expected[direction]
        for name in ("starts", "ranks", "images"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        assert one.whole and one.ranks.dtype == np.float64 and one.fold == other.fold


def ranked(images, captions, owner, similarity, device=None):
    return retrieval_ranks(embedded(images, captions, owner, similarity), device)


def ranked_scores(scores, owner):
    """Ranks by a matrix of scores: its rows are the images, and unit vectors are the captions."""
    return ranked(scores, np.eye(scores.shape[1]), np.array(owner), DOT)


def owners(rng, n_images, n_captions):
    """Every image has a caption, in no order."""
    more = rng.integers(0, n_images, n_captions - n_images)
    return rng.permutation(np.concatenate([np.arange(n_images), more]))


def test_by_hand():
    scores = np.array([[0.9, 0.1, 0.5], [0.8, 0.2, 0.3], [0.1, 0.7, 0.6]])
    ranks = ranked_scores(scores, [0, 1, 2])
    # Row 1: captions 0 (.8) and 2 (.3) lie above its own .2. Column 1: images 2 (.7) above .2, image 0 below.
    assert_same(ranks, ranks_of([0.0, 2, 1], [0.0, 1, 0], [0.0, 2, 1], [0, 1, 2]))


def test_best_of_several_shuffled_captions_counts_and_siblings_are_not_wrong():
    scores = np.array([[0.5, 0.9, 0.4, 0.95, 0.3], [0.6, 0.7, 0.8, 0.1, 0.65]])
    ranks = ranked_scores(scores, [1, 0, 0, 1, 0])
    # Image 0: best own caption 1 (.9); of image 1's captions only .95 is above it.
    # Image 1: best own caption 0 (.6); captions .7, .8 and .65 of image 0 are above it.
    # Captions in the given order: .6 > .5; .9 > .7; .4 < .8; .1 < .95; .3 < .65.
    expected = ranks_of([1.0, 3], [0.0, 0, 1, 1, 1], [3.0, 1, 2, 3, 2], [1, 0, 0, 1, 0])
    assert_same(ranks, expected)


def test_a_tie_counts_half_and_a_tie_between_own_captions_counts_nothing():
    scores = np.array([[0.5, 0.5, 0.5, 0.7], [0.5, 0.1, 0.4, 0.4], [0.2, 0.5, 0.4, 0.9]])
    ranks = ranked_scores(scores, [0, 0, 1, 2])
    expected = ranks_of([1.5, 1.5, 0], [0.5, 0.5, 1.5, 0], [1.5, 1.5, 1.5, 0], [0, 0, 1, 2])
    assert_same(ranks, expected)


@st.composite
def small_problems(draw):
    """Integers times a power of two: every product and sum is exact, and ties are frequent."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_images, more = draw(st.integers(1, 8)), draw(st.integers(0, 12))
    width, largest = draw(st.integers(1, 9)), draw(st.integers(0, 3))
    sides = [
        rng.integers(-largest, largest + 1, (rows, width)).astype(np.float32)
        for rows in (n_images, n_images + more)
    ]
    scale = np.float32(2.0 ** draw(st.integers(-40, 30)))
    return sides[0] * scale, sides[1] * scale, owners(rng, n_images, n_images + more)


@settings(max_examples=300, deadline=None)
@given(small_problems(), st.sampled_from(SIMILARITIES), st.sampled_from([1, 7, 100, 1 << 20]))
def test_ranks_equal_the_double_loop_wherever_they_are_counted(problem, similarity, elements):
    images, captions, owner = problem
    scores = score_matrix(images, captions, similarity)
    expected = naive_ranks(scores, owner)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "_TILE", (min(elements, 1024), elements))
        patch.setattr(blocks, "_ON_CPU", elements)
        patch.setattr(blocks, "_ON_DEVICE", elements)
        for device in DEVICES:
            assert_same(ranked(images, captions, owner, similarity, device), expected)


@EVERYWHERE
@EVERY
@pytest.mark.parametrize(("n_images", "width"), [(7, 3), (333, 100), (300, 257)])
def test_collapsed_model_ranks_at_chance(n_images, width, similarity, device):
    """One vector for everything, with values whose products are inexact: all items tie, bit for bit."""
    rng = np.random.default_rng(n_images)
    owner = rng.permutation(np.repeat(np.arange(n_images), 3))
    vector, other = rng.standard_normal((2, width)).astype(np.float32)
    images, captions = np.tile(vector, (n_images, 1)), np.tile(vector + other, (3 * n_images, 1))
    ranks = ranked(images, captions, owner, similarity, device)
    assert set(ranks["t2i"].ranks) == {(n_images - 1) / 2}
    assert set(ranks["i2t"].ranks) == {(3 * n_images - 3) / 2}
    if n_images > 20:
        assert retrieval_metrics(ranks).i2t.r10 == 0


@EVERYWHERE
@EVERY
def test_repeated_random_vectors_tie_exactly_across_tiles(similarity, device, monkeypatch):
    """Eight distinct vectors scattered over several tiles and blocks: a rank is then a sum of whole groups."""
    # Ten blocks or so of either problem; what is no inner product is slow, and has no tiles of BLAS.
    large = similarity is DOT
    monkeypatch.setattr(blocks, "_TILE", (300, 260))
    monkeypatch.setattr(blocks, "_ON_CPU", 4_011)
    monkeypatch.setattr(blocks, "_ON_DEVICE", 200_011 if large else 10_011)
    rng = np.random.default_rng(5)
    n_images, n_captions, width = (1111, 2222, 77) if large else (222, 444, 77)
    kinds = rng.standard_normal((8, width)).astype(np.float32)
    kind_of_image, kind_of_caption = rng.integers(0, 8, n_images), rng.integers(0, 8, n_captions)
    owner = rng.permutation(np.arange(n_captions) % n_images)
    ranks = ranked(kinds[kind_of_image], kinds[kind_of_caption], owner, similarity, device)
    table = score_matrix(kinds, kinds, similarity)
    assert len(np.unique(table.round(4))) > 28, "the vectors must differ"
    assert_same(ranks, ranked(table[kind_of_image], np.eye(8)[kind_of_caption], owner, DOT))


@pytest.mark.parametrize(("kernel", "threads"), [("Haswell", "1"), ("Haswell", "2"), ("Nehalem", "2")])
def test_ties_are_exact_with_every_blas_kernel(kernel, threads):
    """The float32 kernels of AVX2 processors sum an element by its place in the matrix; it must not show. Nor is torch needed."""
    script = (
        "import sys; sys.modules['torch'] = None; import numpy as np; from vsepp.evaluation.ranks import retrieval_ranks; "
        "from vsepp.evaluation.scores import EmbeddingScores; from vsepp.evaluation.test_set import TestSet; from vsepp.base.spec import Component; "
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
    images, captions = np.float32([[1, 1], [0, 0]]), np.float32([[1, 1], [0, 0]])
    with pytest.raises(VseppError, match="similarity of some image and caption is NaN"):
        ranked(images, captions, np.arange(2), Component("ratio"), device)


@pytest.mark.filterwarnings("error")
@EVERY
def test_float64_and_strided_embeddings_are_taken_without_a_warning(similarity):
    wide = np.random.default_rng(2).standard_normal((40, 24))
    images, captions, owner = wide[:, ::2], 1e-30 * wide[:, 1::2], np.arange(40)
    expected = ranked(images.astype(np.float32), captions.astype(np.float32), owner, similarity)
    assert_same(ranked(images, captions, owner, similarity), expected)


@pytest.mark.gpu
@EVERY
@pytest.mark.parametrize("width", [33, 333, 512])
def test_ranks_on_a_gpu(similarity, width, cuda):
    """Few vectors, many times over: their scores differ by more than what the devices' sums do, or not at all."""
    rng = np.random.default_rng(9)
    kinds = rng.standard_normal((12, width)).astype(np.float32)
    images, captions = kinds[rng.integers(0, 12, 700)], kinds[rng.integers(0, 12, 3500)]
    problem = images, captions, owners(rng, 700, 3500), similarity
    assert_same(ranked(*problem, cuda), ranked(*problem))
