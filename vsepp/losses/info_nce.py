"""InfoNCE with a learned temperature, the loss of CLIP: each query picks its pair among all candidates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import torch
from pydantic import Field

from vsepp.losses.batch import WHOLE, Batch
from vsepp.losses.common import negatives, positives, rows_for_mask

CITATION = (
    "Radford et al., 2021: Learning transferable visual models from natural language supervision; "
    "van den Oord, Li and Vinyals, 2018: Representation learning with contrastive predictive coding"
)
TRAINS_TEMPERATURE = True
_LARGEST_SCALE = 100.0


def needs(options: Options) -> tuple[str, ...]:
    """What the loss needs to know about the pairs."""
    return ("image_rows",) if options.share_same_image else rows_for_mask(options)


@dataclass(frozen=True)
class Options:
    """Options of InfoNCE."""

    temperature: Annotated[float, Field(ge=0.01)] = 0.07
    """τ at the beginning: similarities are divided by it."""
    learned: Literal["log_scale", "temperature"] = "log_scale"
    """What is trained: log 1/τ, as in CLIP, up to its limit of 1/τ = 100; or τ itself, without a limit, as in X-VLM."""
    mask_same_image: bool = False
    """Do not use captions of a query's own image, or that image, as its negatives."""
    share_same_image: bool = False
    """A query's target is shared in equal parts by its own pair and all candidates of its own image, as in X-VLM's image-text
    contrastive loss (ITC)."""

    def __post_init__(self) -> None:
        if self.mask_same_image and self.share_same_image:
            raise ValueError("share_same_image: got true with mask_same_image; expected one of them")


class State(torch.nn.Module):
    """The learned temperature: τ, or log 1/τ."""

    def __init__(self, options: Options, folders: Mapping[str, Path]) -> None:
        super().__init__()
        self.learned = options.learned
        if self.learned == "temperature":
            self.temperature = torch.nn.Parameter(torch.tensor(options.temperature))
        else:
            self.log_scale = torch.nn.Parameter(torch.tensor(-math.log(options.temperature)))

    def scale(self) -> torch.Tensor:
        """1/τ, a scalar; log 1/τ that a step pushed above the limit is first set back to the limit, as in CLIP."""
        if self.learned == "temperature":
            return 1 / self.temperature
        with torch.no_grad():
            self.log_scale.clamp_(max=math.log(_LARGEST_SCALE))
        return self.log_scale.exp()


def loss(scores: torch.Tensor, options: Options = Options(), batch: Batch = WHOLE) -> torch.Tensor:
    """Cross-entropy of picking a query's own pair, summed over the queries and both directions.

    A query without negatives costs nothing; equal similarities cost log(m + 1) for m negatives. Differs from the source: CLIP
    takes the mean over the batch and over the directions; here both are summed, as in the other losses. With shared targets a
    query costs the mean cross-entropy of picking one of the candidates that share its target.

    Parameters
    ----------
    scores
        `(n, n)`, `scores[image, caption]`, with the pairs on the diagonal.
    options
        See `Options`.
    batch
        What is known about the pairs; see `vsepp.losses.batch`. Without a `state` the temperature is the option's.

    Returns
    -------
    torch.Tensor
        Scalar.
    """
    captions, images, excluded = negatives(scores, batch, mask_same_image=options.mask_same_image)
    scale = 1 / options.temperature if batch.state is None else batch.state.scale()
    positive = positives(scores, batch)[:, None]
    shared = None
    if options.share_same_image:
        # Candidates of the query's own image, without its own pair.
        shared = negatives(scores, batch, mask_same_image=True).excluded & ~excluded

    def costs(negative: torch.Tensor) -> torch.Tensor:
        difference = scale * (negative - positive)
        above = difference.masked_fill(excluded, -torch.inf)
        # The positive itself is 0 above the positive.
        cost = torch.nn.functional.pad(above, (1, 0)).logsumexp(dim=1)
        if shared is not None:
            cost = cost - difference.masked_fill(~shared, 0.0).sum(dim=1) / (1 + shared.sum(dim=1))
        return cost.sum()

    return costs(captions) + costs(images)
