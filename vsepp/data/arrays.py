"""Arrays of `.npy` and `.npz` files: strictly checked and never unpickled where others wrote them."""

from __future__ import annotations

import io
import math
import os
import struct
import warnings
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from vsepp.base.errors import VseppError, did_you_mean
from vsepp.base.files import reading, require_file, shortly
from vsepp.data.containers import Container


class _Header(NamedTuple):
    """What a `.npy` file says of itself."""

    shape: tuple[int, ...]
    columns_first: bool
    dtype: np.dtype
    offset: int
    """Byte of the first number."""


def own_arrays(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an `.npz` that vsepp wrote; errors of reading a damaged file pass through."""
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)


def mapped_arrays(path: Path) -> dict[str, np.ndarray]:
    """As `own_arrays`; uncompressed arrays are memory-mapped, read-only."""
    arrays: dict[str, np.ndarray] = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            with archive.open(member) as stream:
                header = _header(stream)
            name = member.filename.removesuffix(".npy")
            if member.compress_type == zipfile.ZIP_STORED and 0 not in header.shape:
                start = _start(path, member) + header.offset
                arrays[name] = np.memmap(path, header.dtype, "r", start, header.shape)
            else:
                with archive.open(member) as stream:
                    arrays[name] = np.lib.format.read_array(stream, allow_pickle=False)
    return arrays


def _start(path: Path, member: zipfile.ZipInfo) -> int:
    """Byte of a zip file at which a member's data begin: behind its own header, a name and extra fields of their lengths."""
    with path.open("rb") as stream:
        stream.seek(member.header_offset + 26)
        name, extra = struct.unpack("<HH", stream.read(4))
    return member.header_offset + 30 + int(name) + int(extra)


def read_arrays(path: Path, known: Collection[str], expected: str) -> dict[str, np.ndarray]:
    """All arrays of an `.npz` that others wrote.

    Parameters
    ----------
    path
        The file.
    known
        Names that arrays may have; any may be missing.
    expected
        What the file should be, for messages: `an .npz of embeddings`.

    Raises
    ------
    VseppError
        If the file is not a whole archive of plain arrays of these names, each once, or one is larger than this machine's memory.
    """
    require_file(path, expected)
    container = Container(path, f"{expected}, whole and as numpy.savez writes it")
    names = {member: member.removesuffix(".npy") for member in container.names}
    for member, name in names.items():
        if member != f"{name}.npy" or name not in known:
            raise VseppError(
                f"{path}: got {shortly(member)}, expected {', '.join(known)}{did_you_mean(name, known)}"
            )
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    arrays = {}
    for member, name in names.items():
        with reading(f"{path}: {name}", "a .npy file of plain numbers or text; write it with numpy.save"):
            data = io.BytesIO(container.read(member, memory))
            arrays[name] = np.lib.format.read_array(data, allow_pickle=False)
    return arrays


def _header(stream: IO[bytes]) -> _Header:
    """What a `.npy` file says of itself at its beginning."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return _Header(*read(stream), stream.tell())


class NpyRows:
    """A float32 `.npy` file of a vector a row, `(n, dim)`, or of a set of vectors a row, `(n, vectors, dim)`.

    Streamed, not memory-mapped, so that an archive need not be unpacked. Nothing is unpickled: the file must hold plain
    numbers.

    Parameters
    ----------
    container, member
        Folder or archive, and the file's path inside.

    Attributes
    ----------
    row_shape
        `(dim,)` or `(vectors, dim)`.
    vectors, dim
        Number of vectors in a row, and of numbers in a vector.
    where
        What messages call the file.

    Raises
    ------
    VseppError
        If it is missing, truncated or not such an array.
    """

    def __init__(self, container: Container, member: str) -> None:
        self.where = container.where(member)
        self._container = container
        self._member = member
        with (
            container.open(member) as (stream, size),
            reading(self.where, "a .npy file; write it with numpy.save"),
            warnings.catch_warnings(action="ignore"),  # headers of Python 2 are read, and numpy would say so
        ):
            header = _header(stream)
        shape, dtype = header.shape, header.dtype
        if len(shape) not in (2, 3) or min(shape) < 1 or dtype != np.dtype("<f4") or header.columns_first:
            order = ", column by column" if header.columns_first else ""
            raise VseppError(
                f"{self.where}: expected float32 (n, dim) or (n, vectors, dim), found {dtype} {shape}{order}; "
                "save it with numpy.save(file, rows.astype('float32'))"
            )
        if size != (needed := header.offset + math.prod(shape) * dtype.itemsize):
            raise VseppError(
                f"{self.where}: expected {needed:,} bytes for {dtype} {shape}, found {size:,}; the copy is truncated or damaged: "
                "fetch it again"
            )
        self._rows, self.row_shape = shape[0], shape[1:]
        self.vectors, self.dim = (1, *self.row_shape)[-2:]
        self._offset, self._row_bytes = header.offset, dtype.itemsize * math.prod(self.row_shape)

    def __len__(self) -> int:
        return self._rows

    def blocks(self, stop: int, size: int) -> Iterator[np.ndarray]:
        """Rows up to `stop`, `size` at a time: float32 `(size, vectors, dim)`, the last block perhaps smaller.

        Raises
        ------
        VseppError
            If the file cannot be read.
        """
        with self._container.open(self._member) as (stream, _):
            stream.read(self._offset)
            for first in range(0, stop, size):
                rows = min(size, stop - first)
                # At the end of an archive's member its checksum is compared.
                data = stream.read(rows * self._row_bytes)
                yield np.frombuffer(data, "<f4").reshape(rows, self.vectors, self.dim)
