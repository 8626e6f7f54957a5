"""Metrics of truths with several positives, what is kept of them, and what cannot be ranked."""

import math

import numpy as np
import pytest
from embedded_sets import embedded, truth_of, under

from vsepp.base.errors import VseppError
from vsepp.evaluation.best import BestLists
from vsepp.evaluation.evaluate import save
from vsepp.evaluation.metrics import METRICS, per_image
from vsepp.evaluation.ranks import TaskRanks, kept_ranks, rank_positives, retrieval_ranks
from vsepp.evaluation.scores import ScoreMatrix
from vsepp.evaluation.truth import Positives, Truth, own_captions


def test_metrics_equal_loops_over_ranked_lists():
    """Random scores without ties; positives of each query, items in the order of their scores."""
    rng, n_queries, gallery = np.random.default_rng(0), 60, 40
    scores = rng.permutation(n_queries * gallery).reshape(n_queries, gallery).astype(np.float64)
    own = [set(rng.choice(gallery, rng.integers(1, 9), replace=False).tolist()) for _ in range(n_queries)]
    pairs = np.array([(query, item) for query, items in enumerate(own) for item in items])
    some = Positives.from_pairs(pairs[:1, 1], pairs[:1, 0])
    ranks = rank_positives(ScoreMatrix(scores), truth_of(Positives.from_pairs(*pairs.T), some))["i2t"]
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
        np.testing.assert_allclose(METRICS[key].per_query(ranks), values, err_msg=key)
        assert METRICS[key](ranks) == pytest.approx(100 * np.mean(values))
    assert METRICS["medr"](ranks) == math.floor(np.median(ranks.best)) + 1
    assert METRICS["meanr"](ranks) == pytest.approx(ranks.best.mean() + 1)


def test_a_tie_counts_half_in_every_place():
    # One query, positives a and b; items by score: a, [b, wrong], wrong.
    scores = np.array([[4.0, 3.0, 3.0, 1.0]])
    truth = truth_of(Positives.from_pairs(np.array([0, 0]), np.array([0, 1])), Positives.from_pairs([0], [0]))
    ranks = rank_positives(ScoreMatrix(scores), truth)["i2t"]
    np.testing.assert_array_equal(ranks.ranks, [0, 0.5])
    np.testing.assert_array_equal(ranks.places, [0, 1.5])
    # b lies at place 1.5 from 0, below R = 2: it counts, with a precision of 2 of 2.5.
    assert METRICS["rprecision"](ranks) == 100
    assert METRICS["mapr"](ranks) == pytest.approx(100 * (1 + 2 / 2.5) / 2)
    assert METRICS["ndcg10"](ranks) == pytest.approx(100 * (1 + 1 / math.log2(3.5)) / (1 + 1 / math.log2(3)))
    single = TaskRanks(np.arange(4), np.array([0.0, 3.0, 0.5]), np.arange(3), 3)
    assert METRICS["mapr"](single) == pytest.approx(100 * (1 + 1 / 1.5) / 3)


def test_what_was_kept_serves_every_metric(tmp_path):
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
    with pytest.raises(VseppError, match="5x1K_i2t_captions"):
        kept_ranks(arrays, "5x1K", 6)


# Truths, and what is refused.


def test_a_truth_is_named_by_its_ids_whatever_the_order_of_the_rows():
    def digest(owner, images=None, captions=None):
        return Truth("x", own_captions(np.array(owner)).tasks, images, captions).digest

    assert digest([1, 0, 1]) == digest([1, 0, 1], [0, 1], [0, 1, 2])
    by_name = digest([1, 0, 1], ["a", "b"], ["c", "d", "e"])
    assert by_name == digest([1, 0, 0], ["b", "a"], ["d", "c", "e"]) != digest([1, 0, 1])


def rank_matrix(scores, owner):
    return rank_positives(ScoreMatrix(np.array(scores)), own_captions(np.array(owner)))


def lists(items=((0, 1),), scores=((2.0, 1.0),)):
    """One image among three captions."""
    return BestLists((np.array(items), np.array(scores)), (np.zeros((3, 1), int), np.ones((3, 1))))


@pytest.mark.parametrize(
    ("make", "arguments", "named"),
    [
        (Positives.from_pairs, ([0, 1, 0], [2, 2, 2]), "query 0 and item 2"),
        (Positives.from_pairs, ([0, 1], [1]), r"int64 \(2,\) and int64 \(1,\)"),
        (rank_matrix, ([[0, 1.0], [np.nan, 0]], [0, 1]), "image row 1 holds NaN"),
        (ScoreMatrix, (np.zeros(3),), r"\(3,\)"),
        (lists, ([[0, 3]],), "i2t: the list of query 0"),
        (lists, ([[0, 1]], [[1, np.inf]]), "finite"),
    ],
)
def test_what_cannot_be_ranked_is_named(make, arguments, named):
    with pytest.raises(VseppError, match=named):
        make(*arguments)
