"""A protocol's folds, metrics and saved records."""

import json

import numpy as np
import pytest
from embedded_sets import embedded, noisy, under

from vsepp.base.errors import VseppError
from vsepp.base.spec import Component
from vsepp.evaluation.evaluate import save
from vsepp.evaluation.paper import retrieval_metrics
from vsepp.evaluation.ranks import retrieval_ranks
from vsepp.evaluation.truth import protocol_folds


@pytest.fixture(scope="module", params=["dot", "order"])
def shuffled(request):
    """53 images with one to four captions each, captions in no order."""
    rng = np.random.default_rng(11)
    owner = rng.permutation(np.repeat(np.arange(53), rng.integers(1, 5, 53)))
    return noisy(owner, 12, 1.5, rng, Component(request.param))


def captions_of(evaluation):
    """Rows of the captions that were ranked."""
    return evaluation.truth.tasks["t2i"].queries


@pytest.mark.parametrize(
    ("protocol", "starts", "fold_size"), [("1K", [0], 10), ("5x1K", range(0, 50, 10), 10), ("5K", [0], 53)]
)
def test_folds_are_consecutive_ranked_apart_and_averaged(shuffled, protocol, starts, fold_size):
    evaluation = under(shuffled, protocol, 10)
    assert (evaluation.fold_size, evaluation.similarity) == (fold_size, shuffled.scores.words)
    owner, ranked = shuffled.caption_to_image, []
    for start, metrics in zip(starts, evaluation.per_fold, strict=True):
        rows = [row for row, image in enumerate(owner) if start <= image < start + fold_size]
        scores = shuffled.scores
        images, captions = scores.images[start:][:fold_size], scores.captions[rows]
        ranks = retrieval_ranks(embedded(images, captions, owner[rows] - start, scores.similarity))
        assert metrics == retrieval_metrics(ranks)
        np.testing.assert_array_equal(evaluation.ranks["i2t"].best[start:][:fold_size], ranks["i2t"].best)
        np.testing.assert_array_equal(
            evaluation.ranks["t2i"].best[np.isin(captions_of(evaluation), rows)], ranks["t2i"].best
        )
        ranked += rows
    assert captions_of(evaluation).tolist() == sorted(ranked)
    assert len(evaluation.ranks["i2t"].best) == len(starts) * fold_size
    recalls = [fold.t2i.r5 for fold in evaluation.per_fold]
    assert evaluation.metrics.t2i.r5 == np.mean(recalls)
    assert len({fold.rsum for fold in evaluation.per_fold}) == len(starts), "folds must differ"


@pytest.mark.parametrize(
    ("protocol", "n_images", "fold_size", "named"),
    [("5x1K", 49, 10, "5 × 10 = 50 .*49"), ("2K", 5000, 1000, "'2K'"), ("1K", 5000, 0, "0")],
)
def test_impossible_protocols_are_refused(protocol, n_images, fold_size, named):
    assert protocol_folds("5x1K", 5000)[-1] == slice(4000, 5000)
    with pytest.raises(VseppError, match=named):
        protocol_folds(protocol, n_images, fold_size)


def test_saved_records_are_unrounded_and_hold_every_rank(shuffled, tmp_path):
    evaluation, first = under(shuffled, "5x1K", 7), under(shuffled, "1K", 7)
    save([evaluation, first], tmp_path)
    records = json.loads((tmp_path / "metrics.json").read_text(encoding="utf-8"))
    assert records == {"5x1K": evaluation.to_dict(), "1K": first.to_dict()}
    record = records["5x1K"]
    sizes = {key: record[key] for key in ("protocol", "fold_size", "folds", "n_images")}
    assert sizes == {"protocol": "5x1K", "fold_size": 7, "folds": len(record["per_fold"]), "n_images": 35}
    assert record["t2i"]["r1"] == evaluation.metrics.t2i.r1
    with np.load(tmp_path / "ranks.npz") as ranks:
        for name, kept in (("5x1K", evaluation), ("1K", first)):
            np.testing.assert_array_equal(ranks[f"{name}_i2t"], kept.ranks["i2t"].best)
            np.testing.assert_array_equal(ranks[f"{name}_t2i"], kept.ranks["t2i"].best)
            np.testing.assert_array_equal(ranks[f"{name}_caption_rows"], captions_of(kept))
