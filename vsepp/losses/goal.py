"""GOAL: gradients made of a triplet weight and a pair weight; most of these gradients belong to no loss.

Eq. 3 pulls a query to its positive by T·P₊ and pushes it from its hardest negative by T·P₋, in both directions. T depends on
both similarities of the triplet (Eqs. 5, 7 and 8), P₊ and P₋ on one similarity, with or without the other pairs of the batch
(Eqs. 9 to 13).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field

from vsepp.base.declared import Fraction, PositiveFloat
from vsepp.losses.batch import WHOLE, Batch, first_epoch_after
from vsepp.losses.common import Triplets, hinge_costs

CITATION = "Xuan and Chen, 2023: Dissecting deep metric learning losses for image-text retrieval (GOAL)"
KNOWN = {
    "constant, constant": {"title": "triplet", "loss": "max_of_hinges", "options": {}, "factor": "1"},
    "nca, constant": {"title": "NT-Xent", "loss": "nt_xent", "options": {}, "factor": "τ"},
    "circle, linear": {"title": "Circle", "loss": "circle", "options": {}, "factor": "2τ"},
    "constant, sigmoid": {
        "title": "binomial deviance",
        "loss": "binomial_deviance",
        "options": {"margin": None},
        "factor": "1",
    },
    "constant, sigmoid_ms": {
        "title": "multi-similarity",
        "loss": "multi_similarity",
        "options": {"margin": None},
        "factor": "",
    },
}
"""Table 1: weight of triplets, weight of pairs → the known loss with that gradient; the other combinations are new.

`title` is the paper's name of the loss, `loss` its module. GOAL with these `options` has its gradient, divided by `factor`; where
this is empty, the paper says so, and the gradient is another one.
"""
MARGIN = 0.2
"""Margin of SH, where the constant triplet weight has none."""


@dataclass(frozen=True)
class Options:
    """Which of the 15 combinations, and its constants. The defaults are what the text prints."""

    triplet: Literal["constant", "nca", "circle"] = "constant"
    """T, triplet weight: constant (Eq. 5), of NCA (Eq. 7) or of the Circle loss (Eq. 8)."""
    pair: Literal["constant", "linear", "sigmoid", "linear_ms", "sigmoid_ms"] = "constant"
    """P, pair weight: constant (Eq. 9), linear (Eq. 10), sigmoid (Eq. 11), or both relative to other pairs (Eqs. 13, 12)."""
    margin: PositiveFloat | None = 0.2
    """m of the constant triplet weight: triplets beyond it get weight 0; null: all get weight 1. Text: .2 in Figure 2.
    Code: no margin."""
    tau: PositiveFloat = 10.0
    """τ of the NCA and Circle weights. Text: 10, only in Figure 2. Code: 10 in its
    functions, overridden by its class with 1."""
    offset: float = 0.0
    """Offset of the Circle weight, added to the argument of its sigmoid. Text: none. Code: .5; without it most triplets get almost no weight."""
    alpha: PositiveFloat = 2.0
    """α of the sigmoid weight of positives. Text: 2, in Figure 3. Code: 2."""
    beta: PositiveFloat = 10.0
    """β of the sigmoid weight of negatives. Text: 10, in Figure 3. Code: 10."""
    threshold: float = 0.5
    """λ of both sigmoid weights. Text: .5, in Figure 3. Code: .5."""
    epsilon: Annotated[float, Field(ge=0)] = 0.1
    """ε: linear_ms and sigmoid_ms compare with positives up to ε above the hardest negative, and with negatives down to ε below the
    farthest positive. Text: not given. Code: .1."""
    curriculum: Fraction = 0.0
    """Part of the epochs, from the first, that are trained with SH, as VSE∞ begins; its margin is the margin of the constant
    triplet weight, or .2. Text: not mentioned; "all other training settings are the same". Code: not public."""
    empty_sets: Literal["plain", "zero"] = "plain"
    """Where ε leaves no pair to compare with: plain, the weight is the linear or sigmoid weight; zero, the mean over no pair is 0. Text: not
    mentioned. Code: zero, which makes the sigmoid_ms weight of a negative at .9 as large as 55."""


def loss(scores: torch.Tensor, options: Options = Options(), batch: Batch = WHOLE) -> torch.Tensor:
    """A value to log, whose gradient is Eq. 3, summed over the queries and both directions.

    With respect to L2-normalised embeddings the gradient is T·(P₋·y' − P₊·y) for an image x as query, and likewise for a
    caption; a factor before the loss, or losses that are added, scale and add it. Most of these gradients belong to no
    loss, so all combinations log the same value. With the margin m it is the MH loss, [m + n − p]₊, so that histories can be
    held against VSE++'s histories; without a margin it is n − p, as in the released code. While the curriculum lasts it is
    the SH loss. The value measures what is minimised only with both weights constant.

    Differs from the paper: Eq. 3 leaves out the gradient of an image as some caption's hardest negative, and of a caption as
    some image's; the released code has it, and so do we. A query without negatives counts nothing. Similarities that are not
    finite make the value NaN, and so do weights that overflow: sigmoid_ms is made for cosines.

    Parameters
    ----------
    scores
        `(n, n)`, `scores[image, caption]`; the pairs lie on the diagonal.
    options
        See `Options`.
    batch
        Its queries, and m candidates for negatives. The other positives of linear_ms and sigmoid_ms are the other queries' positives.

    Returns
    -------
    torch.Tensor
        Scalar, fp32 or wider.
    """
    if batch.epoch < first_epoch_after(options.curriculum, batch.epochs):
        captions, images = hinge_costs(scores, options.margin or MARGIN, batch)
        return captions.sum() + images.sum()
    triplets = Triplets.from_scores(scores, batch)
    p, n = triplets.positive, triplets.negative
    with torch.no_grad():
        weight = triplet_weight(p, n, options).masked_fill(triplets.alone, 0.0)
        attraction, repulsion = pair_weights(p, n, options, *_relative(triplets, options))
        value = n - p if options.margin is None else torch.relu(options.margin + n - p)
    # Each bracket is zero and has the gradient of its first term alone.
    steered = weight * (repulsion * (n - n.detach()) - attraction * (p - p.detach()))
    return (value.masked_fill(triplets.alone, 0.0) + steered).sum()


def triplet_weight(p: torch.Tensor, n: torch.Tensor, options: Options) -> torch.Tensor:
    """T of triplets with similarities p to the positive and n to the negative, of any one shape."""
    if options.triplet == "nca":
        return torch.sigmoid(options.tau * (n - p))
    if options.triplet == "circle":
        return torch.sigmoid(options.tau * (n.square() - p * (2 - p) + options.offset))
    return torch.ones_like(p) if options.margin is None else (options.margin + n > p).to(p)


def pair_weights(
    p: torch.Tensor,
    n: torch.Tensor,
    options: Options,
    others_p: torch.Tensor | float = 0.0,
    others_n: torch.Tensor | float = 0.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """P₊ and P₋ of pairs with similarities p to the positive and n to the negative, of any one shape.

    Parameters
    ----------
    p, n
        Similarities.
    options
        See `Options`.
    others_p, others_n
        m₊ and m₋ of Eqs. 12 and 13: where a pair stands among the others; the other weights do not read them.
    """
    if options.pair == "linear":
        return 1 - p, n
    if options.pair == "linear_ms":
        return (1 - others_p) * (1 - p), (1 + others_n) * n
    far, near = options.alpha * (p - options.threshold), options.beta * (n - options.threshold)
    if options.pair == "sigmoid":
        return torch.sigmoid(-far), torch.sigmoid(near)
    if options.pair == "sigmoid_ms":
        return 1 / (others_p + far.exp()), 1 / (others_n + (-near).exp())
    return torch.ones_like(p), torch.ones_like(n)


def _relative(triplets: Triplets, options: Options) -> tuple[torch.Tensor | float, torch.Tensor | float]:
    """m₊ and m₋, means over the other positives of the batch and over the query's other negatives."""
    if options.pair not in ("linear_ms", "sigmoid_ms"):
        return 0.0, 0.0
    p, n = triplets.positive[:, None], triplets.negative[:, None]
    positives = triplets.positive[: len(p) // 2]  # both directions have the same ones
    own = torch.eye(len(positives), dtype=torch.bool, device=p.device).repeat(2, 1)
    mask_p = ~own & (positives < n + options.epsilon)
    mask_n = ~triplets.excluded & (triplets.candidates > positives.min() - options.epsilon)
    mask_n.scatter_(1, triplets.hardest[:, None], False)
    above_p, above_n = p - positives, n - triplets.candidates
    if options.pair == "sigmoid_ms":
        above_p, above_n = (options.alpha * above_p).exp(), (-options.beta * above_n).exp()
    # The linear weight is linear_ms with means of 0, the sigmoid weight sigmoid_ms with means of 1.
    empty = 1.0 if options.pair == "sigmoid_ms" and options.empty_sets == "plain" else 0.0
    return _mean(above_p, mask_p, empty), _mean(above_n, mask_n, empty)


def _mean(values: torch.Tensor, mask: torch.Tensor, empty: float) -> torch.Tensor:
    """Mean of the values of each row that the mask keeps; `empty` where it keeps none."""
    number = mask.sum(dim=1)
    mean = values.masked_fill(~mask, 0.0).sum(dim=1) / number.clamp(min=1)
    return mean.masked_fill(number == 0, empty)
