"""What a loss is, and what it is told about the pairs of a batch.

A loss is a function of `scores[image, caption]`, with the pairs on the diagonal:

    loss(scores, options, batch) -> scalar, summed over queries and both directions

`options` is the module's `Options`, a frozen dataclass whose defaults are the paper's; `batch` holds what else is known
about the pairs. Besides `loss` and `Options` a module may define

- `CITATION`: the source of the loss;
- `needs(options)`: which of `image_rows` and `caption_rows` it needs in `batch`; the others are `None`;
- `READS`: roles of the artefacts that it reads, such as `("corpus",)`. A loss that reads `caption_vectors` says by its option
  `vectors` which ones (`vsepp.base.spec.VectorsSpec`);
- `class State(torch.nn.Module)`, made once as `State(options, folders)`: its own parameters, which are trained,
  clipped and checkpointed with the model's, saved beside the model (`loss.safetensors`) and continued by fine-tuning; and
  the data read from the folders (role → path) of `READS`, in buffers, which should not be persistent if they are large;
- `TRAINS_TEMPERATURE = True`: the loss trains a temperature τ, and its `State` has a method `scale()` that gives 1/τ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Batch:
    """What is known about the n pairs behind `scores`."""

    queries: int | None = None
    """Number of pairs, from the first, that are queries; `None`: all."""
    negatives: torch.Tensor | None = None
    """int64 `(m,)`, positions of the candidates for negatives among the n pairs (Section 3.6); `None`: all."""
    image_rows: torch.Tensor | None = None
    """int64 `(n,)`, each pair's row of the images table: pairs with equal rows show the same image."""
    caption_rows: torch.Tensor | None = None
    """int64 `(n,)`, each pair's row of the captions table."""
    epoch: int = 0
    """From 0."""
    epochs: int = 1
    """Epochs of the whole training."""
    state: Any = None
    """The loss's own `State`; an empty module for a loss without one."""


WHOLE = Batch()
"""All pairs are queries and candidates; nothing else is known about them."""


def first_epoch_after(fraction: float, epochs: int) -> int:
    """The epoch, from 0, after a fraction of all epochs, rounded to the nearest (halves up).

    So 2/3 of 12 epochs gives 8, however the last digit of the fraction was rounded.
    """
    return math.floor(fraction * epochs + 0.5)
