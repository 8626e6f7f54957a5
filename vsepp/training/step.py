"""One step of the optimisation, where training spends its time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch.utils.checkpoint import checkpoint

from vsepp.base import components
from vsepp.base.errors import VseppError
from vsepp.base.spec import ADAM, Component, RunSpec
from vsepp.evaluation.encode import required
from vsepp.losses import Batch
from vsepp.models.joint import ENCODER_PREFIX, JointEmbedding
from vsepp.models.sets import ImageBatch, Sets
from vsepp.training.distributed import ALONE, ProcessGroup
from vsepp.training.matching import Draws, matching_loss


@dataclass(frozen=True, eq=False)
class RunLoss:
    """The loss that a run names, with its options and its own state; see `vsepp.losses`."""

    function: Callable[[Any, Any, Batch], torch.Tensor]
    options: Any
    needs: tuple[str, ...]
    """What the loss needs to know about the pairs: `image_rows`, `caption_rows`."""
    state: torch.nn.Module
    """Its own parameters and buffers; an empty module if it has none."""

    @classmethod
    def of(cls, run: RunSpec, folders: Mapping[str, Path], device: torch.device) -> RunLoss:
        """Load a run's loss; its state is initialised under the caller's torch seed.

        Parameters
        ----------
        run
            The run's spec.
        folders
            Role → folder of an artefact that the run reads; the state gets the folders of the loss's `READS`.
        device
            Where the run trains.

        Raises
        ------
        VseppError
            If there is no such loss, it refuses its options, or a folder that it reads was not given.
        """
        module, options = components.load("loss", run.loss.name), components.options("loss", run.loss)
        needs = module.needs(options) if hasattr(module, "needs") else ()
        state = torch.nn.Module()
        if hasattr(module, "State"):
            read = {role: required(folders, role, run) for role in getattr(module, "READS", ())}
            state = module.State(options, read).to(device)
        return cls(module.loss, options, needs, state)

    def __call__(self, scores: torch.Tensor, batch: Batch) -> torch.Tensor:
        """The loss of scores, `(n, n)`."""
        return self.function(scores, self.options, batch)


@dataclass(frozen=True)
class StepInputs:
    """Inputs of a step: n pairs; the first of them are queries.

    If several processes train a run, `images`, `ids` and `lengths` hold this process's share, the other fields are about
    all n pairs; see `vsepp.training.distributed`.
    """

    images: ImageBatch
    ids: torch.Tensor
    """int64 `(n, longest)`, tokens of the captions."""
    lengths: torch.Tensor
    """int64 `(n,)` on the CPU."""
    pairs: int
    """n, of the whole batch."""
    batch: Batch
    """What the loss needs to know about the pairs."""
    draws: Draws | None = None
    """Decides the negatives drawn for the model's matcher; `None` without a matcher."""


class Optimiser(Protocol):
    """See `vsepp.training.optimisers`."""

    parameters: list[torch.nn.Parameter]
    learning_rate: float

    def zero_grad(self) -> None:
        """Drop the gradients."""

    def step(self) -> None:
        """Take a step along the gradients."""

    def state_dict(self) -> dict[str, Any]:
        """All that a step depends on, but for the parameters."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`."""


def make_optimiser(
    model: JointEmbedding, learning_rate: float, loss: RunLoss, optimiser: Component = ADAM
) -> Optimiser:
    """A run's optimiser over all trained parameters (Section 3.2), the loss's own last."""
    named = [*model.named_parameters(), *loss.state.named_parameters("loss")]
    trained = [(name, parameter) for name, parameter in named if parameter.requires_grad]
    module, options = components.load("optimiser", optimiser.name), components.options("optimiser", optimiser)
    return module.Optimiser(trained, learning_rate, options)


def train_step(
    model: JointEmbedding,
    optimiser: Optimiser,
    loss: RunLoss,
    inputs: StepInputs,
    clip_norm: float,
    group: ProcessGroup = ALONE,
    *,
    loss_factor: float = 1.0,
    bf16: bool = False,
    embedded_at_once: int | None = None,
) -> torch.Tensor:
    """Take one step and return its loss, a detached scalar on the model's device.

    Where the model has a matcher, the gradient includes the matching loss's gradient. The returned loss leaves the matching loss
    out, so it stays comparable with the loss of runs without a matcher.

    Parameters
    ----------
    model, optimiser, loss
        Changed in place; of the loss, its state.
    inputs
        The pairs.
    clip_norm
        Largest global L2 norm of the gradient of the summed loss.
    group
        The processes that take this step together.
    loss_factor
        The gradient is the loss's gradient times this factor; the returned value is the loss.
    bf16
        Embed in bf16, except for the GRU on a GPU; weights, embeddings and scores stay fp32.
    embedded_at_once
        As in the schedule; not with a matcher.
    """
    optimiser.zero_grad()
    with torch.autocast(inputs.ids.device.type, torch.bfloat16, enabled=bf16):
        if embedded_at_once and embedded_at_once < len(inputs.ids):
            images, captions = _embedded_in_parts(model, inputs, embedded_at_once)
        else:
            vectors, image_lengths = model.image_vectors(inputs.images)
            images = model.pool_images(vectors, image_lengths)
            states = model.text(inputs.ids, inputs.lengths)
            captions = model.pool_captions(states, inputs.lengths)
    if bf16:
        images, captions = images.float(), captions.float()
    images, captions = group.gather(images, captions, inputs.pairs)
    scores = model.scores(images, captions)
    value = total = loss(scores, inputs.batch)
    if inputs.draws is not None and image_lengths is not None:
        sets = Sets.from_lengths(vectors, image_lengths), Sets.from_lengths(states, inputs.lengths)
        queries = inputs.batch.queries or inputs.pairs
        with torch.autocast(inputs.ids.device.type, torch.bfloat16, enabled=bf16):
            total = value + matching_loss(model, *sets, scores, inputs.draws, queries)
    (loss_factor * total).backward()
    # Each process has the whole batch's loss, so the gradient of the loss's own parameters is whole in each, and all are added.
    for own in loss.state.parameters():
        if own.grad is not None:
            own.grad /= group.size
    group.add_gradients(optimiser.parameters)
    torch.nn.utils.clip_grad_norm_(optimiser.parameters, clip_norm)
    optimiser.step()
    return value.detach()


def _embedded_in_parts(
    model: JointEmbedding, inputs: StepInputs, size: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Embed images and captions, `size` pairs at a time; a part is embedded again when its gradient is computed.

    The generators' states are kept and set again, so that dropout is the same both times; a device's state only if one of the
    arguments is on that device.
    """

    def embedded(images: ImageBatch, ids: torch.Tensor, lengths: torch.Tensor) -> list[torch.Tensor]:
        return [model.embed_images(images), model.embed_captions(ids, lengths)]

    parts = []
    for start in range(0, len(inputs.ids), size):
        rows = slice(start, start + size)
        pairs = inputs.images.part(rows), inputs.ids[rows], inputs.lengths[rows]
        parts.append(checkpoint(embedded, *pairs, use_reentrant=False))
    images, captions = zip(*parts, strict=True)
    return torch.cat(images), torch.cat(captions)


def require_parts(run: RunSpec, model: JointEmbedding) -> None:
    """Refuse to embed a batch in parts where that would be another computation.

    Raises
    ------
    VseppError
        For a matcher, which takes the vectors of the whole batch, and for batch normalisation in training mode.
    """
    if run.schedule.embedded_at_once is None:
        return
    if run.model.matcher is not None:
        raise VseppError(
            f"run {run.id}: embedded_at_once is {run.schedule.embedded_at_once}, and matcher {run.model.matcher.name!r} takes the "
            "vectors of the whole batch; expected null"
        )
    trains = run.live_encoder and run.encoder_mode != "eval"
    for name, module in model.named_modules():
        of_encoder = name.startswith(ENCODER_PREFIX)
        if isinstance(module, torch.nn.BatchNorm1d | torch.nn.BatchNorm2d) and (trains or not of_encoder):
            raise VseppError(
                f"run {run.id}: embedded_at_once is {run.schedule.embedded_at_once}, and {name} normalises with the statistics of "
                "the whole batch; in parts that is another computation. Set embedded_at_once: null"
                + (", or encoder_mode: eval" if of_encoder else "")
            )
