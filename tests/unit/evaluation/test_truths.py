"""Ranks and metrics of truths with several positives, from embeddings, a matrix of scores and k-best lists."""

import math

import numpy as np
import pytest
import torch
from embedded_sets import embedded, under
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_ranks import assert_ranks, best

from vsepp.base.errors import VseppError
from vsepp.base.spec import Component
from vsepp.evaluation.best import BestLists
from vsepp.evaluation.embedding_scores import EmbeddingScores
from vsepp.evaluation.evaluate import save
from vsepp.evaluation.metrics import METRICS, per_image
from vsepp.evaluation.ranks import TaskRanks, kept_ranks, rank, retrieval_ranks
from vsepp.evaluation.scores import ScoreMatrix, counts_above
from vsepp.evaluation.truth import Positives, Truth, own_captions
from vsepp.models.similarity import Similarity


def truth_of(i2t, t2i, **ids):
    """A truth of images whose own captions are not known: each caption's image is its row."""
    every = 1 + max(*t2i.queries, *i2t.items)
    return Truth("some", {"i2t": i2t, "t2i": t2i}, caption_to_image=np.arange(every), **ids)


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
def problems(draw):
    """Small integers, so that all scores are exact and many are tied."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = draw(st.integers(1, 7)), draw(st.integers(1, 12))
    largest, width = draw(st.integers(0, 3)), draw(st.integers(1, 5))
    sides = (rng.integers(-largest, largest + 1, (n, width)).astype(np.float32) for n in sizes)
    return *sides, some_truth(rng, *sizes)


def lists_of(scores, of_images, of_captions):
    """The best captions of each image, and the best images of each caption."""
    return BestLists(best(scores, of_images), best(scores.T, of_captions))


@settings(max_examples=100, deadline=None)
@given(problems(), st.sampled_from(["dot", "order"]), st.sampled_from([None, torch.device("cpu")]))
def test_ranks_of_all_positives_equal_the_double_loop(problem, similarity, device):
    images, captions, truth = problem
    scores = np.asarray(
        Similarity(Component(similarity)).matrix(images.astype(np.float64), captions.astype(np.float64))
    )
    # Not every image need have a caption of its own: the truth says what is correct.
    assert_ranks(rank(EmbeddingScores(images, captions, Component(similarity), device), truth), scores, truth)
    assert_ranks(rank(ScoreMatrix(scores), truth), scores, truth)
    assert_ranks(rank(lists_of(scores, *reversed(scores.shape)), truth), scores, truth)


@settings(max_examples=100, deadline=None)
@given(problems(), st.data())
def test_what_a_list_leaves_out_is_tied_below_it(problem, data):
    images, captions, truth = problem
    scores = images.astype(np.float64) @ captions.T.astype(np.float64)
    of_images, of_captions = (data.draw(st.integers(1, size)) for size in reversed(scores.shape))
    lists = lists_of(scores, of_images, of_captions)
    ranks = rank(lists, truth)
    for task, table in (("i2t", scores), ("t2i", scores.T)):
        below = np.full(table.shape, -np.inf)
        np.put_along_axis(below, *lists.lists[task], axis=1)
        alone = rank(ScoreMatrix(below if task == "i2t" else below.T), truth)[task]
        np.testing.assert_array_equal(ranks[task].ranks, alone.ranks)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([np.float64, np.float32]))
def test_sorted_and_compared_counts_are_the_same(seed, dtype):
    """One positive each is compared with its row, several are searched in the sorted row; infinite scores are scores."""
    rng = np.random.default_rng(seed)
    n, m = rng.integers(1, 9, 2)
    scores = rng.choice(np.array([-np.inf, -1, 0, 1, 2, np.inf], dtype), (n, m))
    queries, items = np.argwhere(
        rng.random((n, m + 2)) < rng.random()
    ).T  # the last two columns are items elsewhere
    right = rng.choice(scores.ravel(), len(queries))
    before = scores.copy()
    expected = []
    for query, value in zip(queries, right, strict=True):
        wrong = np.delete(scores[query], [item for item in items[queries == query] if item < m])
        expected.append([(wrong > value).sum(), (wrong >= value).sum()])
    together = counts_above(scores, queries, items, right)
    alone = counts_above(torch.from_numpy(scores), queries, items, right)
    np.testing.assert_array_equal(together, np.reshape(expected, (-1, 2)).T)
    np.testing.assert_array_equal(alone, together)
    np.testing.assert_array_equal(scores, before)


@pytest.mark.parametrize("similarity", ["dot", "order"])
def test_on_more_than_a_tile_ranks_of_many_positives_equal_a_matrix(similarity):
    rng = np.random.default_rng(3)
    images, captions = (rng.standard_normal((n, 24)).astype(np.float32) for n in (1100, 2300))
    images[5:50] = images[4]
    captions[7:90] = captions[6]
    pairs = np.unique(rng.integers(0, (1100, 2300), (9000, 2)), axis=0)
    truth = truth_of(Positives.from_pairs(*pairs[:6000].T), Positives.from_pairs(*pairs[3000:, ::-1].T))
    scores = EmbeddingScores(images, captions, Component(similarity))
    grid = np.meshgrid(np.arange(1100), np.arange(2300), indexing="ij")
    every = scores.pair_scores(grid[0].ravel(), grid[1].ravel(), "i2t").reshape(1100, 2300)
    ranks, expected = rank(scores, truth), rank(ScoreMatrix(every), truth)
    for task in ("i2t", "t2i"):
        np.testing.assert_array_equal(ranks[task].ranks, expected[task].ranks)
    few = truth_of(Positives.from_pairs(*pairs[:40].T), Positives.from_pairs(*pairs[:40, ::-1].T))
    assert_ranks(rank(scores, few), every, few)


def test_more_positives_of_a_query_than_a_block_has_images_are_counted_in_parts():
    rng = np.random.default_rng(5)
    images, captions = (rng.integers(-2, 3, (n, 4)).astype(np.float32) for n in (90, 300))
    pairs = np.argwhere(rng.random((90, 300)) < 0.5)
    truth = truth_of(Positives.from_pairs(*pairs.T), Positives.from_pairs(*pairs[:, ::-1].T))
    scores = images.astype(np.float64) @ captions.T
    expected = rank(ScoreMatrix(scores), truth)
    on_device = EmbeddingScores(images, captions, device=torch.device("cpu"))
    for form in (EmbeddingScores(images, captions), on_device, lists_of(scores, 300, 90)):
        for task, ranks in rank(form, truth).items():
            np.testing.assert_array_equal(ranks.ranks, expected[task].ranks)


# Metrics.


def test_metrics_equal_loops_over_ranked_lists():
    """Random scores without ties; positives of each query, items in the order of their scores."""
    rng, n_queries, gallery = np.random.default_rng(0), 60, 40
    scores = rng.permutation(n_queries * gallery).reshape(n_queries, gallery).astype(np.float64)
    own = [set(rng.choice(gallery, rng.integers(1, 9), replace=False).tolist()) for _ in range(n_queries)]
    pairs = np.array([(query, item) for query, items in enumerate(own) for item in items])
    some = Positives.from_pairs(pairs[:1, 1], pairs[:1, 0])
    ranks = rank(ScoreMatrix(scores), truth_of(Positives.from_pairs(*pairs.T), some))["i2t"]
    hits = [[item in items for item in np.argsort(-row)] for row, items in zip(scores, own, strict=True)]
    expected = {
        # Wrong items above the first hit: all before it.
        **{f"r{k}": [row.index(True) < k for row in hits] for k in (1, 5, 10)},
        "mrr": [1 / (row.index(True) + 1) for row in hits],
        "rprecision": [sum(row[: sum(row)]) / sum(row) for row in hits],
        "mapr": [
            sum(row[k] * sum(row[: k + 1]) / (k + 1) for k in range(sum(row))) / sum(row) for row in hits
        ],
        "ndcg10": [
            sum(hit / math.log2(k + 2) for k, hit in enumerate(row[:10]))
            / sum(1 / math.log2(k + 2) for k in range(min(10, sum(row))))
            for row in hits
        ],
    }
    for key, values in expected.items():
        np.testing.assert_allclose(METRICS[key].values(ranks), values, err_msg=key)
        assert METRICS[key](ranks) == pytest.approx(100 * np.mean(values))
    assert METRICS["medr"](ranks) == math.floor(np.median(ranks.best)) + 1
    assert METRICS["meanr"](ranks) == pytest.approx(ranks.best.mean() + 1)


def test_a_tie_counts_half_in_every_place():
    # One query, positives a and b; items by score: a, [b, wrong], wrong.
    scores = np.array([[4.0, 3.0, 3.0, 1.0]])
    truth = truth_of(Positives.from_pairs(np.array([0, 0]), np.array([0, 1])), Positives.from_pairs([0], [0]))
    ranks = rank(ScoreMatrix(scores), truth)["i2t"]
    np.testing.assert_array_equal(ranks.ranks, [0, 0.5])
    np.testing.assert_array_equal(ranks.places, [0, 1.5])
    # b lies at place 1.5 from 0, below R = 2: it counts, with a precision of 2 of 2.5.
    assert METRICS["rprecision"](ranks) == 100
    assert METRICS["mapr"](ranks) == pytest.approx(100 * (1 + 2 / 2.5) / 2)
    assert METRICS["ndcg10"](ranks) == pytest.approx(100 * (1 + 1 / math.log2(3.5)) / (1 + 1 / math.log2(3)))
    single = TaskRanks(np.arange(4), np.array([0.0, 3.0, 0.5]), np.arange(3), 3)
    assert METRICS["mapr"](single) == pytest.approx(100 * (1 + 1 / 1.5) / 3)


def test_what_was_kept_serves_every_metric_and_what_was_not_is_named(tmp_path):
    rng = np.random.default_rng(1)
    owner = np.repeat(np.arange(30), 5)
    images, captions = rng.standard_normal((30, 6)), rng.standard_normal((150, 6))
    save([under(embedded(images, captions, owner), "5x1K", 6)], tmp_path)
    arrays = dict(np.load(tmp_path / "ranks.npz"))
    folds = [
        embedded(images[at : at + 6], captions[5 * at : 5 * at + 30], owner[:30]) for at in range(0, 30, 6)
    ]
    expected = np.mean([METRICS["mapr"](retrieval_ranks(fold)["i2t"]) for fold in folds])
    kept = kept_ranks(arrays, "5x1K", 6)
    assert per_image(kept, "i2t_mapr").mean() == METRICS["mapr"](kept["i2t"]) == pytest.approx(expected)
    del arrays["5x1K_i2t_captions"]
    old = kept_ranks(arrays, "5x1K", 6)
    with pytest.raises(VseppError, match="mAP@R"):
        per_image(old, "i2t_mapr")
    assert per_image(old, "i2t_r1").shape == per_image(old, "t2i_mapr").shape == (30,)


# Truths, and what is refused.


def test_a_truth_is_named_by_its_ids_whatever_the_order_of_the_rows():
    def digest(owner, images=None, captions=None):
        return Truth("x", own_captions(np.array(owner)).tasks, images, captions).digest

    assert digest([1, 0, 1]) == digest([1, 0, 1], [0, 1], [0, 1, 2])
    by_name = digest([1, 0, 1], ["a", "b"], ["c", "d", "e"])
    assert by_name == digest([1, 0, 0], ["b", "a"], ["d", "c", "e"]) != digest([1, 0, 1])


def rank_matrix(scores, owner):
    return rank(ScoreMatrix(np.array(scores)), own_captions(np.array(owner)))


def lists(items=((0, 1),), scores=((2.0, 1.0),)):
    """One image among three captions."""
    return BestLists((np.array(items), np.array(scores)), (np.zeros((3, 1), int), np.ones((3, 1))))


@pytest.mark.parametrize(
    ("make", "arguments", "named"),
    [
        (Positives.from_pairs, ([0, 1, 0], [2, 2, 2]), "query 0 and item 2"),
        (Positives.from_pairs, ([0, 1], [1]), r"int64 \(2,\) and int64 \(1,\)"),
        (rank_matrix, (np.zeros((2, 3)), [0, 1, 2]), "i2t: image row 2"),
        (rank_matrix, ([[0, 1.0], [np.nan, 0]], [0, 1]), "image row 1 holds NaN"),
        (ScoreMatrix, (np.zeros(3),), r"\(3,\)"),
        (lists, ([[0, 3]],), "i2t: the list of query 0"),
        (lists, ([[0, 1]], [[1, np.inf]]), "finite"),
    ],
)
def test_what_cannot_be_ranked_is_named(make, arguments, named):
    with pytest.raises(VseppError, match=named):
        make(*arguments)
