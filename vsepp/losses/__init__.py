"""Losses over the similarities of a batch: one module each, found by its name (`vsepp.components`).

A loss is a function of `scores[image, caption]`, with the pairs on the diagonal:

    loss(scores, options, batch) -> scalar, summed over queries and both directions

`options` is the module's `Options`, a frozen dataclass whose defaults are the paper's; `batch` says what else is known
of the pairs. Beside `loss` and `Options` a module may define

- `CITATION`: where the loss comes from;
- `needs(options)`: which of `image_rows` and `caption_rows` it wants in `batch`; they are `None` otherwise;
- `READS`: roles of the artefacts it reads, such as `("corpus",)`;
- `class State(torch.nn.Module)`, made once as `State(options, folders)`: parameters of its own, which are trained,
  clipped and checkpointed with the model's, published beside it (`loss.safetensors`) and taken up by fine-tuning; and what it has
  read from the folders (role → path) of `READS`, in buffers that are better not persistent where they are large.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Batch:
    """What is known of the n pairs behind `scores`, besides the scores."""

    queries: int | None = None
    """The first so many pairs are queries; `None` means all."""
    negatives: torch.Tensor | None = None
    """int64 `(m,)`, positions among the n pairs of the candidates for negatives (Section 3.6); `None` means all."""
    image_rows: torch.Tensor | None = None
    """int64 `(n,)`, each pair's row of the images table: pairs with equal ones show the same image."""
    caption_rows: torch.Tensor | None = None
    """int64 `(n,)`, each pair's row of the captions table."""
    epoch: int = 0
    """From 0."""
    epochs: int = 1
    """Of the whole training."""
    state: Any = None
    """The loss's own `State`; in a training of a loss without one an empty module."""


WHOLE = Batch()
"""All pairs are queries and candidates, and nothing else is known of them."""


def first_epoch_after(fraction: float, epochs: int) -> int:
    """The epoch, from 0, that follows a fraction of all epochs: the nearest one, halves up.

    A fraction such as 2/3 of 12 epochs must give 8 whichever way its last digit was rounded.
    """
    return math.floor(fraction * epochs + 0.5)
