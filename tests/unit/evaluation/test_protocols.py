import json

import numpy as np
import pytest

from vsepp.errors import VseppError
from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.metrics import retrieval_metrics
from vsepp.evaluation.protocols import evaluate, format_summary, protocol_folds, save
from vsepp.evaluation.ranks import retrieval_ranks
from vsepp.spec import Component


@pytest.fixture(scope="module")
def shuffled():
    """53 images with one to four captions each, captions in no order."""
    rng = np.random.default_rng(11)
    owner = rng.permutation(np.repeat(np.arange(53), rng.integers(1, 5, 53)))
    images = rng.standard_normal((53, 12))
    captions = images[owner] + 1.5 * rng.standard_normal((len(owner), 12))
    return Embeddings(images.astype(np.float32), captions.astype(np.float32), owner)


def fold_by_hand(embeddings, first, last):
    """Ranks of images first … last-1, built caption by caption."""
    rows = [row for row, image in enumerate(embeddings.caption_to_image) if first <= image < last]
    owner = np.array([embeddings.caption_to_image[row] - first for row in rows])
    images, captions = embeddings.image_embeddings[first:last], embeddings.caption_embeddings[rows]
    return rows, retrieval_ranks(Embeddings(images, captions, owner, embeddings.similarity))


def test_first_fold_alone(shuffled):
    evaluation = evaluate(shuffled, "1K", fold_size=10)
    rows, ranks = fold_by_hand(shuffled, 0, 10)
    assert evaluation.metrics == retrieval_metrics(ranks)
    assert (len(evaluation.ranks.i2t), evaluation.fold_size) == (10, 10)
    np.testing.assert_array_equal(evaluation.caption_rows, rows)
    np.testing.assert_array_equal(evaluation.ranks.t2i, ranks.t2i)


def test_five_folds_are_consecutive_and_averaged(shuffled):
    evaluation = evaluate(shuffled, "5x1K", fold_size=10)
    by_hand = [fold_by_hand(shuffled, first, first + 10) for first in (0, 10, 20, 30, 40)]
    per_fold = [retrieval_metrics(ranks) for _, ranks in by_hand]
    assert list(evaluation.per_fold) == per_fold
    for direction in ("i2t", "t2i"):
        for metric in ("r1", "r5", "r10", "medr", "meanr"):
            expected = np.mean([getattr(getattr(fold, direction), metric) for fold in per_fold])
            assert getattr(getattr(evaluation.metrics, direction), metric) == pytest.approx(
                expected, abs=1e-12
            )
    assert evaluation.metrics.rsum == pytest.approx(np.mean([fold.rsum for fold in per_fold]), abs=1e-9)
    assert len({fold.rsum for fold in per_fold}) > 1, "folds must differ for this test to mean something"

    for fold, (rows, ranks) in enumerate(by_hand):
        kept = evaluation.ranks
        np.testing.assert_array_equal(kept.i2t[10 * fold : 10 * fold + 10], ranks.i2t)
        here = np.isin(evaluation.caption_rows, rows)
        np.testing.assert_array_equal(kept.t2i[here], ranks.t2i)
    assert len(evaluation.ranks.i2t) == 50


def test_all_images_at_once_ignore_the_fold_size(shuffled):
    evaluation = evaluate(shuffled, "5K", fold_size=10)
    assert evaluation.metrics == retrieval_metrics(fold_by_hand(shuffled, 0, 53)[1])
    assert (evaluation.fold_size, len(evaluation.ranks.i2t), len(evaluation.per_fold)) == (53, 53, 1)
    assert len(evaluation.caption_rows) == len(evaluation.ranks.t2i) == len(shuffled.caption_to_image)


def test_smaller_folds_score_higher(shuffled):
    assert evaluate(shuffled, "5x1K", 10).metrics.rsum > evaluate(shuffled, "5K").metrics.rsum


def test_similarity_of_the_embeddings_decides(shuffled):
    order = Embeddings(
        shuffled.image_embeddings,
        shuffled.caption_embeddings,
        shuffled.caption_to_image,
        similarity=Component("order"),
    )
    evaluation = evaluate(order, "5K")
    assert evaluation.metrics == retrieval_metrics(fold_by_hand(order, 0, 53)[1])
    assert evaluation.metrics != evaluate(shuffled, "5K").metrics


def test_folds_of_full_size_by_default():
    assert protocol_folds("1K", 5000) == [slice(0, 1000)]
    assert protocol_folds("5x1K", 5000)[-1] == slice(4000, 5000)
    assert protocol_folds("5K", 5000) == [slice(0, 5000)]


@pytest.mark.parametrize(
    ("protocol", "n_images", "fold_size", "message"),
    [
        ("1K", 999, 1000, "1K needs 1 × 1000 = 1000 test images, got 999"),
        ("5x1K", 49, 10, "5x1K needs 5 × 10 = 50 test images, got 49"),
        ("2K", 5000, 1000, "expected one of 1K, 5x1K, 5K, got '2K'"),
        ("1K", 5000, 0, "fold size: expected at least 1 image, got 0"),
    ],
)
def test_impossible_protocols_are_refused(protocol, n_images, fold_size, message):
    with pytest.raises(VseppError, match=message):
        protocol_folds(protocol, n_images, fold_size)


def test_saved_records_are_unrounded_and_hold_every_rank(shuffled, tmp_path):
    evaluation, first = evaluate(shuffled, "5x1K", fold_size=7), evaluate(shuffled, "1K", fold_size=7)
    save([evaluation, first], tmp_path)
    records = json.loads((tmp_path / "metrics.json").read_text(encoding="utf-8"))
    assert records == {"5x1K": evaluation.to_dict(), "1K": first.to_dict()}
    record = records["5x1K"]
    assert {key: record[key] for key in ("protocol", "fold_size", "folds", "n_images", "similarity")} == {
        "protocol": "5x1K",
        "fold_size": 7,
        "folds": 5,
        "n_images": 35,
        "similarity": "dot",
    }
    assert record["t2i"]["r1"] == evaluation.metrics.t2i.r1
    assert len(record["per_fold"]) == 5
    with np.load(tmp_path / "ranks.npz") as ranks:
        assert ranks["5x1K_i2t"].shape == (35,)
        assert ranks["1K_i2t"].shape == (7,)
        assert ranks["5x1K_t2i"].shape == (record["n_captions"],)
        assert ranks["5x1K_caption_rows"].shape == (record["n_captions"],)
        assert not np.isnan(ranks["5x1K_t2i"]).any()


def test_summary_names_protocol_and_both_directions(shuffled):
    evaluation = evaluate(shuffled, "5x1K", fold_size=10)
    lines = format_summary(evaluation).splitlines()
    assert lines[0].startswith("protocol 5x1K: 5 folds of 10 images")
    assert lines[1].split() == ["R@1", "R@5", "R@10", "Med", "r", "Mean", "r"]
    for line, name, side in (
        (lines[2], "caption retrieval (image→text)", evaluation.metrics.i2t),
        (lines[3], "image retrieval (text→image)", evaluation.metrics.t2i),
    ):
        assert line.startswith(name)
        figures = [float(word) for word in line.removeprefix(name).split()]
        assert figures == pytest.approx([side.r1, side.r5, side.r10, side.medr, side.meanr], abs=0.0501)
    assert lines[4] == f"rsum {evaluation.metrics.rsum:.1f}"
    assert format_summary(evaluate(shuffled, "1K", 10)).startswith("protocol 1K: 1 fold of 10 images")
