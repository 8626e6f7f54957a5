"""Arrays of `.npy` and `.npz` files of others: checked before memory is taken for them, never unpickled."""

from __future__ import annotations

import io
import math
import os
import warnings
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from vsepp.data.containers import Container
from vsepp.errors import VseppError, did_you_mean, refuse
from vsepp.foreign import require_file

_BLOCK = 1 << 24
# Bytes of the longest header: numpy reads no longer one either.
_LONGEST_HEADER = 10_000


class _Header(NamedTuple):
    """What a `.npy` file says of itself."""

    shape: tuple[int, ...]
    columns_first: bool
    dtype: np.dtype
    offset: int
    """Byte of the first number."""

    @property
    def bytes(self) -> int:
        """Bytes of the whole file."""
        return self.offset + math.prod(self.shape) * self.dtype.itemsize


def read_arrays(path: Path, known: Collection[str], expected: str) -> dict[str, np.ndarray]:
    """All arrays of an `.npz`.

    The whole archive is checked first: its list of members, and of each the header against the bytes that there are.

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
        If it is no whole archive of plain arrays of these names, each once, or has more numbers than this machine has memory.
    """
    require_file(path, expected)
    if not zipfile.is_zipfile(path):
        raise VseppError(f"{path}: not an .npz archive, or a truncated one; write it with numpy.savez")
    container = Container(path)
    names = {member: member.removesuffix(".npy") for member in container.names}
    unknown = [
        f"{one}{did_you_mean(names[one], known)}"
        for one in names
        if one != f"{names[one]}.npy" or names[one] not in known
    ]
    refuse(unknown, f"{path}: arrays of no known name", f"Expected {', '.join(known)}.")
    headers = {}
    for member, name in names.items():
        with container.open(member) as (stream, size):
            headers[member] = _checked_header(stream, size, f"{path}: {name}")
    needed = sum(header.bytes for header in headers.values())
    if needed > (there := os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")):
        raise VseppError(f"{path}: its arrays take {needed:,} bytes, this machine's memory has {there:,}")
    return {names[member]: _read(container, member, header) for member, header in headers.items()}


def _read(container: Container, member: str, header: _Header) -> np.ndarray:
    """The array of a member whose header was checked."""
    count = header.bytes - header.offset
    with container.open(member) as (stream, _):
        stream.read(header.offset)
        data = np.empty(count, np.uint8)
        for start in range(0, count, _BLOCK):
            block = stream.read(min(_BLOCK, count - start))
            if len(block) != min(_BLOCK, count - start):
                raise EOFError
            data[start : start + len(block)] = np.frombuffer(block, np.uint8)
        if stream.read(1):  # at the end the checksum is compared, too
            raise EOFError
    array = data.view(header.dtype)
    return array.reshape(header.shape, order="F" if header.columns_first else "C")


def _checked_header(stream: IO[bytes], size: int, where: str) -> _Header:
    """Header of a `.npy` file of so many bytes.

    Raises
    ------
    VseppError
        If it is none, announces another number of bytes, or names objects, which are pickles.
    """
    beginning = stream.read(min(size, _LONGEST_HEADER + 12))
    raw = io.BytesIO(beginning)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # headers of Python 2 are read, and numpy would say so
            version = np.lib.format.read_magic(raw)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            header = _Header(*read(raw), raw.tell())
    except Exception as error:  # damaged bytes can raise anything
        raise VseppError(
            f"{where} cannot be read: it does not begin like a .npy file; write it with numpy.save"
        ) from error
    if header.dtype.hasobject:
        raise VseppError(f"{where}: expected numbers or text, found Python objects, which are not unpickled")
    if (
        header.dtype.itemsize == 0
        or min(header.shape, default=0) < 0
        or header.dtype.names
        or header.dtype.subdtype
    ):
        raise VseppError(f"{where}: expected plain numbers or text, found {header.dtype} {header.shape}")
    if header.bytes != size:
        raise VseppError(
            f"{where}: expected {header.bytes:,} bytes for {header.dtype} {header.shape}, found {size:,}; the copy is "
            "truncated or damaged: fetch it again"
        )
    return header


class NpyRows:
    """A float32 `.npy` file `(n, dim)`.

    Streamed, not memory-mapped, so that an archive need not be unpacked. Nothing is unpickled: the file must hold plain
    numbers.

    Parameters
    ----------
    container, member
        Folder or archive, and the file's path inside.

    Attributes
    ----------
    dim
        Numbers in a row.
    where
        What messages call the file.

    Raises
    ------
    VseppError
        If it is missing, truncated or not such an array.
    """

    def __init__(self, container: Container, member: str) -> None:
        self.where = f"{container.path}/{member}"
        self._container = container
        self._member = member
        with container.open(member) as (stream, size):
            header = _checked_header(stream, size, self.where)
        if (
            len(header.shape) != 2
            or 0 in header.shape
            or header.dtype != np.dtype("<f4")
            or header.columns_first
        ):
            order = ", column by column" if header.columns_first else ""
            raise VseppError(
                f"{self.where}: expected float32 (n, dim), found {header.dtype} {header.shape}{order}; "
                "save it with numpy.save(file, rows.astype('float32'))"
            )
        self._rows, self.dim = header.shape
        self._offset, self._row_bytes = header.offset, 4 * self.dim

    def __len__(self) -> int:
        return self._rows

    def blocks(self, start: int, stop: int, size: int) -> Iterator[np.ndarray]:
        """Rows `start` to `stop`, `size` at a time: float32 `(size, dim)`, the last block perhaps smaller.

        Raises
        ------
        VseppError
            If the file cannot be read.
        """
        with self._container.open(self._member) as (stream, _):
            stream.seek(self._offset + start * self._row_bytes)
            for first in range(start, stop, size):
                rows = min(size, stop - first)
                data = stream.read(rows * self._row_bytes)
                if len(data) != rows * self._row_bytes:
                    raise VseppError(
                        f"{self.where}: ends before row {first + rows} of {len(self)}; fetch it again"
                    )
                yield np.frombuffer(data, "<f4").reshape(rows, self.dim)
            # At the end of an archive's member its checksum is compared.
            if stop == len(self) and stream.read(1):
                raise VseppError(f"{self.where}: goes on after its last row; fetch it again")
