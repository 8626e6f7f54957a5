"""What a training takes of memory, and what to lower where it gets too little."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch

from vsepp.errors import VseppError
from vsepp.models.joint import JointEmbedding
from vsepp.spec import RunSpec


def _model_bytes(model: JointEmbedding) -> tuple[int, int]:
    """Bytes of all weights, and of those that are trained."""
    whole = sum(value.nbytes for value in model.state_dict().values())
    return whole, sum(value.nbytes for value in model.parameters() if value.requires_grad)


def checkpoint_bytes(model: JointEmbedding) -> int:
    """Weights, those of the best epoch, and Adam's two moments of what is trained."""
    whole, trained = _model_bytes(model)
    return 2 * (whole + trained)


@contextmanager
def memory_explained(
    run: RunSpec, model: JointEmbedding, device: torch.device, resident: Mapping[str, int] | None = None
) -> Iterator[None]:
    """Turn a refusal of memory into an error that says what to lower; other failures pass.

    Parameters
    ----------
    run, model
        What is trained.
    device
        Where; on a GPU the error has the measured peak.
    resident
        Data that lie on the GPU → their bytes, known by the time of the error.

    Raises
    ------
    VseppError
        Where the host or the GPU has no memory left.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise VseppError(
            f"run {run.id}: out of memory on {device} ({reason}). {_memory_needed(run, model, device)}. "
            f"{_what_to_lower(run, resident or {})}. The last checkpoint is kept: where there is more memory, the same "
            "command goes on from it"
        ) from error


def _is_out_of_memory(error: Exception) -> bool:
    # torch has a class for GPUs only; its allocator on the host and the libraries below it say it in words.
    words = ("out of memory", "can't allocate memory", "not enough memory", "ALLOC_FAILED")
    said = any(word in str(error) for word in words)
    return said or isinstance(error, (MemoryError, torch.OutOfMemoryError))


def _memory_needed(run: RunSpec, model: JointEmbedding, device: torch.device) -> str:
    """What a training takes, estimated, and what there is, in words."""
    whole, trained = _model_bytes(model)
    fixed = whole + 3 * trained
    pairs = max(run.schedule.batch_size, run.loss.negative_set or 0)
    words = f"Weights, gradients and Adam's moments take {_gib(fixed)}"
    if device.type == "cuda":
        free, there = torch.cuda.mem_get_info(device)
        peak = torch.cuda.max_memory_allocated(device)
        words += (
            f", the activations of {pairs} pairs more than {_gib(max(peak - fixed, 0))} (peak {_gib(peak)})"
        )
        return f"{words}; the GPU has {_gib(there)}, of which {_gib(free)} are free of all processes"
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    words += f" and the activations of {pairs} pairs come on top; this process has used {_gib(peak)} at most"
    return f"{words}; the machine has {_gib(there)}"


def _what_to_lower(run: RunSpec, resident: Mapping[str, int]) -> str:
    names = [f"schedule.batch_size ({run.schedule.batch_size})"]
    if (run.loss.negative_set or 0) > run.schedule.batch_size:
        names.insert(0, f"loss.negative_set ({run.loss.negative_set})")
    if run.live_encoder:
        names.append(f"take a smaller encoder than {run.encoder.architecture}, which runs in every step")
    advice = f"Lower {', or '.join(names)}"
    if resident:
        data = ", ".join(f"{what}, {_gib(size)}" for what, size in resident.items())
        advice = f"On the GPU lie data too ({data}): set resources.data_on (--data-on) to pinned. Or {advice[0].lower()}{advice[1:]}"
    return advice


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"
