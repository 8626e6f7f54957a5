import json

import numpy as np
import pytest

from vsepp.base.errors import VseppError
from vsepp.base.spec import Component
from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.evaluate import evaluate, protocol_folds, save
from vsepp.evaluation.metrics import mean_metrics, retrieval_metrics
from vsepp.evaluation.ranks import retrieval_ranks


@pytest.fixture(scope="module", params=["dot", "order"])
def shuffled(request):
    """53 images with one to four captions each, captions in no order."""
    rng = np.random.default_rng(11)
    owner = rng.permutation(np.repeat(np.arange(53), rng.integers(1, 5, 53)))
    images = rng.standard_normal((53, 12))
    captions = images[owner] + 1.5 * rng.standard_normal((len(owner), 12))
    return Embeddings(images, captions, owner, Component(request.param))


@pytest.mark.parametrize(
    ("protocol", "starts", "fold_size"), [("1K", [0], 10), ("5x1K", range(0, 50, 10), 10), ("5K", [0], 53)]
)
def test_folds_are_consecutive_ranked_apart_and_averaged(shuffled, protocol, starts, fold_size):
    evaluation = evaluate(shuffled, protocol, fold_size=10)
    assert (evaluation.fold_size, evaluation.similarity) == (fold_size, shuffled.similarity.name)
    owner, ranked = shuffled.caption_to_image, []
    for start, found in zip(starts, evaluation.per_fold, strict=True):
        rows = [row for row, image in enumerate(owner) if start <= image < start + fold_size]
        images, captions = shuffled.image_embeddings[start:][:fold_size], shuffled.caption_embeddings[rows]
        ranks = retrieval_ranks(Embeddings(images, captions, owner[rows] - start, shuffled.similarity))
        assert found == retrieval_metrics(ranks)
        np.testing.assert_array_equal(evaluation.ranks.i2t[start:][:fold_size], ranks.i2t)
        np.testing.assert_array_equal(evaluation.ranks.t2i[np.isin(evaluation.caption_rows, rows)], ranks.t2i)
        ranked += rows
    assert evaluation.caption_rows.tolist() == sorted(ranked)
    assert len(evaluation.ranks.i2t) == len(starts) * fold_size
    assert evaluation.metrics == mean_metrics(evaluation.per_fold)
    assert len({fold.rsum for fold in evaluation.per_fold}) == len(starts), "folds must differ"


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
    sizes = {key: record[key] for key in ("protocol", "fold_size", "folds", "n_images")}
    assert sizes == {"protocol": "5x1K", "fold_size": 7, "folds": len(record["per_fold"]), "n_images": 35}
    assert record["t2i"]["r1"] == evaluation.metrics.t2i.r1
    with np.load(tmp_path / "ranks.npz") as ranks:
        for name, found in (("5x1K", evaluation), ("1K", first)):
            np.testing.assert_array_equal(ranks[f"{name}_i2t"], found.ranks.i2t)
            np.testing.assert_array_equal(ranks[f"{name}_t2i"], found.ranks.t2i)
            np.testing.assert_array_equal(ranks[f"{name}_caption_rows"], found.caption_rows)


def test_summary_names_protocol_and_both_directions(shuffled):
    evaluation = evaluate(shuffled, "5x1K", fold_size=10)
    lines = str(evaluation).splitlines()
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
    assert str(evaluate(shuffled, "1K", 10)).startswith("protocol 1K: 1 fold of 10 images")
