"""A test set under truths that people made, held to naive loops and to the tools of their authors."""

import gzip
import json
from dataclasses import replace

import numpy as np
import pytest
from cxc_files import write_rated
from embedded_sets import embedded, noisy
from naive_ranks import block_sizes, lists_of, naive_ranks
from scipy import stats

from tests.support.flickr8k import SHARED
from vsepp.base.errors import VseppError
from vsepp.base.spec import Component
from vsepp.evaluation.embedding_scores import EmbeddingScores
from vsepp.evaluation.evaluate import evaluate
from vsepp.evaluation.gallery import Gallery
from vsepp.evaluation.metrics import METRICS, per_image
from vsepp.evaluation.ratings import correlation
from vsepp.evaluation.scores import ScoreMatrix
from vsepp.evaluation.test_set import TestSet
from vsepp.evaluation.truth import Ratings
from vsepp.evaluation.truths import cxc, eccv

IMAGES, CAPTIONS = np.array([30, 10, 20]), np.array([7, 5, 6, 1, 2, 9])
"""Ids in the order of a file; captions 7 and 5 are of image 30, 6 and 1 of 10, 2 and 9 of 20."""
OWNER = np.array([0, 0, 1, 1, 2, 2])


def judge(tested, truth):
    (evaluation,) = evaluate(tested, [truth])
    return evaluation


def small_truth():
    gallery = Gallery.from_ids(IMAGES[OWNER], CAPTIONS)
    return gallery.truth(
        "small",
        i2t=(np.array([30, 30, 30, 10, 20, 20]), np.array([7, 5, 6, 1, 2, 99])),  # 99 is not in the gallery
        t2i=(np.array([7, 5, 6, 6]), np.array([30, 30, 30, 10])),
        t2t=(np.array([7, 5, 1, 1]), np.array([5, 7, 6, 2])),
        i2i=(np.array([30, 10]), np.array([10, 30])),
    )


def small_set(rng, images=IMAGES, captions=CAPTIONS):
    """Small whole numbers, so that scores are exact and some are tied."""
    vectors = {id: rng.integers(-2, 3, 3).astype(np.float32) for id in (*IMAGES, *(CAPTIONS + 1000))}
    owner = [list(images).index(IMAGES[OWNER[list(CAPTIONS).index(id)]]) for id in captions]
    return embedded(
        np.array([vectors[id] for id in images]),
        np.array([vectors[id + 1000] for id in captions]),
        np.array(owner),
        image_ids=images,
        caption_ids=captions,
    )


def naive(tested, truth, task):
    """Ranks by ids: the query is no item of its own, and what is not in the gallery is behind all that is."""
    vectors = {
        "i": dict(zip(tested.image_ids.tolist(), tested.scores.images, strict=True)),
        "t": dict(zip(tested.caption_ids.tolist(), tested.scores.captions, strict=True)),
    }
    ids = {"i": np.asarray(truth.image_ids).tolist(), "t": np.asarray(truth.caption_ids).tolist()}
    (asking, _, sought), positives = task, truth.tasks[task]
    table = np.full((len(ids[asking]), len(ids[sought])), np.nan)
    for row, column in np.ndindex(*table.shape):
        query, item = ids[asking][row], ids[sought][column]
        if query in vectors[asking] and item in vectors[sought] and (asking != sought or query != item):
            table[row, column] = vectors[asking][query] @ vectors[sought][item]
    ranks = naive_ranks(table, positives)
    ranks[[ids[sought][item] not in vectors[sought] for item in positives.items]] = len(vectors[sought])
    return ranks.tolist()


@pytest.mark.parametrize("seed", range(8))
def test_ranks_of_all_four_tasks_equal_the_double_loop_in_any_order_of_the_file(seed):
    truth, rng = small_truth(), np.random.default_rng(seed)
    tested = small_set(np.random.default_rng(seed))
    evaluation = judge(tested, truth)
    assert list(evaluation.ranks) == ["i2t", "t2i", "t2t", "i2i"]
    for task, ranks in evaluation.ranks.items():
        assert ranks.ranks.tolist() == naive(tested, truth, task), task
    turned = small_set(np.random.default_rng(seed), rng.permutation(IMAGES), rng.permutation(CAPTIONS))
    with block_sizes((2, 2), 2):
        again = judge(turned, truth)
    assert json.dumps(again.to_dict()) == json.dumps(evaluation.to_dict())
    for name, array in evaluation.arrays.items():
        np.testing.assert_array_equal(again.arrays[name], array)
    matrix = turned.scores.images @ turned.scores.captions.T
    for scores in (ScoreMatrix(matrix), lists_of(matrix, 6, 3)):
        by_scores = judge(replace(turned, scores=scores), truth)
        assert list(by_scores.ranks) == ["i2t", "t2i"]
        for task, ranks in by_scores.ranks.items():
            np.testing.assert_array_equal(ranks.ranks, evaluation.ranks[task].ranks)


@pytest.mark.parametrize("seed", range(5))
def test_ratings_go_with_lists_as_with_the_matrix_whose_scores_they_hold(seed):
    """Ratings and rows of the file are in orders of their own."""
    rng, owned = np.random.default_rng(seed), np.arange(40)
    images, captions = rng.permutation(owned), rng.permutation(owned + 100)
    asked = rng.permutation(owned)
    rated = {"sits": Ratings("i2t", asked, asked + 100, rng.integers(0, 6, 40).astype(float))}
    own = owned, owned + 100
    truth = Gallery.from_ids(*own).truth("rated", ratings=rated, i2t=own, t2i=own[::-1])
    scores = rng.standard_normal((40, 40))
    owner = np.argsort(images)[captions - 100]
    by_matrix, by_lists = (
        judge(TestSet(form, owner, images, captions), truth).correlations
        for form in (ScoreMatrix(scores), lists_of(scores, 40, 40))
    )
    assert by_matrix == by_lists and list(by_matrix) == ["sits"]


def test_a_similarity_that_is_no_inner_product_has_no_tasks_among_captions_or_images():
    tested = small_set(np.random.default_rng(1))
    scores = EmbeddingScores(tested.scores.images, tested.scores.captions, Component("order"))
    evaluation = judge(replace(tested, scores=scores), small_truth())
    assert list(evaluation.ranks) == ["i2t", "t2i"] and evaluation.to_dict().keys().isdisjoint(("t2t", "i2i"))
    assert per_image(evaluation.ranks, "t2t_r1") is None


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"image_ids": None}, "image_ids"),
        ({"caption_ids": np.array([7, 5, 6, 1, 2, 8])}, "caption 9 "),
        ({"image_ids": np.array([30, 10, 21])}, "image 20 "),
        ({"caption_to_image": np.array([0, 0, 1, 2, 2, 1])}, "caption 1 .*image 20 .*image 10 "),
        ({"caption_ids": np.array([7, 5, 6, 1, 2, 7])}, "caption_ids: 7 "),
    ],
)
def test_ids_and_images_of_captions_that_are_not_the_gallerys_are_refused(changes, named):
    with pytest.raises(VseppError, match=named):
        judge(replace(small_set(np.random.default_rng(0)), **changes), small_truth())


COCO = {
    "floats": (IMAGES.astype(float), CAPTIONS.astype(np.float32)),
    "text": (IMAGES.astype(str), CAPTIONS.astype(str)),
    "text of floats": ([f"{id}.0" for id in IMAGES], [f" {id}" for id in CAPTIONS]),
    "names of files": ([f"COCO_val2014_{id:012}.jpg" for id in IMAGES], CAPTIONS.astype(np.uint64)),
}


@pytest.mark.parametrize("form", COCO)
def test_ids_of_coco_are_taken_in_the_forms_that_people_keep_them_in(form):
    images, captions = map(np.array, COCO[form])
    whole = small_set(np.random.default_rng(0))
    evaluation = judge(replace(whole, image_ids=images, caption_ids=captions), small_truth())
    for task, expected in judge(whole, small_truth()).ranks.items():
        np.testing.assert_array_equal(evaluation.ranks[task].ranks, expected.ranks)


@pytest.mark.parametrize(
    ("ids", "named"),
    [
        ([30, 10.5, 20], r"row 1 is 10\.5"),
        ([30, 10, np.nan], "row 2 is nan"),
        (["a\x1b[2J", "10", "20"], r"row 0 is 'a\\x1b"),
        ([[30, 10, 20]], r"int64 \(1, 3\)"),
    ],
)
def test_what_is_no_id_is_named_with_its_row(ids, named):
    with pytest.raises(VseppError, match=f"^image_ids: .*{named}"):
        replace(small_set(np.random.default_rng(0)), image_ids=np.array(ids))


# Correlations.


def test_a_correlation_of_one_rated_item_a_query_spreads_around_spearmans():
    rng = np.random.default_rng(3)
    rated = rng.integers(0, 6, 2000).astype(float)
    scores = rated + rng.standard_normal(2000) * 2
    every = Ratings("i2t", np.arange(2000), np.arange(2000), rated)
    estimate = correlation(every, scores, np.arange(2000))
    exact = 100 * stats.spearmanr(rated, scores).statistic
    assert estimate.value == pytest.approx(exact, abs=0.2)
    # A half of n without replacement has the spread of a mean of n: its error is the error of sampling 1,000 of 2,000.
    halves = [
        100 * stats.spearmanr(rated[some], scores[some]).statistic
        for some in (rng.permutation(2000)[:1000] for _ in range(300))
    ]
    assert estimate.sd == pytest.approx(np.std(halves), rel=0.15)
    assert estimate.low < exact < estimate.high


def test_a_query_with_many_rated_items_counts_once_in_an_estimate():
    """Nine of ten ratings are of one image, and go against the scores; each estimate has it at most once."""
    queries = np.r_[np.arange(100), np.full(900, 100)]
    rated = np.r_[np.arange(100.0), np.linspace(0, 100, 900)]
    scores = np.r_[np.arange(100.0), np.linspace(100, 0, 900)]
    estimate = correlation(Ratings("i2t", queries, queries, rated), scores, queries)
    assert estimate.value > 90
    assert stats.spearmanr(rated, scores).statistic < -0.5


# The files of COCO's test set.

CXC = {role: SHARED / "cxc" / f"{file}.gz" for role, file in cxc.FILES.items()}
needs_cxc = pytest.mark.skipif(not CXC["sts"].is_file(), reason="CxC's files are not here")
needs_eccv = pytest.mark.skipif(not eccv.installed(), reason="eccv-caption is not installed")


@pytest.fixture(scope="module")
def eccv_truth():
    return eccv.read(eccv.installed())


def counts(truth):
    return {task: (len(positives.queries), len(positives.items)) for task, positives in truth.tasks.items()}


@needs_eccv
def test_eccv_captions_counts_are_as_published(eccv_truth):
    assert counts(eccv_truth) == {"i2t": (1261, 22550), "t2i": (1332, 11279)}
    assert (len(eccv_truth.image_ids), len(eccv_truth.caption_ids) - eccv_truth.absent) == (5000, 25000)
    assert np.asarray(eccv_truth.caption_ids)[-2:].tolist() == [144675, 467259]  # not in the test set
    asking = np.r_[eccv_truth.images_of("i2t"), eccv_truth.images_of("t2i")]
    assert len(np.unique(asking)) == 1261


@needs_cxc
def test_counts_of_crisscrossed_captions_and_its_gallery():
    truth = cxc.read(CXC)
    assert counts(truth) == {
        "i2t": (5000, 35585), "t2i": (24972, 35585), "t2t": (25000, 101166), "i2i": (4791, 40492),
    }  # fmt: skip
    assert {what: ratings.task for what, ratings in truth.ratings.items()} == {
        "sts": "t2t",
        "sis": "i2i",
        "sits": "i2t",
    }
    if eccv.installed():
        data = eccv.installed()["i2t"].parent
        theirs = json.loads((data / "cxc_image_to_caption.json").read_text())
        ours = {
            (int(truth.image_ids[i]), int(truth.caption_ids[c]))
            for i, c in zip(truth.tasks["i2t"].rows, truth.tasks["i2t"].items, strict=True)
        }
        assert ours == {(int(image), caption) for image, captions in theirs.items() for caption in captions}


def of_gallery(truth):
    """Made-up embeddings of a whole gallery, whose scores are all different in float32."""
    owner = truth.caption_to_image
    images, captions = np.asarray(truth.image_ids), np.asarray(truth.caption_ids)[: len(owner)]
    return noisy(owner, 32, 4.0, np.random.default_rng(0), image_ids=images, caption_ids=captions)


@needs_eccv
def test_metrics_equal_eccv_captions_own_to_the_twelfth_digit(eccv_truth):
    """Its recalls, mAP@R and R-Precision of lists sorted by the same scores; R-Precision asked for with another metric, since the
    package gives nothing for it alone, and lists as long as the longest R, since it fails on shorter ones."""
    from eccv_caption import Metrics

    tested = of_gallery(eccv_truth)
    scores = tested.scores.images.astype(float) @ tested.scores.captions.astype(float).T
    i2t, t2i = (
        {
            int(asked[query]): listed[np.argsort(-table[query])[:50]].tolist()
            for query in eccv_truth.tasks[task].queries
        }
        for task, table, asked, listed in (
            ("i2t", scores, tested.image_ids, tested.caption_ids),
            ("t2i", scores.T, tested.caption_ids, tested.image_ids),
        )
    )
    wanted = ("eccv_map_at_r", "eccv_rprecision", "eccv_r1")
    theirs = Metrics().compute_all_metrics(i2t, t2i, target_metrics=wanted, Ks=(1,), verbose=False)
    evaluation = judge(tested, eccv_truth)
    for task in ("i2t", "t2i"):
        for name, key in zip(wanted, ("mapr", "rprecision", "r1"), strict=True):
            assert METRICS[key](evaluation.ranks[task]) == pytest.approx(
                100 * theirs[name][task], abs=1e-12
            ), (
                task,
                name,
            )


PAIRS = {"own": [(1, 1), (2, 1), (3, 2), (4, 2)], "sts": [(1, 3, 4.2)], "sis": [(1, 2, 2.5)]}
"""Two images with two captions each, and a rating of captions and of images."""


def test_ratings_at_the_threshold_are_positive_and_captions_of_one_image_ask_for_each_other(tmp_path):
    files = write_rated(tmp_path, **PAIRS)
    truth = cxc.read(files)
    pairs = {
        task: sorted(zip(truth.tasks[task].rows.tolist(), truth.tasks[task].items.tolist(), strict=True))
        for task in ("t2t", "i2i")
    }
    assert pairs == {"t2t": [(0, 1), (0, 2), (1, 0), (2, 0), (2, 3), (3, 2)], "i2i": [(0, 1), (1, 0)]}
    packed = {role: path.with_suffix(".csv.gz") for role, path in files.items()}
    for role, path in packed.items():
        path.write_bytes(gzip.compress(files[role].read_bytes()))
    assert cxc.read(packed).digest == truth.digest


@pytest.mark.parametrize(("old", "new"), [("4.2", "nan"), ("sentid:3", "sentid:x"), (",4.2", "")])
def test_a_row_that_is_no_rating_is_named(tmp_path, old, new):
    files = write_rated(tmp_path, **PAIRS)
    files["sts"].write_text(files["sts"].read_text().replace(old, new))
    with pytest.raises(VseppError, match=r"sts_test\.csv: row 2"):
        cxc.read(files)
