"""Lists of the best keep how long they are: what needs more is left out of print, files and comparisons. Ties at a cut are counted."""

import json

import numpy as np
import pytest
from embedded_sets import under
from naive_ranks import lists_of

from vsepp.apps.cli import main
from vsepp.base.errors import VseppError
from vsepp.evaluation.best import BestLists
from vsepp.evaluation.evaluate import save
from vsepp.evaluation.metrics import METRICS, ranks_like_chance
from vsepp.evaluation.ranks import kept_ranks
from vsepp.evaluation.scores import ScoreMatrix
from vsepp.evaluation.test_set import TestSet
from vsepp.report.compare import compare

N = 40
OWN = np.repeat(np.arange(N), 5)
DRAWN = np.random.default_rng(0)
IMAGES = DRAWN.standard_normal((N, 16))
SCORES = IMAGES @ (IMAGES[OWN] + 1.5 * DRAWN.standard_normal((5 * N, 16))).T


def listed(k, other=None):
    return TestSet(lists_of(SCORES, k, other or k), OWN)


@pytest.mark.parametrize(
    ("depths", "known"),
    [
        ((1, 3), {"i2t": ["r1", "medr"], "t2i": ["r1", "medr"]}),
        ((10, 4), {"i2t": ["r1", "r5", "r10", "medr"], "t2i": ["r1", "medr"]}),
        ((10, 12), {"i2t": ["r1", "r5", "r10", "medr"], "t2i": ["r1", "r5", "r10", "medr"]}),
        ((5 * N, N), {"i2t": ["r1", "r5", "r10", "medr", "meanr"], "t2i": ["r1", "r5", "r10", "medr", "meanr"]}),
    ],
)  # fmt: skip
def test_a_list_has_the_metrics_that_it_is_long_enough_for(depths, known):
    evaluation, whole = under(listed(*depths)), under(TestSet(ScoreMatrix(SCORES), OWN))
    record = evaluation.to_dict()
    assert {task: list(record[task]) for task in known} == known
    assert ("rsum" in record) == (min(depths) >= 10)
    sizes = zip(("i2t", "t2i"), depths, (5 * N, N), strict=True)
    assert record.get("depth", {}) == {task: depth for task, depth, gallery in sizes if depth < gallery}
    for task in known:
        for key, metric in METRICS.items():
            value = metric(evaluation.ranks[task])
            assert np.isnan(value) or value == pytest.approx(metric(whole.ranks[task])), key
    assert ("rsum " in str(evaluation)) == (min(depths) >= 10)
    assert ("R@5  " in str(evaluation)) == (max(depths) >= 5)
    assert not ranks_like_chance(evaluation.ranks, N, 5 * N)


def test_the_shortest_list_says_how_deep_a_ranking_is(tmp_path):
    tested = listed(10)
    items, scores = tested.scores.lists["t2i"]
    items[7, 2:] = -1
    evaluation = under(TestSet(BestLists(tested.scores.lists["i2t"], (items, scores)), OWN))
    assert evaluation.to_dict()["depth"] == {"i2t": 10, "t2i": 2}
    save([evaluation], tmp_path)
    metrics = json.loads((tmp_path / "metrics.json").read_text())["5K"]
    assert "r10" in metrics["i2t"] and "r5" not in metrics["t2i"] and "rsum" not in metrics
    assert "r10" in metrics["per_fold"][0]["i2t"] and "r10" not in metrics["per_fold"][0]["t2i"]
    kept = kept_ranks(dict(np.load(tmp_path / "ranks.npz")), "5K", N, metrics["depth"])
    assert np.isnan(METRICS["r5"](kept["t2i"])) and METRICS["r5"](kept["i2t"]) == metrics["i2t"]["r5"]
    items[7] = -1
    with pytest.raises(VseppError, match=r"t2i_items.*query 7 is empty"):
        BestLists(tested.scores.lists["i2t"], (items, scores))


def test_models_are_compared_in_what_both_lists_tell(tmp_path, capsys):
    for k in (10, 3):
        listed(k).save(tmp_path / f"{k}.npz")
        assert main(["evaluate", str(tmp_path / f"{k}.npz"), "--output", str(tmp_path / f"out{k}")]) == 0
    capsys.readouterr()
    for names in (("out10", "out3"), ("10.npz", "out3"), ("3.npz", "3.npz")):
        models = dict(zip("AB", (tmp_path / name for name in names), strict=True))
        assert list(compare(models).levels) == ["i2t_r1", "t2i_r1"]
    pair = {"A": tmp_path / "out10", "B": tmp_path / "out3"}
    assert any("B has lists of the 3 best" in warning for warning in compare(pair).warnings)
    with pytest.raises(VseppError, match=r"out3.* i2t_r5"):
        compare(pair, metrics=["i2t_r5"])


def test_queries_that_ties_decide_are_counted_and_said(tmp_path):
    """Of image 0 a wrong caption ties with the best right one, of image 1 two do, of image 2 only for the place after a right one."""
    scores = np.zeros((3, 6))
    own = np.array([0, 0, 1, 1, 2, 2])
    scores[0] = [9, 1, 9, 0, 2, 3]
    scores[1] = [8, 8, 8, 0, 1, 2]
    scores[2] = [0, 1, 5, 6, 9, 5]
    evaluation = under(TestSet(ScoreMatrix(scores), own))
    record = evaluation.to_dict()
    assert record["ties"]["i2t"] == {"r1": 2}
    assert record["i2t"]["r1"] == pytest.approx(200 / 3)  # rank .5 counts, rank 1 does not
    line = next(line for line in str(evaluation).splitlines() if line.startswith("R@1: "))
    assert "2 of 3 images" in line and "33.3 without" in line
    save([evaluation], tmp_path)
    assert json.loads((tmp_path / "metrics.json").read_text())["5K"]["ties"] == record["ties"]
    distinct = under(TestSet(ScoreMatrix(scores + 1e-3 * np.arange(18).reshape(3, 6)), own))
    assert "ties" not in distinct.to_dict() and "tied" not in str(distinct)


def test_ties_of_folds_are_of_their_own_items():
    """A wrong caption of another fold is tied with the right one of image 0."""
    scores = np.eye(4) + 0.01 * np.arange(16).reshape(4, 4)
    scores[0, 2] = scores[0, 0]
    tested = TestSet(ScoreMatrix(scores), np.arange(4))
    assert under(tested).to_dict()["ties"] == {"i2t": {"r1": 1}}
    assert "ties" not in under(tested, "1K", 2).to_dict()
