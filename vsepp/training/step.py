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
from vsepp.base.run_spec import RunSpec
from vsepp.losses.batch import Batch
from vsepp.models.joint import ENCODER_PREFIX, JointEmbedding
from vsepp.models.sets import ImageBatch, Sets
from vsepp.training.distributed import ALONE, ProcessGroup
from vsepp.training.matching import Candidates, matching_loss


@dataclass(frozen=True, eq=False)
class RunLoss:
    """The loss that a run names, with its options and its own state; see `vsepp.losses.batch`."""

    function: Callable[[Any, Any, Batch], torch.Tensor]
    options: Any
    needs: tuple[str, ...]
    """What the loss needs to know about the pairs: `image_rows`, `caption_rows`."""
    state: torch.nn.Module
    """Its own parameters and buffers; an empty module if it has none."""

    @classmethod
    def from_run(cls, run: RunSpec, folders: Mapping[str, Path], device: torch.device) -> RunLoss:
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
            If there is no such loss, or it refuses its options.
        """
        module, options = components.load("loss", run.loss.name), components.options("loss", run.loss)
        needs = module.needs(options) if hasattr(module, "needs") else ()
        state = torch.nn.Module()
        if hasattr(module, "State"):
            read = {role: folders[role] for role in getattr(module, "READS", ())}
            state = module.State(options, read).to(device)
        return cls(module.loss, options, needs, state)

    def scale(self) -> torch.Tensor | None:
        """1/τ, which its state trains and scores are multiplied by, without a gradient; `None` of a loss without."""
        scale: Callable[[], torch.Tensor] | None = getattr(self.state, "scale", None)
        return scale().detach() if scale else None

    def __call__(self, scores: torch.Tensor, known: Batch) -> torch.Tensor:
        """The loss of scores, `(n, n)`."""
        return self.function(scores, self.options, known)


class Optimiser(Protocol):
    """See `vsepp.training.optimisers`."""

    parameters: list[torch.nn.Parameter]

    def zero_grad(self) -> None:
        """Drop the gradients."""

    def step(self, learning_rate: float) -> None:
        """Take a step along the gradients."""

    def state_dict(self) -> dict[str, Any]:
        """All that a step depends on, but for the parameters."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`."""


def make_optimiser(run: RunSpec, model: JointEmbedding, loss: RunLoss) -> Optimiser:
    """A run's optimiser over all trained parameters (Section 3.2), the loss's own last."""
    named = [*model.named_parameters(), *loss.state.named_parameters("loss")]
    trained = [(name, parameter) for name, parameter in named if parameter.requires_grad]
    return components.make("optimiser", run.optimiser, trained)


@dataclass(frozen=True, eq=False)
class Training:
    """What a step changes and obeys."""

    run: RunSpec
    model: JointEmbedding
    loss: RunLoss
    optimiser: Optimiser
    device: torch.device
    group: ProcessGroup = ALONE
    """The processes that take a step together."""


@dataclass(frozen=True)
class StepBatch:
    """The inputs of a step over n pairs, the first of them queries.

    If several processes train a run, `images`, `captions` and `lengths` are those of this process's share, the other fields are
    about all n pairs; see `vsepp.training.distributed`.
    """

    pairs: int
    """n."""
    images: ImageBatch
    captions: torch.Tensor
    """int64 `(n, longest)`, tokens; or float32 `(n, longest, size)`, their states under a frozen text encoder."""
    lengths: torch.Tensor
    """int64 `(n,)` on the CPU."""
    known: Batch
    """What the loss needs to know about the pairs."""
    candidates: Candidates | None = None
    """What decides the negatives of the model's matcher; `None` without a matcher."""


def take_step(training: Training, batch: StepBatch, rate: float, factor: float = 1.0) -> torch.Tensor:
    """Take one step and return its loss, a detached scalar on the model's device.

    Where the model has a matcher, the gradient includes the matching loss's gradient. The returned loss leaves the matching loss
    out, so it stays comparable with the loss of runs without a matcher.

    Parameters
    ----------
    training
        Changed in place.
    batch
        The pairs.
    rate
        The learning rate.
    factor
        The gradient is the loss's gradient times this factor; the returned value is the loss.
    """
    run, model, loss, optimiser = training.run, training.model, training.loss, training.optimiser
    bf16 = run.precision == "bf16"
    autocast = torch.autocast(training.device.type, torch.bfloat16, enabled=bf16)
    optimiser.zero_grad()
    with autocast:
        images, captions, sets = _embed(model, batch, run.schedule.embedded_at_once)
    if bf16:
        images, captions = images.float(), captions.float()
    images, captions = training.group.gather(images, captions, batch.pairs)
    scores = model.scores(images, captions)
    value = total = loss(scores, batch.known)
    if batch.candidates is not None:
        assert sets is not None  # of a model with a matcher, whose batch is not embedded in parts
        with autocast:
            queries = batch.known.queries or batch.pairs
            total = value + matching_loss(model, *sets, scores, batch.candidates, queries, loss.scale())
    (factor * total).backward()
    # Each process has the whole batch's loss, so the gradient of the loss's own parameters is whole in each, and all are added.
    for parameter in loss.state.parameters():
        if parameter.grad is not None:
            parameter.grad /= training.group.size
    training.group.add_gradients(optimiser.parameters)
    if run.schedule.clip_norm is not None:
        torch.nn.utils.clip_grad_norm_(optimiser.parameters, run.schedule.clip_norm)
    optimiser.step(rate)
    return value.detach()


def _embed(
    model: JointEmbedding, batch: StepBatch, at_once: int | None
) -> tuple[torch.Tensor, torch.Tensor, tuple[Sets, Sets] | None]:
    """Embeddings of images and captions `(n, d)` each; and for a matcher the sets that they are pooled from."""
    if at_once and at_once < len(batch.lengths):
        return *_embed_in_parts(model, batch, at_once), None
    vectors, image_lengths, matched = model.image_vectors(batch.images)
    images = model.pool_images(vectors, image_lengths)
    states = model.text(batch.captions, batch.lengths)
    captions = model.pool_captions(states, batch.lengths)
    if batch.candidates is None:
        return images, captions, None
    assert image_lengths is not None  # a model with a matcher pools sets
    sets = Sets.from_lengths(matched, image_lengths), Sets.from_lengths(states, batch.lengths)
    return images, captions, sets


def _embed_in_parts(model: JointEmbedding, batch: StepBatch, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Embed `size` pairs at a time; a part is embedded again when its gradient is computed.

    The generators' states are kept and set again, so that dropout is the same both times; a device's state only if one of the
    arguments is on that device.
    """

    def embed(images: ImageBatch, captions: torch.Tensor, lengths: torch.Tensor) -> list[torch.Tensor]:
        return [model.embed_images(images), model.embed_captions(captions, lengths)]

    parts = []
    for start in range(0, len(batch.lengths), size):
        rows = slice(start, start + size)
        part = batch.images.part(rows), batch.captions[rows], batch.lengths[rows]
        parts.append(checkpoint(embed, *part, use_reentrant=False))
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
        in_encoder = name.startswith(ENCODER_PREFIX)
        if isinstance(module, torch.nn.BatchNorm1d | torch.nn.BatchNorm2d) and (trains or not in_encoder):
            raise VseppError(
                f"run {run.id}: embedded_at_once is {run.schedule.embedded_at_once}, and {name} normalises with the statistics of "
                "the whole batch; in parts that is another computation. Set embedded_at_once: null"
                + (", or encoder_mode: eval" if in_encoder else "")
            )
