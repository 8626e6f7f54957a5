"""Ranks and metrics of truths with several positives, from embeddings, a matrix of scores and k-best lists."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_sets import embedded, under

from vsepp.base.errors import VseppError
from vsepp.base.spec import Component
from vsepp.evaluation.evaluate import save
from vsepp.evaluation.metrics import METRICS, per_image
from vsepp.evaluation.ranks import TaskRanks, kept_ranks, rank, rank_each, retrieval_ranks
from vsepp.evaluation.scores import BestLists, EmbeddingScores, ScoreMatrix, counts_above
from vsepp.evaluation.truth import Positives, Truth, own_captions
from vsepp.models.similarity import scorer


def naive(scores, truth):
    """Word by word: of each positive of each query the wrong items above, and half of the wrong ones tied."""
    found = []
    for table, positives in ((scores, truth.tasks["i2t"]), (scores.T, truth.tasks["t2i"])):
        ranks = []
        for place, query in enumerate(positives.queries):
            own = set(positives.items[positives.starts[place] : positives.starts[place + 1]].tolist())
            wrong = [table[query, item] for item in range(table.shape[1]) if item not in own]
            for item in sorted(own):
                right = table[query, item]
                ranks.append(sum(one > right for one in wrong) + sum(one == right for one in wrong) / 2)
        found.append(np.array(ranks))
    return found


def assert_ranks(found, expected):
    for direction, ranks in zip(("i2t", "t2i"), expected, strict=True):
        np.testing.assert_array_equal(found[direction].ranks, ranks)


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
        sides.append(Positives.of_pairs(*np.array(rng.permutation(pairs)).T))
    return truth_of(*sides)


@st.composite
def problems(draw):
    """Small integers, so that all scores are exact and many are tied."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = draw(st.integers(1, 7)), draw(st.integers(1, 12))
    largest, width = draw(st.integers(0, 3)), draw(st.integers(1, 5))
    sides = (rng.integers(-largest, largest + 1, (n, width)).astype(np.float32) for n in sizes)
    return *sides, some_truth(rng, *sizes)


@settings(max_examples=200, deadline=None)
@given(problems(), st.sampled_from(["dot", "order"]), st.sampled_from([None, torch.device("cpu")]))
def test_ranks_of_all_positives_equal_the_double_loop(problem, similarity, device):
    images, captions, truth = problem
    scores = np.asarray(scorer(Component(similarity))(images.astype(np.float64), captions.astype(np.float64)))
    expected = naive(scores, truth)
    # Not every image need have a caption of its own: the truth says what is correct.
    found = EmbeddingScores(images, captions, Component(similarity), device)
    assert_ranks(rank(found, truth), expected)
    assert_ranks(rank(ScoreMatrix(scores), truth), expected)
    lists = BestLists(best(scores, scores.shape[1]), best(scores.T, scores.shape[0]))
    assert_ranks(rank(lists, truth), expected)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([np.float64, np.float32]))
def test_sorted_and_compared_counts_are_the_same(seed, dtype):
    """One positive each is compared with its row, several are searched in the sorted row; infinite scores are scores."""
    rng = np.random.default_rng(seed)
    n, m = rng.integers(1, 9, 2)
    scores = rng.choice(np.array([-np.inf, -1, 0, 1, 2, np.inf], dtype), (n, m))
    pairs = np.argwhere(rng.random((n, m + 2)) < rng.random())
    queries, items = pairs.T  # the last two columns are of items elsewhere
    right = rng.choice(scores.ravel(), len(pairs))
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


def best(scores, k):
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(scores, order, axis=1)


@settings(max_examples=100, deadline=None)
@given(problems(), st.data())
def test_what_a_list_leaves_out_is_tied_below_it(problem, data):
    images, captions, truth = problem
    scores = images.astype(np.float64) @ captions.T.astype(np.float64)
    k = data.draw(st.integers(1, scores.shape[1])), data.draw(st.integers(1, scores.shape[0]))
    lists = BestLists(best(scores, k[0]), best(scores.T, k[1]))
    cut = [np.full(table.shape, -np.inf) for table in (scores, scores.T)]
    for table, (items, values) in zip(cut, lists.lists.values(), strict=True):
        np.put_along_axis(table, items, values, axis=1)
    expected = naive(cut[0], truth)[0], naive(cut[1].T, truth)[1]
    assert_ranks(rank(lists, truth), expected)


@pytest.mark.parametrize("similarity", ["dot", "order"])
def test_on_more_than_a_tile_ranks_of_many_positives_equal_a_matrix(similarity):
    rng = np.random.default_rng(3)
    images, captions = (rng.standard_normal((n, 24)).astype(np.float32) for n in (1100, 2300))
    images[5:50] = images[4]
    captions[7:90] = captions[6]
    pairs = np.unique(rng.integers(0, (1100, 2300), (9000, 2)), axis=0)
    truth = truth_of(Positives.of_pairs(*pairs[:6000].T), Positives.of_pairs(*pairs[3000:, ::-1].T))
    found = EmbeddingScores(images, captions, Component(similarity))
    grid = np.meshgrid(np.arange(1100), np.arange(2300), indexing="ij")
    every = found.of(grid[0].ravel(), grid[1].ravel(), "i2t").reshape(1100, 2300)
    expected = rank(ScoreMatrix(every), truth)
    assert_ranks(rank(found, truth), [expected[task].ranks for task in ("i2t", "t2i")])
    # Naively, of some queries.
    few = truth_of(Positives.of_pairs(*pairs[:40].T), Positives.of_pairs(*pairs[:40, ::-1].T))
    assert_ranks(rank(found, few), naive(every, few))


# Metrics.


def ranked_list(rng, n_queries, gallery):
    """Random scores without ties and positives of each query; items in the order of their scores."""
    scores = rng.permutation(n_queries * gallery).reshape(n_queries, gallery).astype(np.float64)
    own = [set(rng.choice(gallery, rng.integers(1, 9), replace=False).tolist()) for _ in range(n_queries)]
    pairs = np.array([(query, item) for query, items in enumerate(own) for item in items])
    some = Positives.of_pairs(pairs[:1, 1], pairs[:1, 0])
    found = rank(ScoreMatrix(scores), truth_of(Positives.of_pairs(*pairs.T), some))
    hits = [[item in items for item in np.argsort(-row)] for row, items in zip(scores, own, strict=True)]
    return found["i2t"], hits


def test_metrics_equal_loops_over_ranked_lists():
    ranks, hits = ranked_list(np.random.default_rng(0), 60, 40)
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
    truth = truth_of(Positives.of_pairs(np.array([0, 0]), np.array([0, 1])), Positives.of_pairs([0], [0]))
    ranks = rank(ScoreMatrix(scores), truth)["i2t"]
    np.testing.assert_array_equal(ranks.ranks, [0, 0.5])
    np.testing.assert_array_equal(ranks.places, [0, 1.5])
    # b lies at place 1.5 from 0, below R = 2: it counts, with a precision of 2 of 2.5.
    assert METRICS["rprecision"](ranks) == 100
    assert METRICS["mapr"](ranks) == pytest.approx(100 * (1 + 2 / 2.5) / 2)
    assert METRICS["ndcg10"](ranks) == pytest.approx(100 * (1 + 1 / math.log2(3.5)) / (1 + 1 / math.log2(3)))


def test_of_one_positive_a_query_the_metrics_of_all_are_those_of_the_best():
    ranks = TaskRanks(np.arange(4), np.array([0.0, 3.0, 0.5]), np.arange(3), 3)
    assert METRICS["mapr"](ranks) == pytest.approx(100 * (1 + 1 / 1.5) / 3)
    assert METRICS["rprecision"](ranks) == pytest.approx(200 / 3)


def test_what_was_not_kept_is_said_and_what_was_kept_serves_every_metric(tmp_path):
    rng = np.random.default_rng(1)
    owner = np.repeat(np.arange(30), 5)
    images, captions = rng.standard_normal((30, 6)), rng.standard_normal((150, 6))
    save([under(embedded(images, captions, owner), "5x1K", 6)], tmp_path)
    arrays = dict(np.load(tmp_path / "ranks.npz"))
    kept = kept_ranks(arrays, "5x1K", 6)
    folds = [
        embedded(images[at : at + 6], captions[5 * at : 5 * at + 30], owner[:30]) for at in range(0, 30, 6)
    ]
    per_fold = [METRICS["mapr"](retrieval_ranks(fold)["i2t"]) for fold in folds]
    assert per_image(kept, "i2t_mapr").mean() == pytest.approx(np.mean(per_fold))
    assert METRICS["mapr"](kept["i2t"]) == pytest.approx(np.mean(per_fold))
    del arrays["5x1K_i2t_captions"]
    old = kept_ranks(arrays, "5x1K", 6)
    with pytest.raises(VseppError, match="mAP@R"):
        per_image(old, "i2t_mapr")
    assert per_image(old, "i2t_r1").shape == per_image(old, "t2i_mapr").shape == (30,)


# Truths, and what is refused.


def test_a_truth_is_named_by_its_ids_whatever_the_order_of_the_rows():
    def named(owner, images=None, captions=None):
        return Truth("x", own_captions(np.array(owner)).tasks, images, captions).digest

    assert named([1, 0, 1]) == named([1, 0, 1], [0, 1], [0, 1, 2])
    by_name = named([1, 0, 1], ["a", "b"], ["c", "d", "e"])
    assert by_name == named([1, 0, 0], ["b", "a"], ["d", "c", "e"]) != named([1, 0, 1])
    assert by_name == named([1, 0, 1], np.array(["a", "b"]), np.array(["c", "d", "e"]))


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: Positives.of_pairs([0, 1, 0], [2, 2, 2]), "got query 0 and item 2 twice"),
        (lambda: Positives.of_pairs(np.empty(0, int), np.empty(0, int)), "each once, got none"),
        (lambda: Positives.of_pairs([0.7], [1]), r"integers \(n,\) both, got float64 \(1,\) and int64 \(1,\)"),
        (lambda: Positives.of_pairs([0, 1], [1]), r"got int64 \(2,\) and int64 \(1,\)"),
        (
            lambda: rank(ScoreMatrix(np.zeros((2, 3))), own_captions(np.array([0, 1, 2]))),
            r"truth 5K, i2t: image row 2 is not among the 2 that are ranked \(1 rows are not\)",
        ),
        (lambda: ScoreMatrix(np.zeros(3)), r"expected floating-point numbers \(images, captions\), got shape \(3,\)"),
        (lambda: ScoreMatrix(np.zeros((2, 3), int)), "of int64"),
        (
            lambda: rank(ScoreMatrix(np.array([[0, 1.0], [np.nan, 0]])), own_captions(np.array([0, 1]))),
            "image row 1 holds NaN",
        ),
        (lambda: lists(items=[[0, 3]]), "i2t: the list of query 0 has an item outside the 3 of the gallery"),
        (lambda: lists(items=[[1, 1]]), "i2t: the list of query 0 has an item"),
        (lambda: lists(scores=[[1, np.inf]]), r"a score that is not finite \(1 lists have\)"),
        (lambda: lists(items=[[0.0, 1.0]]), r"got float64 \(1, 2\)"),
        (lambda: lists(items=[[0, 1, 2, 0]], scores=[[1.0, 1, 1, 1]]), "with k from 1 to 3"),
    ],
)  # fmt: skip
def test_what_cannot_be_ranked_is_named(made, said):
    with pytest.raises(VseppError, match=said):
        made()


def lists(items=((0, 1),), scores=((2.0, 1.0),)):
    """One image among three captions."""
    return BestLists((np.array(items), np.array(scores)), (np.zeros((3, 1), int), np.ones((3, 1))))


@pytest.mark.parametrize(
    ("part", "values"),
    [
        ("t2i", np.zeros(9)),
        ("i2t_captions", np.zeros((5, 2))),
        ("caption_images", np.full(10, -1)),
        ("caption_images", np.zeros(10)),
    ],
)
def test_kept_ranks_that_do_not_fit_each_other_are_refused(part, values):
    arrays = {
        "i2t": np.zeros(2),
        "t2i": np.zeros(10),
        "i2t_captions": np.zeros(10),
        "caption_images": np.arange(10) // 5,
    }
    arrays = {f"5K_{name}": array for name, array in {**arrays, part: values}.items()}
    with pytest.raises(VseppError, match="ranks under 5K: t2i, i2t_captions and caption_images, rows from 0"):
        kept_ranks(arrays, "5K")


def test_many_positives_are_counted_in_parts():
    """More of a query than a block has images, and lists of all of the gallery."""
    rng = np.random.default_rng(5)
    images, captions = (rng.integers(-2, 3, (n, 4)).astype(np.float32) for n in (90, 300))
    pairs = np.argwhere(rng.random((90, 300)) < 0.5)
    truth = truth_of(Positives.of_pairs(*pairs.T), Positives.of_pairs(*pairs[:, ::-1].T))
    scores = images.astype(np.float64) @ captions.T
    expected = rank(ScoreMatrix(scores), truth)
    for found in (EmbeddingScores(images, captions, device=device) for device in (None, torch.device("cpu"))):
        assert_ranks(rank(found, truth), [expected[task].ranks for task in ("i2t", "t2i")])
    whole = BestLists(best(scores, 300), best(scores.T, 90))
    assert_ranks(rank(whole, truth), [expected[task].ranks for task in ("i2t", "t2i")])
    few = truth_of(Positives.of_pairs(*pairs[:300].T), Positives.of_pairs(*pairs[:300, ::-1].T))
    assert_ranks(rank(ScoreMatrix(scores), few), naive(scores, few))


@settings(max_examples=100, deadline=None)
@given(problems(), st.integers(0, 2**32 - 1))
def test_truths_that_are_ranked_in_one_pass_rank_as_each_alone(problem, seed):
    """A positive of one truth is a wrong item under another, above or tied."""
    images, captions, truth = problem
    others = [some_truth(np.random.default_rng(seed + k), len(images), len(captions)) for k in range(2)]
    scores = images.astype(np.float64) @ captions.T.astype(np.float64)
    lists = BestLists(best(scores, min(3, scores.shape[1])), best(scores.T, min(2, scores.shape[0])))
    for ranked in (EmbeddingScores(images, captions), ScoreMatrix(scores), lists):
        for one, found in zip([truth, *others], rank_each(ranked, [truth, *others]), strict=True):
            for task, alone in rank(ranked, one).items():
                np.testing.assert_array_equal(found[task].sum(axis=0) / 2, alone.ranks)
