"""Where arrays that every step reads are kept: in the device's memory, or in their files."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
import torch

from vsepp.base.words import bytes_text

log = logging.getLogger("vsepp")

# Fraction of a GPU's free memory that data may take; the rest is for models and steps.
_FOR_DATA = 1 / 2
# Bytes that are copied to a device at a time; so much of an array is in ordinary memory besides.
_BLOCK = 64 << 20

Placed = np.ndarray | torch.Tensor
"""An array in its file (a memory map), or a tensor in the memory of the device."""


@dataclass(frozen=True)
class Placing:
    """Where to keep a job's data; results do not depend on it."""

    device: torch.device
    data_on: str = "auto"
    """`device`, `mapped` (in their files, which the kernel caches in memory as far as there is room) or
    `auto`: on a GPU, if they fit into half of its free memory divided by the jobs that share it,
    otherwise in their files."""
    share: int = 1
    """How many jobs share the device, this one included."""


def place(array: np.ndarray, what: str, placing: Placing) -> Placed:
    """Bring an array to the device, or leave it in its file; on a CPU, `device` is ordinary memory.

    Parameters
    ----------
    array
        A memory map, not empty.
    what
        A few words that name it.
    placing
        Where to keep data.
    """
    if placing.data_on == "mapped" or (placing.data_on == "auto" and placing.device.type != "cuda"):
        return array
    if placing.data_on == "auto":
        free, _ = torch.cuda.mem_get_info(placing.device)
        room = _FOR_DATA * free / placing.share
        if array.nbytes > room:
            sizes = bytes_text(array.nbytes), bytes_text(room)
            log.info("%s: %s, and %s of the GPU's memory are for data: read from its file", what, *sizes)
            return array
    log.info("%s: copying %s to %s", what, bytes_text(array.nbytes), placing.device)
    rows = max(1, _BLOCK * len(array) // array.nbytes)
    dtype = torch.from_numpy(np.empty(0, array.dtype)).dtype
    placed = torch.empty(array.shape, dtype=dtype, device=placing.device)
    for first in range(0, len(array), rows):
        placed[first : first + rows] = torch.from_numpy(np.array(array[first : first + rows]))
    return placed


def place_of(array: Placed) -> str:
    """`device` or `mapped`, for a manifest."""
    return "device" if isinstance(array, torch.Tensor) else "mapped"


def rows_of(array: Placed, rows: np.ndarray) -> torch.Tensor:
    """Copy rows `(n,)` out: `(n, ...)`, on the GPU if the array is there, otherwise on the CPU."""
    if isinstance(array, torch.Tensor) and array.device.type != "cpu":
        return array.index_select(0, upload(rows, array.device))
    # An ordinary array of a map gathers faster.
    return torch.from_numpy(np.asarray(array)[rows])


def upload(array: np.ndarray | torch.Tensor, device: torch.device) -> torch.Tensor:
    """Copy a tensor to a device without making the host wait for the device.

    A copy to a GPU waits for earlier work unless it is from pinned memory.
    """
    tensor = torch.as_tensor(array)
    if device.type != "cuda" or tensor.device.type == "cuda":
        return tensor.to(device)
    return (tensor if tensor.is_pinned() else tensor.pin_memory()).to(device, non_blocking=True)
