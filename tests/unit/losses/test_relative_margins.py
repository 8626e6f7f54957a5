"""Margins from the captions' similarity: the post's numbers, an example made by hand, and a naive loop."""

import math

import numpy as np
import pytest
import torch
from objectives import random_captions, scores_of, write_corpus

from vsepp.data.vectors import CaptionVectors
from vsepp.losses import Batch, max_of_hinges, relative_margins
from vsepp.losses.relative_margins import Options, State
from vsepp.losses.violations import hinge_costs

# Two images, five captions each. Every word is in one caption alone or in two of different images, so each of them has the
# rarity log 10 or log 5.
DOGS = ["dogs grass", "pugs lawn", "sun meadow", "puppies play", "pets rest"]
RETRIEVERS = ["dogs field", "grass retrievers", "golden coats", "two friends", "long walk"]
ONCE, TWICE = math.log(10), math.log(5)


def rows_of(folders, images, captions):
    state = State(Options(), folders)
    return state.margins(torch.tensor(images), torch.tensor(captions))


@pytest.mark.parametrize(("similarity", "cost"), [(0.95, 0.15), (0.79, 0.0)])
def test_a_constant_margin_costs_what_the_post_says(similarity, cost):
    # The caption "Two dogs on the grass on a sunny day" is 1.0 with its image, and so much with another one.
    scores = torch.tensor([[1.0, -1.0], [similarity, 1.0]], dtype=torch.float64)
    _, of_caption = hinge_costs(scores, 0.2)
    assert of_caption[0, 1].item() == pytest.approx(cost, abs=1e-12)
    assert max_of_hinges.loss(scores, batch=Batch(queries=1)).item() == pytest.approx(cost, abs=1e-12)


def test_a_margin_is_the_smallest_over_the_other_images_captions(tmp_path):
    folders = write_corpus(tmp_path, [DOGS, RETRIEVERS])
    dogs_grass, pugs_lawn = 0, 1
    found = rows_of(folders, [1], [dogs_grass, pugs_lawn])
    # "dogs grass" shares one word each with "dogs field" and "grass retrievers", in both the rarer of the two words is the other.
    shared = TWICE * TWICE / (math.hypot(TWICE, TWICE) * math.hypot(TWICE, ONCE))
    torch.testing.assert_close(found, torch.tensor([[1 - shared, 1.0]]))
    # The other way round another caption is the closest: of the two images' captions each has margins of its own.
    field = 5
    torch.testing.assert_close(rows_of(folders, [0], [field]), torch.tensor([[1 - shared]]))
    walk = 9
    torch.testing.assert_close(rows_of(folders, [0, 1], [walk]), torch.tensor([[1.0], [0.0]]))


def test_alike_captions_have_a_smaller_margin_in_both_directions(tmp_path):
    folders = write_corpus(tmp_path, [DOGS, RETRIEVERS, ["bread"]])
    scores = torch.tensor([[1.0, 0.5, 0.5], [0.5, 1.0, 0.5], [0.5, 0.5, 1.0]])
    known = Batch(
        image_rows=torch.tensor([0, 1, 2]),
        caption_rows=torch.tensor([0, 5, 10]),
        state=State(Options(), folders),
    )
    margins = known.state.margins(known.image_rows, known.caption_rows)
    assert margins.diagonal().tolist() == pytest.approx([0, 0, 0], abs=1e-6)
    assert 0 < margins[0, 1] < 0.9 and margins[0, 2] == margins[2, 0] == 1
    every = relative_margins.loss(scores, Options(hardest=False), known)
    others = (margins - 0.5).clamp(min=0)
    assert every.item() == pytest.approx(2 * (others.sum() - others.diagonal().sum()).item())
    assert relative_margins.loss(scores, Options(), known).item() == pytest.approx(6 * 0.5)
    assert relative_margins.loss(scores, Options(scale=0.4), known).item() == 0


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

    made = Options(**options)
    expected = 0.0
    for q in range(queries):
        costs = ([0.0], [0.0])
        for other in range(len(captions)):
            if other != q and not (made.mask_same_image and images[other] == images[q]):
                for found, (i, c) in zip(costs, ((q, other), (other, q)), strict=True):
                    allowed = made.scale * margin(images[i], captions[c])
                    found.append(max(0.0, allowed - scores[q, q].item() + scores[i, c].item()))
        expected += sum(map(max if made.hardest else sum, costs))
    known = Batch(
        queries,
        image_rows=torch.tensor(images),
        caption_rows=torch.tensor(captions),
        state=State(made, folders),
    )
    found = relative_margins.loss(scores, made, known)
    assert found.item() == pytest.approx(expected, abs=1e-2 if dense else 1e-5)
