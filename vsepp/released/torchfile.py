"""Files of `torch.save`, old and new, read without executing anything in them."""

from __future__ import annotations

import argparse
import struct
import tarfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from vsepp.errors import VseppError
from vsepp.released.tensors import STORAGES, Storage, Window
from vsepp.released.unpickle import (
    BASIC_NAMES,
    NAMESPACE,
    Bounded,
    Instance,
    Name,
    Unpickler,
    open_file,
    refuse,
)

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001

CHECKPOINT_NAMES = BASIC_NAMES | {
    name: name
    for name in (
        NAMESPACE,
        "torch.Size",
        "torch._utils._rebuild_tensor",
        "torch._utils._rebuild_tensor_v2",
        *STORAGES,
    )
}


def read_torch(path: Path) -> Any:
    """Read a file of `torch.save`, of PyTorch 0.1.12 to 0.4 (sequential) or of a newer one (zip).

    Returns
    -------
    object
        Plain values, `Instance` for the namespace of options, and tensors: `LegacyTensor` of a sequential file,
        `torch.Tensor` on the CPU of a zip.

    Raises
    ------
    VseppError
        When the file is missing, damaged, too short or holds anything but these; nothing in it was executed.
    """
    with open_file(path) as stream:
        zipped = stream.read(4) == b"PK\x03\x04"
        stream.seek(0)
        return _read_zip(path) if zipped else _LegacyFile(stream, path).read()


class _LegacyFile:
    """A sequential file: four pickles, the list of storages, and their numbers one after another."""

    def __init__(self, stream: BinaryIO, path: Path) -> None:
        self.file, self.path = Bounded(stream, path), path
        self.storages: dict[str, Storage] = {}

    def read(self) -> Any:
        if tarfile.is_tarfile(self.path):
            raise VseppError(
                f"{self.path}: it is an archive; unpack it and give the model_best.pth.tar inside"
            )
        for what, expected in (("magic number", MAGIC), ("protocol version", PROTOCOL)):
            if self._plain() != expected:
                refuse(self.path, f"no file of torch.save: its {what} is not {expected}")
        system = self._plain()
        if not (isinstance(system, dict) and system.get("little_endian") is True):
            refuse(self.path, "it was written by a machine with another byte order")
        content = Unpickler(self.file, self.path, CHECKPOINT_NAMES, self._window).load()
        keys = self._plain()
        listed = isinstance(keys, list) and all(isinstance(key, str) for key in keys)
        if not listed or sorted(keys) != sorted(self.storages):
            refuse(self.path, "its list of storages is not that of its tensors")
        for key in keys:
            self._read_numbers(self.storages[key])
        return content

    def _plain(self) -> Any:
        return Unpickler(self.file, self.path, {}).load()

    def _window(self, reference: Any) -> Window:
        match reference:
            case ("storage", Name(kind), str(key), str(), int(numel), view) if kind in STORAGES:
                storage = self._storage(key, STORAGES[kind], numel)
            case _:
                refuse(self.path, "a reference to something that is no storage")
        match view:
            case None:
                offset, part = 0, numel
            case (str(), int(offset), int(part)) if 0 <= offset <= offset + part <= numel:
                pass
            case _:
                refuse(self.path, f"a view that leaves its storage of {numel} numbers")
        return Window(storage, offset, part)

    def _storage(self, key: str, dtype: np.dtype, numel: int) -> Storage:
        if not 0 <= numel <= self.file.size // dtype.itemsize:
            refuse(self.path, f"a storage of {numel} numbers in a file of {self.file.size} bytes")
        storage = self.storages.setdefault(key, Storage(dtype, numel))
        if (storage.dtype, storage.numel) != (dtype, numel):
            refuse(self.path, f"storage {key!r:.40} comes with two types or sizes")
        return storage

    def _read_numbers(self, storage: Storage) -> None:
        try:
            (count,) = struct.unpack("<q", self.file.read(8))
        except struct.error:
            count = -1
        left = self.file.size - self.file.tell()
        if count != storage.numel or count * storage.dtype.itemsize > left:
            refuse(
                self.path,
                f"a storage of {storage.numel} numbers is announced with {count} and {left} bytes are left; "
                "the file is damaged or was cut off",
            )
        storage.data = np.fromfile(self.file.stream, storage.dtype, count)


def _read_zip(path: Path) -> Any:
    """Newer PyTorch reads its own format without executing it; `argparse.Namespace` is the one class to add."""
    try:
        with torch.serialization.safe_globals([argparse.Namespace]):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises whatever the bytes make of themselves
        # Its reason alone: the rest of its message recommends to execute the file.
        reason = str(error).rpartition("WeightsUnpickler error: ")[2].partition(". Please")[0]
        refuse(path, f"torch.load(weights_only=True) says: {reason[:300]}")
    if isinstance(content, dict) and isinstance(content.get("opt"), argparse.Namespace):
        content["opt"] = Instance(NAMESPACE, vars(content["opt"]))
    return content
