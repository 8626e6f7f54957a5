"""An array in its place, on the device, in the host's memory or in its file, and rows of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True, eq=False)
class Placed:
    """An array, and where it lies."""

    array: np.ndarray | torch.Tensor
    """A tensor on the device or in the host's memory, or the memory map."""
    where: str
    """`device`, `pinned` or `mapped`."""
    locked: bool = False
    """Whether it lies in memory of the host that a GPU reads by itself."""

    def __len__(self) -> int:
        return len(self.array)

    def rows(self, rows: np.ndarray) -> torch.Tensor:
        """Copy rows `(n,)` out: `(n, ...)`, on the device or, from the host's memory and files, on the CPU.

        Rows of locked memory come in pinned memory, so that `upload` need not copy them once more.
        """
        if isinstance(self.array, torch.Tensor):
            if self.locked:
                shape = (len(rows), *self.array.shape[1:])
                out = torch.empty(shape, dtype=self.array.dtype, pin_memory=True)
                return torch.index_select(self.array, 0, torch.as_tensor(rows), out=out)
            if self.array.device.type != "cpu":
                return self.array.index_select(0, upload(rows, self.array.device))
            return torch.from_numpy(self.array.numpy()[rows])
        return torch.from_numpy(np.asarray(self.array[rows]))


Place = Callable[[np.ndarray, str], Placed]
"""An array and what it is, in a few words, to the array in its place."""


def in_file(array: np.ndarray, what: str) -> Placed:
    """Leave an array where it is."""
    return Placed(array, "mapped")


def upload(array: np.ndarray | torch.Tensor, device: torch.device) -> torch.Tensor:
    """Bring what the host has to a device without making the host wait for the device.

    Only from pinned memory does a copy to a GPU not wait for the work before it.
    """
    tensor = torch.as_tensor(array)
    if device.type != "cuda" or tensor.device.type == "cuda":
        return tensor.to(device)
    return (tensor if tensor.is_pinned() else tensor.pin_memory()).to(device, non_blocking=True)
