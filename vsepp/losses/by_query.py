"""Losses of large batches: the scores of some queries at a time, so that memory grows with the pairs and not with their square.

A loss that is a sum over queries is the sum of its values on parts of the queries. The gradient of a part is taken at once and its
scores are dropped. Each direction takes three products, as many as all scores together take for both directions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from vsepp.losses import Batch, QueryScores

# Scores of a part in each direction: 16 MiB in fp32, a few times as much with what a loss computes of them.
_AT_ONCE = 1 << 22

Loss = Callable[[QueryScores], torch.Tensor]


def loss_by_queries(
    loss: Loss,
    images: torch.Tensor,
    captions: torch.Tensor,
    scores_of: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    batch: Batch,
) -> torch.Tensor:
    """The loss of a batch, equal to the loss of all its scores at once, except for the order of summation.

    Among equally hard negatives the same one receives the gradient, if both ways give their scores the same bits.

    Parameters
    ----------
    loss
        Gives the loss of some queries' scores; it may have parameters of its own, in `batch.state`.
    images, captions
        Embeddings `(n, d)` of the pairs.
    scores_of
        Maps embeddings `(a, d)` and `(b, d)` to `scores[image, caption]`.
    batch
        Its queries.

    Returns
    -------
    torch.Tensor
        Scalar.
    """
    own = [] if batch.state is None else [each for each in batch.state.parameters() if each.requires_grad]
    parts = list(parts_of(batch, len(images)))
    value: torch.Tensor = _ByQueries.apply(loss, scores_of, parts, images, captions, *own)
    return value


def parts_of(batch: Batch, pairs: int) -> Iterator[slice]:
    """Divide the queries of a batch of so many pairs into parts; the scores of one part are held at once."""
    queries, size = batch.queries or pairs, max(1, _AT_ONCE // pairs)
    return (slice(start, min(start + size, queries)) for start in range(0, queries, size))


class _ByQueries(torch.autograd.Function):
    """Values and gradients of all parts, one part after the other."""

    @staticmethod
    def forward(
        ctx: Any, loss: Loss, scores_of: Any, parts: list[slice], *inputs: torch.Tensor
    ) -> torch.Tensor:
        images, captions, *own = inputs
        total = images.new_zeros(())
        gradients = [torch.zeros_like(each) for each in inputs] if any(ctx.needs_input_grad) else []
        for part in parts:
            asked_images, asked_captions = images[part].detach(), captions[part].detach()
            read = [asked_images, asked_captions, images.detach(), captions.detach()]
            with torch.set_grad_enabled(bool(gradients)):
                if gradients:
                    read = [each.requires_grad_() for each in read]
                of_images = scores_of(read[0], read[3])
                of_captions = scores_of(read[2], read[1]).T
                value = loss(QueryScores(of_images, of_captions, part.start))
            total += value.detach()
            if gradients:
                found = torch.autograd.grad(value, [*read, *own], allow_unused=True, materialize_grads=True)
                gradients[0][part] += found[0]
                gradients[1][part] += found[1]
                for sum_, more in zip(gradients, found[2:], strict=True):
                    sum_ += more
        ctx.gradients = gradients
        return total

    @staticmethod
    def backward(ctx: Any, *outer: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return (None, None, None, *(outer[0] * each for each in ctx.gradients))
