"""What every loss promises, one function each, for any module of `vsepp.losses` or of an installed package.

objective = Objective("max_of_hinges", options)
for promise in PROMISES:
    promise(objective)
"""

import dataclasses
from itertools import product
from typing import get_args, get_type_hints

import numpy as np
import pandas as pd
import torch
from hypothesis import strategies as st

from vsepp.base import components
from vsepp.base.spec import Component
from vsepp.data.tables import write_tables
from vsepp.data.vectors import tfidf_vectors
from vsepp.losses import goal
from vsepp.losses.batch import Batch

PAIRS = 6
# Captions of an image, and of the image with the most: COCO's images have five, some seven.
CAPTIONS, MOST_CAPTIONS = 5, 7
_SAME = (3, 0, 5, 3, 1, 2)


@dataclasses.dataclass(frozen=True)
class Objective:
    """A loss with its options, and what it reads."""

    name: str
    options: dict = dataclasses.field(default_factory=dict)
    folders: dict = dataclasses.field(default_factory=dict)
    """Role → folder, of what the loss reads."""
    symmetric: bool = True
    """Whether it treats both directions alike."""
    integrable: bool = True
    """Whether its gradient is its value's gradient; otherwise no loss has that gradient, and its value is for the log."""
    cosines: bool = False
    """Whether it is made for similarities from -1 to 1; far beyond them its value is NaN."""

    def __str__(self):
        return " ".join([self.name, *(f"{key}={value}" for key, value in self.options.items())])

    @property
    def module(self):
        return components.load("loss", self.name)

    def function(self):
        """Its options, and a function of scores and of what is known of the pairs, with one state."""
        options = components.options("loss", Component(self.name, self.options))
        needs = self.module.needs(options) if hasattr(self.module, "needs") else ()
        state = None
        if hasattr(self.module, "State"):
            torch.manual_seed(0)
            roles = getattr(self.module, "READS", ())
            state = self.module.State(options, {role: self.folders[role] for role in roles})

        def value(scores, order=range(PAIRS), **known):
            needed = {need: torch.tensor([rows(pair)[need] for pair in order]) for need in needs}
            return self.module.loss(scores, options, Batch(**{**needed, "state": state, **known}))

        return value, state


def rows(pair):
    """The image and the caption of a pair: of the first six, two show one image, with two of its captions."""
    image = _SAME[pair] if pair < PAIRS else pair
    return {"image_rows": image, "caption_rows": CAPTIONS * image + (pair == 0)}


def write_corpus(folder, texts):
    """Tables of images with captions, all for training, and vectors of their words; role → folder.

    Parameters
    ----------
    folder
        Where they go.
    texts
        Of each image, its captions.
    """
    owners = np.repeat(np.arange(len(texts)), [len(own) for own in texts])
    names = [f"{number}.jpg" for number in range(len(texts))]
    images = dict.fromkeys(("image_id", "file_name", "container", "member"), names)
    captions = {"caption_id": np.arange(len(owners)), "image_index": owners.astype(np.int32)}
    captions = pd.DataFrame({**captions, "text": [text for own in texts for text in own], "split": "train"})
    write_tables(folder / "corpus", pd.DataFrame({**images, "split": "train"}), captions)
    (folder / "vectors").mkdir()
    tfidf_vectors(captions, ("train",)).save(folder / "vectors")
    return {"corpus": folder / "corpus", "caption_vectors": folder / "vectors"}


def random_captions(images=128):
    """Captions of ten words; few words are frequent and many are rare, as in English.

    The last image has the most captions.
    """
    drawn = np.random.default_rng(0).zipf(1.3, ((images - 1) * CAPTIONS + MOST_CAPTIONS, 10))
    texts = [" ".join(f"w{word}" for word in words) for words in drawn]
    *others, last = range(0, images * CAPTIONS, CAPTIONS)
    return [*(texts[first : first + CAPTIONS] for first in others), texts[last:]]


def scores_of(pairs=PAIRS, seed=3, **options):
    """Similarities between -1 and 1, no two of them equal."""
    drawn = torch.rand(pairs, pairs, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return (2 * drawn - 1).to(**options)


def gradient(value, scores, **known):
    """A loss and its gradient."""
    scores = scores.clone().requires_grad_()
    loss = value(scores, **known)
    (slopes,) = torch.autograd.grad(loss, scores)
    return loss, slopes


def gives_a_scalar(objective):
    value, _ = objective.function()
    loss = value(scores_of(dtype=torch.float32))
    assert loss.shape == () and loss.dtype == torch.float32 and loss.isfinite()


def does_not_care_for_the_order_of_the_batch(objective):
    value, _ = objective.function()
    order, scores = [4, 2, 0, 5, 1, 3], scores_of()
    loss, slopes = gradient(value, scores)
    turned, turned_slopes = gradient(value, scores[order][:, order], order=order)
    torch.testing.assert_close(turned, loss)
    torch.testing.assert_close(turned_slopes, slopes[order][:, order])


def treats_directions_alike(objective):
    value, _ = objective.function()
    loss, slopes = gradient(value, scores_of())
    turned, turned_slopes = gradient(value, scores_of().T)
    same = torch.isclose(turned, loss) and torch.allclose(turned_slopes, slopes.T)
    assert same == objective.symmetric


def has_finite_gradients_in_bf16(objective):
    value, state = objective.function()
    usual = scores_of(dtype=torch.bfloat16)
    for scores in (usual, torch.full_like(usual, 0.7), 30 * usual):
        loss, slopes = gradient(value, scores)
        if objective.cosines and scores.abs().max() > 1:
            assert loss.isnan()
            continue
        assert loss.isfinite() and slopes.dtype == torch.bfloat16 and slopes.isfinite().all()
        for parameter in trained(state):
            assert torch.autograd.grad(value(scores), parameter)[0].isfinite().all()


def has_the_gradient_of_its_value(objective):
    value, state = objective.function()
    parameters = [] if state is None else trained(state.double())

    def has(known):
        # `gradcheck` moves the state's own numbers, so the function need not be handed them.
        return torch.autograd.gradcheck(
            lambda scores, *_: value(scores, **known),
            (scores_of().requires_grad_(), *parameters),
            raise_exception=objective.integrable,
        )

    known = ({}, {"queries": 3}, {"negatives": torch.tensor([0, 4, 5])})
    assert all(map(has, known)) == objective.integrable


def reads_no_more_than_queries_and_candidates(objective):
    """Training appends pairs to a batch, or takes negatives from a part of it: the pairs that are neither change nothing."""
    value, _ = objective.function()
    some, scores = [0, 1, 2], scores_of()
    loss, slopes = gradient(value, scores, queries=3, negatives=torch.tensor(some))
    alone, expected = gradient(value, scores[:3, :3], order=some)
    torch.testing.assert_close(loss, alone)
    torch.testing.assert_close(slopes, torch.nn.functional.pad(expected, (0, 3, 0, 3)))


def bears_odd_batches(objective):
    value, state = objective.function()
    odd = {
        "one pair": (scores_of(1), [0]),
        "one image's captions": (scores_of(2), [0, 3]),
    }
    for level in (-1, 0, 0.7, 1):
        equal = torch.full((PAIRS, PAIRS), level, dtype=torch.float64)
        odd[f"all similarities {level}"] = equal, range(PAIRS)
    for what, (scores, order) in odd.items():
        loss, slopes = gradient(value, scores, order=order)
        assert loss.isfinite() and slopes.isfinite().all(), what
        for parameter in trained(state):
            slope = torch.autograd.grad(value(scores, order=order), parameter, materialize_grads=True)[0]
            assert slope.isfinite().all(), what


def does_not_hide_what_is_not_finite(objective):
    value, _ = objective.function()
    # One score, a pair's score, and all scores of an embedding.
    for position in ((1, 2), (1, 1), (1,), (slice(None), 1)):
        scores = scores_of()
        scores[position] = torch.nan
        assert value(scores).isnan(), position


def trained(state):
    """Numbers of a loss that are trained with the model's."""
    return [] if state is None else list(state.parameters())


PROMISES = (
    gives_a_scalar,
    does_not_care_for_the_order_of_the_batch,
    treats_directions_alike,
    has_finite_gradients_in_bf16,
    has_the_gradient_of_its_value,
    reads_no_more_than_queries_and_candidates,
    bears_odd_batches,
    does_not_hide_what_is_not_finite,
)


def _every():
    """Every loss there is with its default options, of GOAL all combinations of weights."""
    weights = [get_args(get_type_hints(goal.Options)[name]) for name in ("triplet", "pair")]
    for name in components.known("loss"):
        if name != "goal":
            # An image and a caption have another margin than their partners have.
            yield Objective(name, symmetric=name != "relative_margins")
            continue
        for triplet, pair in product(*weights):
            options, known = {"triplet": triplet, "pair": pair}, triplet == pair == "constant"
            yield Objective(name, options, integrable=known, cosines=pair == "sigmoid_ms")


OBJECTIVES = list(_every())


@st.composite
def cases(draw):
    """Pairs, queries, negatives, each pair's image and a seed, for a naive loop to be held against."""
    pairs = draw(st.integers(1, 7))
    queries = draw(st.none() | st.integers(1, pairs))
    negatives = draw(st.none() | st.lists(st.integers(0, pairs - 1), min_size=1, max_size=pairs, unique=True))
    image_of = draw(st.none() | st.lists(st.integers(0, 3), min_size=pairs, max_size=pairs))
    return pairs, queries, negatives, image_of, draw(st.integers(0, 2**16))


def batch_of(queries=None, negatives=None, image_of=None):
    """The batch of a case."""
    tensors = [None if rows is None else torch.tensor(rows) for rows in (negatives, image_of)]
    return Batch(queries, *tensors)
