"""Ranks counted on the device that trains: those of `vsepp.evaluation.ranks`, by the same definition.

Dot products are exact on the same grid, so their ranks are the same on every device. An order similarity is summed
in float32, pairwise and in one order for all pairs; where the CPU's sums round to another last digit, wrong items
that are nearer than that to the right one may fall on its other side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from vsepp.evaluation.ranks import Ranks, checked_problem
from vsepp.evaluation.tiles import checked_similarity, on_grid

# Elements of the largest temporaries: 128 MB of float64, enough to keep a GPU busy.
_ELEMENTS = 1 << 24

Score = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class _Similarity:
    """How embeddings are put on the device and scored there. Equal pairs get equal bits."""

    prepare: Callable[[np.ndarray], np.ndarray]
    tile: Score
    """Images `(n, d)` and captions `(m, d)` → `scores[image, caption]`."""
    pairs: Score
    """Images and captions `(n, d)` → the score of each with the other, `(n,)`."""


def ranks_on_device(
    image_embeddings: np.ndarray,
    caption_embeddings: np.ndarray,
    caption_to_image: np.ndarray,
    similarity: str,
    device: torch.device,
) -> Ranks:
    """Rank every image against every caption, both ways, on a device that has float64.

    Its memory holds the images' embeddings and a few times 128 MB, or one caption's scores where these take more.

    Parameters
    ----------
    image_embeddings, caption_embeddings, caption_to_image, similarity
        As for `vsepp.evaluation.ranks.retrieval_ranks`.
    device
        Where scores are made and counted.

    Raises
    ------
    VseppError
        As `retrieval_ranks`.
    """
    made = _SIMILARITIES[checked_similarity(similarity)]
    images, captions, owner = checked_problem(image_embeddings, caption_embeddings, caption_to_image)
    with torch.inference_mode():
        per_image, per_caption = _count(images, captions, owner, made, device)
    return Ranks(image_to_text=per_image.cpu().numpy() / 2, text_to_image=per_caption.cpu().numpy() / 2)


def _count(
    images: np.ndarray, captions: np.ndarray, owner: np.ndarray, similarity: _Similarity, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Twice the ranks: an item above counts by > and by ≥, a tied one by ≥ alone."""

    def put(embeddings: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(similarity.prepare(embeddings)).to(device)

    queries, owners = put(images), torch.from_numpy(owner).to(device)
    width = max(1, _ELEMENTS // max(images.shape))
    blocks = [slice(start, min(start + width, len(captions))) for start in range(0, len(captions), width)]
    own = torch.cat([similarity.pairs(queries[owners[cols]], put(captions[cols])) for cols in blocks])
    highest = np.full(len(images), -np.inf)
    np.maximum.at(highest, owner, own.cpu().numpy())
    best = torch.from_numpy(highest).to(own)[:, None]
    per_image, per_caption = torch.zeros(len(images), dtype=torch.int64, device=device), []
    for cols in blocks:
        scores = similarity.tile(queries, put(captions[cols]))
        # Nothing compares with NaN: an image's own captions are no wrong items.
        scores[owners[cols], torch.arange(scores.shape[1], device=device)] = torch.nan
        per_image += (scores > best).sum(dim=1) + (scores >= best).sum(dim=1)
        per_caption.append((scores > own[cols]).sum(dim=0) + (scores >= own[cols]).sum(dim=0))
    return per_image, torch.cat(per_caption)


def _dot_tile(images: torch.Tensor, captions: torch.Tensor) -> torch.Tensor:
    return images @ captions.T


def _order_tile(images: torch.Tensor, captions: torch.Tensor) -> torch.Tensor:
    scores = images.new_empty(len(images), len(captions))
    height = max(1, _ELEMENTS // captions.numel())
    for start in range(0, len(images), height):
        scores[start : start + height] = _order(images[start : start + height, None], captions)
    return scores


def _order(images: torch.Tensor, captions: torch.Tensor) -> torch.Tensor:
    """−‖max(0, g−f)‖² over the last dimension.

    Halves are added to each other, element by element: a sum over a dimension would take its order from where in
    memory a row lies.
    """
    squares = (captions - images).clamp_(min=0).square_()
    left = squares.shape[-1]
    while left > 1:
        half = left // 2
        squares[..., :half] += squares[..., left - half : left]
        left -= half
    return -squares[..., 0]


_SIMILARITIES = {
    "dot": _Similarity(on_grid, _dot_tile, torch.linalg.vecdot),
    "order": _Similarity(np.asarray, _order_tile, _order),
}
