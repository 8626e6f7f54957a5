"""Inner product (Eq. 3): the cosine where both sides are normalised, else a dot product (VSE0)."""

from __future__ import annotations

import torch


def score(image_embeddings: torch.Tensor, caption_embeddings: torch.Tensor) -> torch.Tensor:
    """Similarity of every image with every caption, s(i, c) = f(i)·g(c) (Eq. 3).

    Parameters
    ----------
    image_embeddings
        `(n, d)`.
    caption_embeddings
        `(m, d)`.

    Returns
    -------
    torch.Tensor
        `(n, m)`, `scores[image, caption]`.
    """
    return image_embeddings @ caption_embeddings.T
