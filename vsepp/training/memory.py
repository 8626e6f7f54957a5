"""What a training takes of memory, and what to lower where it gets too little."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch

from vsepp.data.out_of_memory import gib, memory_there, move_data_off, out_of_memory_explained
from vsepp.data.placement import Placement
from vsepp.features.needs import estimated, step_bytes
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


def pairs_at_once(run: RunSpec) -> int:
    """Pairs of a step: the batch, and the negatives that are sought beyond it."""
    return max(run.schedule.batch_size, run.schedule.negative_set or 0)


def activation_bytes(peak: int, fixed: int, resident: Mapping[str, int]) -> int:
    """What activations took at least of a measured peak, in bytes.

    Parameters
    ----------
    peak
        Most that was allocated on the GPU at once.
    fixed
        Weights, gradients and moments.
    resident
        Data that lie on the GPU → their bytes.
    """
    return max(peak - fixed - sum(resident.values()), 0)


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

    def explanation() -> str:
        data = resident or {}
        return (
            f"{_memory_needed(run, model, device, data)}. {_what_to_lower(run, data)}. The last checkpoint is kept: "
            "where there is more memory, the same command goes on from it"
        )

    with out_of_memory_explained(f"run {run.id}", device, explanation):
        yield


@contextmanager
def loading_explained(run: RunSpec, placement: Placement) -> Iterator[None]:
    """Do what `memory_explained` does, for what is brought into place before the first step."""

    def explanation() -> str:
        there = memory_there(placement.device)
        return f"Its data are being brought into place; {there}. {placement.what_to_lower()}"

    with out_of_memory_explained(f"run {run.id}", placement.device, explanation):
        yield


def _memory_needed(
    run: RunSpec, model: JointEmbedding, device: torch.device, resident: Mapping[str, int]
) -> str:
    """What a training takes, estimated, and what there is, in words."""
    whole, trained = _model_bytes(model)
    fixed, pairs = whole + 3 * trained, pairs_at_once(run)
    words = f"Weights, gradients and Adam's moments take {gib(fixed)}"
    if device.type == "cuda":
        peak = torch.cuda.max_memory_allocated(device)
        taken = gib(activation_bytes(peak, fixed, resident))
        words += f", the activations of {pairs} pairs more than {taken} (peak {gib(peak)})"
    else:
        words += f" and the activations of {pairs} pairs come on top"
    if run.live_encoder:
        reckoned = estimated(run.encoder, lambda encoder: step_bytes(encoder, pairs))
        words += f"; by its layers, the encoder's part of a step is {reckoned} at most"
    return f"{words}; {memory_there(device)}"


def _what_to_lower(run: RunSpec, resident: Mapping[str, int]) -> str:
    names = [f"schedule.batch_size ({run.schedule.batch_size})"]
    if (run.schedule.negative_set or 0) > run.schedule.batch_size:
        names.insert(0, f"schedule.negative_set ({run.schedule.negative_set})")
    if run.live_encoder:
        names.append(f"take a smaller encoder than {run.encoder.architecture}, which runs in every step")
    what = ", or ".join(names)
    data = move_data_off(resident)
    return f"{data}. Or lower {what}" if data else f"Lower {what}"
