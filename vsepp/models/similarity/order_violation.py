"""The order violation of all pairs of a batch, with its gradient."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.autograd.function import once_differentiable

# Largest temporary, in elements: small enough for a CPU's cache, large enough for few launches on a GPU. On a GPU it is a
# quarter of the 128 × 128 × 1024 elements of a batch, which are never held at once.
TILE_ON_CPU = 1 << 19
TILE_ON_GPU = 1 << 22


class OrderViolation(torch.autograd.Function):
    """‖max(0, g − f)‖² of images f `(n, d)` and captions g `(m, d)`, `(n, m)`, tile by tile in both passes."""

    @staticmethod
    def forward(ctx: Any, images: torch.Tensor, captions: torch.Tensor) -> torch.Tensor:
        """Squared lengths `[image, caption]`."""
        ctx.save_for_backward(images, captions)
        squared = images.new_empty(len(images), len(captions))
        for rows, columns in _tiles(images, captions):
            excess = _excess(images[rows], captions[columns])
            squared[rows, columns] = torch.linalg.vecdot(excess, excess)
        return squared

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """d‖max(0, g − f)‖² / dg = 2 max(0, g − f), and the opposite for f."""
        images, captions = ctx.saved_tensors
        image_gradient, caption_gradient = torch.zeros_like(images), torch.zeros_like(captions)
        for rows, columns in _tiles(images, captions):
            tile = _excess(images[rows], captions[columns]).mul_(2 * gradient[rows, columns, None])
            image_gradient[rows] -= tile.sum(dim=1)
            caption_gradient[columns] += tile.sum(dim=0)
        return image_gradient, caption_gradient


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
