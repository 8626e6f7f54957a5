"""Tensors of a pickle of `torch.save` before their numbers were read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

_DTYPES = {"Float": "<f4", "Double": "<f8", "Half": "<f2", "Long": "<i8"}
STORAGES = {
    f"torch.{device}{name}Storage": np.dtype(dtype)
    for name, dtype in _DTYPES.items()
    for device in ("", "cuda.")
}


@dataclass(eq=False)
class Storage:
    """The numbers of one or several tensors; `data` is filled in once the file was read to its end."""

    dtype: np.dtype
    numel: int
    data: np.ndarray | None = None


@dataclass(frozen=True)
class Window:
    """A part of a storage."""

    storage: Storage
    offset: int
    numel: int


@dataclass(frozen=True, eq=False)
class LegacyTensor:
    """A tensor before its numbers were read."""

    window: Window
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    def read(self) -> torch.Tensor:
        """Contiguous copy of the numbers."""
        whole = torch.from_numpy(self.window.storage.data)
        view = whole.as_strided(self.size, self.stride, self.window.offset + self.offset)
        return view.clone(memory_format=torch.contiguous_format)
