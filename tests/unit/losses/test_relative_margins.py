"""Margins from the captions' similarity: the post's numbers, an example made by hand, and a naive loop."""

import math

import numpy as np
import pytest
import torch
from loss_checks import random_captions, scores_of, write_corpus

from vsepp.data.vectors import CaptionVectors
from vsepp.losses import relative_margins
from vsepp.losses.batch import Batch
from vsepp.losses.relative_margins import Options, State

# Two images, five captions each. Every word is in one caption alone or in two of different images, so each of them has the
# rarity log 10 or log 5.
DOGS = ["dogs grass", "pugs lawn", "sun meadow", "puppies play", "pets rest"]
RETRIEVERS = ["dogs field", "grass retrievers", "golden coats", "two friends", "long walk"]
ONCE, TWICE = math.log(10), math.log(5)


def rows_of(folders, images, captions):
    state = State(Options(), folders)
    return state.margins(torch.tensor(images), torch.tensor(captions))


def test_a_margin_is_the_smallest_over_the_other_images_captions(tmp_path):
    folders = write_corpus(tmp_path, [DOGS, RETRIEVERS])
    dogs_grass, pugs_lawn = 0, 1
    margins = rows_of(folders, [1], [dogs_grass, pugs_lawn])
    # "dogs grass" shares one word each with "dogs field" and "grass retrievers", in both the rarer of the two words is the other.
    shared = TWICE * TWICE / (math.hypot(TWICE, TWICE) * math.hypot(TWICE, ONCE))
    torch.testing.assert_close(margins, torch.tensor([[1 - shared, 1.0]]))
    # The other way round another caption is the closest: of the two images' captions each has margins of its own.
    field = 5
    torch.testing.assert_close(rows_of(folders, [0], [field]), torch.tensor([[1 - shared]]))
    walk = 9
    torch.testing.assert_close(rows_of(folders, [0, 1], [walk]), torch.tensor([[1.0], [0.0]]))


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize(
    "options", [{}, {"hardest": False, "scale": 0.3}, {"mask_same_image": True}], ids=str
)
def test_the_loss_is_its_equation_written_as_loops(tmp_path, options, dense):
    texts = [own[: 1 + image % 3] for image, own in enumerate(random_captions(9))]
    folders, owners = write_corpus(tmp_path, texts), np.repeat(range(9), [1, 2, 3] * 3)
    vectors = CaptionVectors.load(folders["caption_vectors"])
    whole = np.zeros((len(vectors), vectors.columns.max() + 1))
    for row in range(len(vectors)):
        span = slice(vectors.offsets[row], vectors.offsets[row + 1])
        whole[row, vectors.columns[span]] = vectors.values[span]
    if dense:
        CaptionVectors(whole.astype(np.float16)).save(folders["caption_vectors"])
    captions = [3, 0, 17, 4, 9, 12]
    images, scores, queries = owners[captions], scores_of(), 4

    def margin(image, caption):
        return min(1 - float(whole[own] @ whole[caption]) for own in np.flatnonzero(owners == image))

    chosen = Options(**options)
    expected = 0.0
    for q in range(queries):
        costs = ([0.0], [0.0])
        for other in range(len(captions)):
            if other != q and not (chosen.mask_same_image and images[other] == images[q]):
                for side, (i, c) in zip(costs, ((q, other), (other, q)), strict=True):
                    allowed = chosen.scale * margin(images[i], captions[c])
                    side.append(max(0.0, allowed - scores[q, q].item() + scores[i, c].item()))
        expected += sum(map(max if chosen.hardest else sum, costs))
    rows = {"image_rows": torch.tensor(images), "caption_rows": torch.tensor(captions)}
    value = relative_margins.loss(scores, chosen, Batch(queries, **rows, state=State(chosen, folders)))
    assert value.item() == pytest.approx(expected, abs=1e-2 if dense else 1e-5)
