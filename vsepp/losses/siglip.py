"""The sigmoid loss of SigLIP: whether an image and a caption belong together, asked of each pair by itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.nn.functional import softplus

from vsepp.base.declared import PositiveFloat
from vsepp.losses.batch import WHOLE, Batch
from vsepp.losses.common import negatives, positives, rows_for_mask

CITATION = "Zhai, Mustafa, Kolesnikov and Beyer, 2023: Sigmoid loss for language image pre-training"
needs = rows_for_mask


@dataclass(frozen=True)
class Options:
    """Options of the sigmoid loss."""

    temperature: PositiveFloat = 0.1
    """τ at the beginning: similarities are divided by it; 1/τ is learned."""
    bias: float = -10.0
    """Added to the divided similarities at the beginning; learned. Below 0: most pairs do not belong together."""
    mask_same_image: bool = False
    """Do not use captions of a query's own image, or that image, as its negatives."""


class State(torch.nn.Module):
    """The learned temperature, as log 1/τ, and the learned bias."""

    def __init__(self, options: Options, folders: Mapping[str, Path]) -> None:
        super().__init__()
        self.log_scale = torch.nn.Parameter(torch.tensor(-math.log(options.temperature)))
        self.bias = torch.nn.Parameter(torch.tensor(float(options.bias)))


def loss(scores: torch.Tensor, options: Options = Options(), batch: Batch = WHOLE) -> torch.Tensor:
    """Log-loss of telling pairs from negatives (Algorithm 1), summed over the queries.

    A negative counts half in each direction, so a whole batch counts each combination of image and caption once, as the source
    does. A query without negatives costs what its pair costs. Differs from the source, which divides the sum by the batch size.

    Parameters
    ----------
    scores
        `(n, n)`, `scores[image, caption]`, with the pairs on the diagonal.
    options
        See `Options`.
    batch
        What is known about the pairs; see `vsepp.losses.batch`. Without a `state` temperature and bias are the options'.

    Returns
    -------
    torch.Tensor
        Scalar.
    """
    captions, images, excluded = negatives(scores, batch, mask_same_image=options.mask_same_image)
    scale, bias = 1 / options.temperature, options.bias
    if batch.state is not None:
        scale, bias = batch.state.log_scale.exp(), batch.state.bias
    # −log σ(x) is softplus(−x).
    positive = softplus(-(scale * positives(scores, batch) + bias)).sum()
    wrong = softplus(scale * captions + bias) + softplus(scale * images + bias)
    return positive + wrong.masked_fill(excluded, 0.0).sum() / 2
