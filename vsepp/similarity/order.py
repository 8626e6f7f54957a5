"""Order similarity of Vendrov et al. (2015), Section 3.7: how far a caption is from lying below its image."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.autograd.function import once_differentiable

from vsepp.errors import VseppError

# Largest temporary, in elements. A CPU wants it to stay in its cache, a GPU wants few launches: a quarter of the
# 128 × 128 × 1024 of a batch, of which a step never holds the whole.
TILE_ON_CPU = 1 << 19
TILE_ON_GPU = 1 << 22


@dataclass(frozen=True)
class Options:
    """Options of the order similarity."""

    form: Literal["squared", "root"] = "squared"
    """The square, as in the paper, or its root, as in the released code."""


def score(image_embeddings: torch.Tensor, caption_embeddings: torch.Tensor, *, form: str) -> torch.Tensor:
    """Similarity of every image with every caption, s(i, c) = −‖max(0, g(c) − f(i))‖².

    Parameters
    ----------
    image_embeddings
        f, `(n, d)`.
    caption_embeddings
        g, `(m, d)`.
    form
        `squared`, as in the paper, or `root`: −‖max(0, g(c) − f(i))‖, as in the released code.
        The root's slope is infinite at 0; its gradient there is taken as 0.

    Returns
    -------
    torch.Tensor
        `(n, m)`, `scores[image, caption]`, none above 0. No temporary of n×m×d elements is made.
    """
    if form not in ("squared", "root"):
        raise VseppError(f"order similarity: unknown form {form!r}; expected 'squared' or 'root'")
    squared = _OrderViolation.apply(image_embeddings, caption_embeddings)
    if form == "squared":
        return -squared
    violated = squared > 0
    # The inner `where` keeps the infinite slope out of the backward pass: 0 × inf would be NaN.
    return -torch.where(violated, torch.where(violated, squared, 1.0).sqrt(), 0.0)


class _OrderViolation(torch.autograd.Function):
    """‖max(0, g − f)‖² of all pairs, tile by tile, in both passes."""

    @staticmethod
    def forward(ctx: Any, image_embeddings: torch.Tensor, caption_embeddings: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(image_embeddings, caption_embeddings)
        squared = image_embeddings.new_empty(len(image_embeddings), len(caption_embeddings))
        for rows, columns in _tiles(image_embeddings, caption_embeddings):
            excess = _excess(image_embeddings[rows], caption_embeddings[columns])
            squared[rows, columns] = torch.linalg.vecdot(excess, excess)
        return squared

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        image_embeddings, caption_embeddings = ctx.saved_tensors
        for_images = torch.zeros_like(image_embeddings)
        for_captions = torch.zeros_like(caption_embeddings)
        for rows, columns in _tiles(image_embeddings, caption_embeddings):
            # d‖max(0, g − f)‖² / dg = 2 max(0, g − f), and the opposite for f.
            slope = _excess(image_embeddings[rows], caption_embeddings[columns])
            slope *= 2 * gradient[rows, columns, None]
            for_images[rows] -= slope.sum(dim=1)
            for_captions[columns] += slope.sum(dim=0)
        return for_images, for_captions


def _excess(images: torch.Tensor, captions: torch.Tensor) -> torch.Tensor:
    """max(0, g − f), `(images, captions, d)`."""
    return (captions[None] - images[:, None]).clamp_(min=0)


def _tiles(images: torch.Tensor, captions: torch.Tensor) -> Iterator[tuple[slice, slice]]:
    """Cut images × captions into tiles whose temporaries stay within the bound."""
    bound = TILE_ON_CPU if images.device.type == "cpu" else TILE_ON_GPU
    width = max(1, min(len(captions), bound // max(1, captions.shape[1])))
    height = max(1, bound // max(1, width * captions.shape[1]))
    for top in range(0, len(images), height):
        for left in range(0, len(captions), width):
            yield slice(top, top + height), slice(left, left + width)
