"""One run on several processes, each with a device: `torchrun --nproc-per-node 2 -m vsepp.apps.cli make run …`.

Every process embeds its share of each batch's pairs and gets the embeddings of the others, so each has the loss of the whole
batch. The loss's gradient reaches the parameters through the process's own share; summed over the processes, it is the gradient
of a single process on the same batch.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import numpy as np
import torch
import torch.distributed as dist

from vsepp.base import components
from vsepp.base.errors import VseppError
from vsepp.base.run_spec import RunSpec

T = TypeVar("T")

# The others wait at most this long for the first process, which validates and writes.
PATIENCE = timedelta(hours=1)


@dataclass(frozen=True)
class ProcessGroup:
    """The processes that train a run together. A single process exchanges nothing, and no value changes."""

    rank: int = 0
    """Number of this process, from 0."""
    size: int = 1
    """Number of processes."""

    @property
    def first(self) -> bool:
        """Whether this process validates, writes and reports."""
        return self.rank == 0

    def seed_step(self, seed: int, epoch: int, step: int) -> None:
        """Seed torch before a step, in each of several processes by another number, so that their dropout is independent.

        A resumed training draws the same, and needs no process's generator. A single process draws on.
        """
        if self.size > 1:
            numbers = np.random.SeedSequence((seed, epoch, step, self.rank)).generate_state(1, np.uint64)
            torch.manual_seed(int(numbers[0]))

    def share(self, pairs: int) -> np.ndarray:
        """Positions int64 `(n,)` of the pairs of a batch that this process loads and embeds, as many as every other process.

        The last pair is repeated where processes do not divide the batch; `gather` drops these embeddings.
        """
        n = math.ceil(pairs / self.size)
        return np.minimum(np.arange(self.rank * n, (self.rank + 1) * n), pairs - 1)

    def gather(
        self, images: torch.Tensor, captions: torch.Tensor, pairs: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Gather the embeddings of a whole batch from all processes' shares; only this process's own have a gradient.

        Parameters
        ----------
        images, captions
            `(n, d)`, of the n pairs of `share(pairs)`.
        pairs
            Pairs of the batch.

        Returns
        -------
        tuple[torch.Tensor, torch.Tensor]
            Each `(pairs, d)`, in the order of the batch.
        """
        if self.size == 1:
            return images, captions
        own = torch.stack([images, captions])
        shares = [torch.empty_like(own) for _ in range(self.size)]
        dist.all_gather(shares, own.detach())
        shares[self.rank] = own
        both = torch.cat(shares, dim=1)[:, :pairs]
        return both[0], both[1]

    def add_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Replace the gradients by their sum over all processes, the same on each bit for bit."""
        if self.size == 1:
            return
        # Every process has done the same work, so a gradient is missing in all of them or in none.
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        # All at once: one call each would take longer than the addition.
        total = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(total)
        parts = total.split([gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view(gradient.shape))

    def from_first(self, make: Callable[[], T]) -> T:
        """The result of `make` in the first process, sent to all; the others wait and do not call it.

        Parameters
        ----------
        make
            Its tensors are on the CPU.
        """
        if self.size == 1:
            return make()
        values = [make() if self.first else None]
        dist.broadcast_object_list(values, 0, device=torch.device("cpu"))
        return values[0]  # type: ignore[return-value]  # what the first process made


ALONE = ProcessGroup()


def require_divisible(run: RunSpec, group: ProcessGroup) -> None:
    """Refuse a run whose batches cannot be divided among processes.

    Raises
    ------
    VseppError
        For an encoder in training mode, whose batch statistics and dropout depend on the whole batch, for a component of the
        model that says `BATCH_STATISTICS = True`, and for a matcher.
    """
    if group.size == 1:
        return
    if run.live_encoder and run.encoder_mode != "eval":
        raise VseppError(
            f"run {run.id}: encoder_mode is {run.encoder_mode}, which puts the encoder into training mode, where its features "
            f"depend on the whole batch; got {group.size} processes, expected 1. Train it without torchrun, or set "
            "encoder_mode: eval"
        )
    if run.model.matcher is not None:
        raise VseppError(
            f"run {run.id}: matcher {run.model.matcher.name!r} takes images and captions of the whole batch, and a process has the "
            f"vectors of its share only; got {group.size} processes, expected 1. Train it without torchrun"
        )
    for kind, name in run.model.components:
        if components.describe(kind, name).constants.get("BATCH_STATISTICS"):
            raise VseppError(
                f"run {run.id}: {kind} {name!r} normalises with the statistics of the whole batch, and a process sees its share "
                f"only; got {group.size} processes, expected 1. Train it without torchrun"
            )


@contextmanager
def join(device: torch.device) -> Iterator[ProcessGroup]:
    """Join the processes that `torchrun` started; without it, this process is alone.

    Parameters
    ----------
    device
        Where this process computes: GPUs exchange with NCCL, CPUs with gloo.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    # Numbers and checkpoints are exchanged from the CPU's memory, so gloo is always there.
    dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo", timeout=PATIENCE)
    try:
        yield ProcessGroup(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()
