"""Hinge costs of the negatives of a batch, which every loss of the paper is made of."""

from __future__ import annotations

import torch


def hinge_costs(
    scores: torch.Tensor,
    margin: float,
    *,
    queries: int | None = None,
    negatives: torch.Tensor | None = None,
    image_of: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """By how much each negative violates the margin of each query, the brackets [·]₊ of Eqs. 5 and 6.

    Of n loaded pairs, the first `queries` are queries, and `negatives` are the candidates for negatives
    (Section 3.6): a subset of the batch, or more pairs than the batch has. A pair is no negative of itself.

    Parameters
    ----------
    scores
        `(n, n)`, `scores[image, caption]`; the pairs lie on the diagonal.
    margin
        α.
    queries
        Number of queries; all pairs by default.
    negatives
        int64 `(m,)`, positions among the n pairs; all pairs by default.
    image_of
        `(n,)`, which image each pair shows. Where given, captions of a query's own image, and that image
        itself, are no negatives of it; without it two captions of one image are negatives of each other.

    Returns
    -------
    tuple[torch.Tensor, torch.Tensor]
        `captions[query, negative]` = [α − s(i, c) + s(i, ĉ)]₊ for the image as query, and
        `images[query, negative]` = [α − s(i, c) + s(î, c)]₊ for the caption as query; each `(queries, m)`,
        0 where the candidate is no negative.
    """
    pairs = torch.arange(len(scores), device=scores.device)
    asked = pairs if queries is None else pairs[:queries]
    if negatives is None:
        candidates, of_image, of_caption = pairs, scores[asked], scores.T[asked]
    else:
        candidates = negatives
        of_image = scores[asked[:, None], candidates]
        of_caption = scores.T[asked[:, None], candidates]
    same = candidates if image_of is None else image_of[candidates]
    own = asked if image_of is None else image_of[asked]
    excluded = own[:, None] == same
    positive = scores.diagonal()[: len(asked), None]

    def costs(negative: torch.Tensor) -> torch.Tensor:
        return torch.relu(margin - positive + negative).masked_fill(excluded, 0.0)

    return costs(of_image), costs(of_caption)
