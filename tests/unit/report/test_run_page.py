"""A model's page where people judged what is correct, and nothing else was evaluated."""

from __future__ import annotations

import numpy as np
import pytest
from embedded_sets import embedded
from trained_models import write_pictures

from vsepp.evaluation.evaluate import evaluate
from vsepp.evaluation.gallery import Gallery
from vsepp.report.run_page import run_page, ticked

IMAGES = np.array([30, 10, 20, 40])
"""Ids in the order of the files, which is not the truth's."""
OWNER = np.array([0, 0, 1, 1, 2, 2, 3, 3])
CAPTIONS = np.array([301, 300, 100, 101, 201, 200, 400, 401])
I2T = {30: [300, 301, 200], 10: [101], 40: [400, 100]}
"""Not all images ask, and not only their own captions are correct."""
T2I = {100: [10, 40], 101: [10], 401: [40]}
"""All captions of image 10 ask, and one of image 40."""


def pairs(positives):
    return tuple(np.array([(query, item) for query, items in positives.items() for item in items]).T)


@pytest.fixture
def judged(models, tmp_path):
    """A model that was evaluated under a truth alone, and its scores `(n_images, n_captions)`."""
    rng = np.random.default_rng(0)
    images, captions = (rng.standard_normal((n, 8)).astype(np.float32) for n in (4, 8))
    tested = embedded(images, captions, OWNER, image_ids=IMAGES, caption_ids=CAPTIONS)
    truth = Gallery.from_ids(IMAGES[OWNER], CAPTIONS).truth("cxc", i2t=pairs(I2T), t2i=pairs(T2I))
    texts = {
        image: [(row, f"caption {CAPTIONS[row]}") for row in np.flatnonzero(k == OWNER).tolist()]
        for k, image in enumerate(IMAGES)
    }
    write_pictures(tmp_path / "pictures", texts)
    (evaluation,) = evaluate(tested, [truth])
    models.keep_test_set(models.add("mine"), tested, evaluation, tmp_path / "pictures")
    return models.records["mine"], images @ captions.T


def test_a_truth_alone_shows_its_own_images_and_captions_and_its_own_chance(judged, context):
    seeds, scores = judged
    page = run_page(seeds, [], context, alone=True)
    sides = {
        "Caption retrieval": (scores, IMAGES, CAPTIONS, "image", "caption", I2T, (10, 30, 40)),
        # Of image 40 it is not known which caption asks.
        "Image retrieval": (scores.T, CAPTIONS, IMAGES, "caption", "image", T2I, (100, 101)),
    }
    for heading, (table, own, others, asks, sought, positives, queries) in sides.items():
        wanted = {}
        for query in queries:
            ranked = others[np.argsort(-table[list(own).index(query)])].tolist()
            right = [item in positives[query] for item in ranked]
            words = [
                f"{'✓ ' * is_right}{sought} {item}" for item, is_right in zip(ranked, right, strict=True)
            ]
            wanted[f"{asks} {query}"] = words[:3], 1 + right.index(True)
        assert {
            ticked(query_shown.query): ([ticked(item) for item in query_shown.answers], query_shown.rank)
            for which in ("found first", "found last")
            for query_shown in page["queries"].get(f"{heading}: {which}", [])
        } == wanted
    (recalls,) = page["recalls"]
    # 6 correct of 3 × 8 captions, 4 correct of 3 × 4 images.
    assert "R@1 by chance: 25 in caption retrieval and 33 in image retrieval" in recalls["caption"]
