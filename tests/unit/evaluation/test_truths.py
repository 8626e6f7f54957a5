"""Ranks and metrics of truths with several positives, from embeddings, a matrix of scores and k-best lists."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vsepp.base.errors import VseppError
from vsepp.base.spec import Component
from vsepp.evaluation import evaluate as protocols
from vsepp.evaluation.blocks import EmbeddingScores
from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.intervals import per_image
from vsepp.evaluation.metric_list import METRICS
from vsepp.evaluation.ranks import PositiveRanks, kept_ranks, rank_positives, retrieval_ranks
from vsepp.evaluation.scores import BestLists, ScoreMatrix, twice_above
from vsepp.evaluation.truth import Positives, Truth, own_captions
from vsepp.models.similarity import scorer


def naive(scores, truth):
    """Word by word: of each positive of each query the wrong items above, and half of the wrong ones tied."""
    found = []
    for table, positives in ((scores, truth.i2t), (scores.T, truth.t2i)):
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
        np.testing.assert_array_equal(found.of(direction).ranks, ranks)
        np.testing.assert_array_equal(getattr(found, direction), found.of(direction).best)


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
    return Truth("some", *sides)


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
    found = EmbeddingScores(embeddings_of(images, captions, similarity), device)
    assert_ranks(rank_positives(found, truth), expected)
    assert_ranks(rank_positives(ScoreMatrix(scores), truth), expected)
    lists = BestLists(best(scores, scores.shape[1]), best(scores.T, scores.shape[0]))
    assert_ranks(rank_positives(lists, truth), expected)


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
        expected.append((wrong > value).sum() + (wrong >= value).sum())
    together = twice_above(scores, queries, items, right)
    alone = twice_above(torch.from_numpy(scores), queries, items, right)
    np.testing.assert_array_equal(together, np.array(expected, np.int64))
    np.testing.assert_array_equal(alone, together)
    np.testing.assert_array_equal(scores, before)


def embeddings_of(images, captions, similarity):
    """Embeddings whose own captions play no part; each image has one, repeated rows where captions are fewer."""
    owner = np.arange(len(captions)) % len(images)
    made = Embeddings(images[: owner.max() + 1], captions, owner, Component(similarity))
    object.__setattr__(made, "image_embeddings", images)
    return made


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
    assert_ranks(rank_positives(lists, truth), expected)


@pytest.mark.parametrize("similarity", ["dot", "order"])
def test_on_more_than_a_tile_ranks_of_many_positives_equal_a_matrix(similarity):
    rng = np.random.default_rng(3)
    images, captions = (rng.standard_normal((n, 24)).astype(np.float32) for n in (1100, 2300))
    images[5:50] = images[4]
    captions[7:90] = captions[6]
    pairs = np.unique(rng.integers(0, (1100, 2300), (9000, 2)), axis=0)
    truth = Truth("some", Positives.of_pairs(*pairs[:6000].T), Positives.of_pairs(*pairs[3000:, ::-1].T))
    found = EmbeddingScores(embeddings_of(images, captions, similarity))
    grid = np.meshgrid(np.arange(1100), np.arange(2300), indexing="ij")
    every = found.of(grid[0].ravel(), grid[1].ravel(), "i2t").reshape(1100, 2300)
    expected = rank_positives(ScoreMatrix(every), truth)
    assert_ranks(rank_positives(found, truth), [expected.of("i2t").ranks, expected.of("t2i").ranks])
    # Naively, of some queries.
    few = Truth("few", Positives.of_pairs(*pairs[:40].T), Positives.of_pairs(*pairs[:40, ::-1].T))
    assert_ranks(rank_positives(found, few), naive(every, few))


# Metrics.


def ranked_list(rng, n_queries, gallery):
    """Random scores without ties and positives of each query; items in the order of their scores."""
    scores = rng.permutation(n_queries * gallery).reshape(n_queries, gallery).astype(np.float64)
    own = [set(rng.choice(gallery, rng.integers(1, 9), replace=False).tolist()) for _ in range(n_queries)]
    pairs = np.array([(query, item) for query, items in enumerate(own) for item in items])
    some = Positives.of_pairs(pairs[:1, 1], pairs[:1, 0])
    found = rank_positives(ScoreMatrix(scores), Truth("some", Positives.of_pairs(*pairs.T), some))
    hits = [[item in items for item in np.argsort(-row)] for row, items in zip(scores, own, strict=True)]
    return found.of("i2t"), hits


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
    truth = Truth("two", Positives.of_pairs(np.array([0, 0]), np.array([0, 1])), Positives.of_pairs([0], [0]))
    ranks = rank_positives(ScoreMatrix(scores), truth).of("i2t")
    np.testing.assert_array_equal(ranks.ranks, [0, 0.5])
    np.testing.assert_array_equal(ranks.places, [0, 1.5])
    # b lies at place 1.5 from 0, below R = 2: it counts, with a precision of 2 of 2.5.
    assert METRICS["rprecision"](ranks) == 100
    assert METRICS["mapr"](ranks) == pytest.approx(100 * (1 + 2 / 2.5) / 2)
    assert METRICS["ndcg10"](ranks) == pytest.approx(100 * (1 + 1 / math.log2(3.5)) / (1 + 1 / math.log2(3)))


def test_of_one_positive_a_query_the_metrics_of_all_are_those_of_the_best():
    ranks = PositiveRanks.of_best(np.array([0.0, 3.0, 0.5]), is_whole=True)
    assert METRICS["mapr"](ranks) == pytest.approx(100 * (1 + 1 / 1.5) / 3)
    assert METRICS["rprecision"](ranks) == pytest.approx(200 / 3)


def test_what_was_not_kept_is_said_and_what_was_kept_serves_every_metric(tmp_path):
    rng = np.random.default_rng(1)
    owner = np.repeat(np.arange(30), 5)
    embeddings = Embeddings(rng.standard_normal((30, 6)), rng.standard_normal((150, 6)), owner)
    protocols.save([protocols.evaluate(embeddings, "5x1K", 6)], tmp_path)
    arrays = dict(np.load(tmp_path / "ranks.npz"))
    kept = kept_ranks(arrays, "5x1K")
    per_fold = [
        METRICS["mapr"](
            retrieval_ranks(
                Embeddings(
                    embeddings.image_embeddings[at : at + 6],
                    embeddings.caption_embeddings[5 * at : 5 * at + 30],
                    owner[:30],
                )
            ).of("i2t")
        )
        for at in range(0, 30, 6)
    ]
    assert per_image(kept, owner, "i2t_mapr", 6).mean() == pytest.approx(np.mean(per_fold))
    del arrays["5x1K_i2t_captions"]
    with pytest.raises(
        VseppError, match="mAP@R: needs the ranks of all correct items, which were not kept; evaluate again"
    ):
        per_image(kept_ranks(arrays, "5x1K"), owner, "i2t_mapr", 6)
    old = kept_ranks(arrays, "5x1K")
    assert per_image(old, owner, "i2t_r1", 6).shape == per_image(old, owner, "t2i_mapr", 6).shape == (30,)


# Truths, and what is refused.


def test_a_truth_is_named_by_its_ids_whatever_the_order_of_the_rows():
    owner = np.array([1, 0, 1])
    one = own_captions(owner)
    assert one.digest == Truth("x", one.i2t, one.t2i, [0, 1], [0, 1, 2]).digest
    by_name = Truth("x", one.i2t, one.t2i, ["a", "b"], ["c", "d", "e"])
    turned = own_captions(np.array([1, 0, 0]))
    other = Truth("y", turned.i2t, turned.t2i, ["b", "a"], ["d", "c", "e"])
    assert by_name.digest == other.digest != one.digest
    arrays = Truth("z", one.i2t, one.t2i, np.array(["a", "b"]), np.array(["c", "d", "e"]))
    assert arrays.digest == by_name.digest


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: Positives.of_pairs([0, 1, 0], [2, 2, 2]), "got query 0 and item 2 twice"),
        (lambda: Positives.of_pairs(np.empty(0, int), np.empty(0, int)), "each once, got none"),
        (lambda: Positives.of_pairs([0.7], [1]), r"integers \(n,\) both, got float64 \(1,\) and int64 \(1,\)"),
        (lambda: Positives.of_pairs([0, 1], [1]), r"got int64 \(2,\) and int64 \(1,\)"),
        (
            lambda: rank_positives(ScoreMatrix(np.zeros((2, 2))), named(["a"])),
            "truth named: has 1 image ids, 2 are ranked",
        ),
        (
            lambda: rank_positives(ScoreMatrix(np.zeros((2, 3))), own_captions(np.array([0, 1, 2]))),
            r"truth own captions: image row 2 is not among the 2 that are ranked \(1 of its rows are not\)",
        ),
        (lambda: ScoreMatrix(np.zeros(3)), r"expected floating-point numbers \(images, captions\), got shape \(3,\)"),
        (lambda: ScoreMatrix(np.zeros((2, 3), int)), "of int64"),
        (
            lambda: rank_positives(ScoreMatrix(np.array([[0, 1.0], [np.nan, 0]])), own_captions(np.array([0, 1]))),
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


def named(ids):
    own = own_captions(np.array([0, 1]))
    return Truth("named", own.i2t, own.t2i, np.array(ids))


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
    truth = Truth("many", Positives.of_pairs(*pairs.T), Positives.of_pairs(*pairs[:, ::-1].T))
    scores = images.astype(np.float64) @ captions.T
    expected = rank_positives(ScoreMatrix(scores), truth)
    for found in (
        EmbeddingScores(embeddings_of(images, captions, "dot"), device)
        for device in (None, torch.device("cpu"))
    ):
        assert_ranks(rank_positives(found, truth), [expected.of(one).ranks for one in ("i2t", "t2i")])
    whole = BestLists(best(scores, 300), best(scores.T, 90))
    assert_ranks(rank_positives(whole, truth), [expected.of(one).ranks for one in ("i2t", "t2i")])
    few = Truth("few", Positives.of_pairs(*pairs[:300].T), Positives.of_pairs(*pairs[:300, ::-1].T))
    assert_ranks(rank_positives(ScoreMatrix(scores), few), naive(scores, few))
