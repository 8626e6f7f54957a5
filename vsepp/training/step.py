"""One step of the optimisation, the only part of the training that is hot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from vsepp.components import component
from vsepp.models.joint import JointEmbedding
from vsepp.spec import LossSpec
from vsepp.training.adam import Adam
from vsepp.training.distributed import ALONE, Group
from vsepp.training.precision import EmbeddingInBf16


@dataclass(frozen=True)
class StepInputs:
    """What a step reads: n pairs, of which the first `queries` are queries.

    Where several processes train a run, `images`, `ids` and `lengths` are of this one's share of the pairs, and
    the rest is about all n; see `vsepp.training.distributed`.
    """

    images: torch.Tensor
    """Features `(n, feature_dim)`, or uint8 crops `(n, size, size, 3)` for an encoder in the model."""
    ids: torch.Tensor
    """int64 `(n, longest)`, tokens of the captions."""
    lengths: torch.Tensor
    """int64 `(n,)` on the CPU."""
    queries: int
    negatives: torch.Tensor | None
    """int64 `(m,)`, positions among the n pairs; `None` means all."""
    image_of: torch.Tensor | None
    """`(n,)`, given where captions of one image shall not be negatives of each other."""
    batch_pairs: int | None = None
    """n, where this process has loaded a share of them only."""

    @property
    def pairs(self) -> int:
        """n, the pairs of the whole batch."""
        return len(self.lengths) if self.batch_pairs is None else self.batch_pairs


LossFunction = Callable[[torch.Tensor, StepInputs], torch.Tensor]


def loss_function(spec: LossSpec, name: str | None = None) -> LossFunction:
    """Loss of a batch from its `scores[image, caption]`, summed over queries and both directions.

    Parameters
    ----------
    spec
        Margin and name of the loss.
    name
        Another loss with the same margin, as a curriculum begins with.
    """
    function = component("vsepp.losses", name or spec.name, "loss")

    def loss(scores: torch.Tensor, inputs: StepInputs) -> torch.Tensor:
        return function(
            scores,
            spec.margin,
            queries=inputs.queries,
            negatives=inputs.negatives,
            image_of=inputs.image_of,
        )

    return loss


def make_optimiser(model: JointEmbedding, learning_rate: float) -> Adam:
    """Adam over all that is trained (Section 3.2)."""
    return Adam((p for p in model.parameters() if p.requires_grad), learning_rate)


def train_step(
    model: JointEmbedding | EmbeddingInBf16,
    optimiser: Adam,
    loss: LossFunction,
    inputs: StepInputs,
    clip_norm: float,
    group: Group = ALONE,
) -> torch.Tensor:
    """Take one step and return the loss that it saw, a detached scalar on the model's device.

    Parameters
    ----------
    model, optimiser
        Changed in place.
    loss
        From `loss_function`.
    inputs
        The pairs.
    clip_norm
        Largest global L2 norm of the gradient of the summed loss.
    group
        The processes that take this step together.
    """
    optimiser.zero_grad()
    images, captions = group.gather(
        model.embed_images(inputs.images), model.embed_captions(inputs.ids, inputs.lengths), inputs.pairs
    )
    value = loss(model.scores(images, captions), inputs)
    # Each process has the loss of the whole batch, and their gradients are added: so each stands for its part.
    (value / group.size).backward()
    group.add_gradients(optimiser.parameters)
    torch.nn.utils.clip_grad_norm_(optimiser.parameters, clip_norm)
    optimiser.step()
    return value.detach()


def collapsed_loss(loss: LossFunction, inputs: StepInputs) -> float:
    """Loss of these pairs if all embeddings were equal: 2 × margin a query for MH, whatever the margin.

    MH stays at that value when a model has collapsed to one point, where no negative is harder than another.
    """
    pairs = inputs.pairs
    return float(loss(torch.zeros(pairs, pairs, device=inputs.images.device), inputs))
