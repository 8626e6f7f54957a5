"""The matching loss of X-VLM: whether an image and a caption belong together, asked of pairs and of drawn negatives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from vsepp.base.hashed import NEGATIVE_CAPTION, NEGATIVE_IMAGE, keys_of, uniform
from vsepp.base.placement import upload
from vsepp.models.joint import JointEmbedding
from vsepp.models.sets import Sets

FLOOR = 1e-5
"""Added to each probability, so that every candidate can be drawn."""


@dataclass(frozen=True)
class Candidates:
    """What decides which negatives are drawn for the n pairs of a step.

    The numbers are a function of (draw, epoch, caption id), so that a resumed training draws the same.
    """

    image_rows: torch.Tensor
    """int64 `(n,)`, each pair's row of the images table."""
    for_images: torch.Tensor
    """float64 `(n,)`, uniform in [0, 1): decides each image's caption."""
    for_captions: torch.Tensor
    """The same: decides each caption's image."""

    @classmethod
    def from_pairs(
        cls, image_rows: np.ndarray, caption_ids: np.ndarray, draw: int, epoch: int, device: torch.device
    ) -> Candidates:
        """Take pairs by their images' rows and their captions' ids, `(n,)` each."""
        keys = keys_of(caption_ids, draw, epoch)
        numbers = (uniform(keys, which) for which in (NEGATIVE_CAPTION, NEGATIVE_IMAGE))
        return cls(*(upload(values, device) for values in (image_rows, *numbers)))


def matching_loss(
    model: JointEmbedding,
    images: Sets,
    captions: Sets,
    scores: torch.Tensor,
    candidates: Candidates,
    queries: int,
    scale: torch.Tensor | None = None,
) -> torch.Tensor:
    """Cross-entropy of "match" and "no match", per query and direction as other losses: 2 × `queries` × its mean.

    The mean is over 3 × `queries` fusions: each query's pair, its image with a drawn caption, and its caption with a drawn image. A
    query that has no candidate of another image has no drawn fusions.

    Parameters
    ----------
    model
        A model with a matcher.
    images, captions
        Vectors and states of the n pairs of a step.
    scores
        `(n, n)`, `scores[image, caption]`: the larger a score, the more often its pair is drawn; scores get no gradient.
    candidates
        The n pairs as candidates.
    queries
        Number of pairs, from the first, that are queries.
    scale
        1/τ that the loss of the embeddings trains, for a matcher without a temperature of its own.
    """
    options = model.matcher_options
    sharp = scores.detach().double()
    if options.temperature is not None:
        sharp = sharp / options.temperature
    else:
        assert scale is not None  # parameters are checked for one of both
        sharp = sharp * scale
    pairs = torch.arange(queries, device=scores.device)
    rows = candidates.image_rows
    among, for_images, for_captions = options.drawn_from, candidates.for_images, candidates.for_captions
    other_captions, has_caption = draw_negatives(sharp[:queries], rows, for_images[:queries], among)
    other_images, has_image = draw_negatives(sharp.T[:queries], rows, for_captions[:queries], among)
    logits = model.match(
        images.take(torch.cat([pairs, pairs, other_images])),
        captions.take(torch.cat([pairs, other_captions, pairs])),
    )
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    labels = torch.zeros(len(logits), dtype=torch.int64, device=scores.device)
    labels[:queries] = 1
    costs = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
    counted = torch.cat([torch.ones_like(has_image), has_caption, has_image])
    return 2 * queries * options.weight * (costs * counted).sum() / counted.sum()


def draw_negatives(
    scores: torch.Tensor, image_rows: torch.Tensor, uniforms: torch.Tensor, among: int | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw a candidate for each query in proportion to softmax(scores) + `FLOOR`, but none of the query's own image.

    Parameters
    ----------
    scores
        float64 `(queries, n)`, scores of the queries, the first of n pairs, with all n pairs.
    image_rows
        int64 `(n,)`.
    uniforms
        float64 `(queries,)`.
    among
        Pairs, one after another, among which each of them draws; `None`: all.

    Returns
    -------
    tuple[torch.Tensor, torch.Tensor]
        Positions of the drawn candidates, int64 `(queries,)`, and whether a query has candidates, bool `(queries,)`.
    """
    excluded = image_rows[: len(scores), None] == image_rows
    if among:
        group = torch.arange(len(image_rows), device=scores.device) // among
        elsewhere = group[: len(scores), None] != group
        scores, excluded = scores.masked_fill(elsewhere, -torch.inf), excluded | elsewhere
    weights = (torch.softmax(scores, dim=1) + FLOOR).masked_fill(excluded, 0.0)
    below = weights.cumsum(dim=1)
    total = below[:, -1:]
    position = (below <= uniforms[:, None] * total).sum(dim=1)
    return position.clamp(max=len(image_rows) - 1), (total > 0).squeeze(1)
