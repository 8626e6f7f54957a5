"""Files that others made: opened only if they are files, read up to a size, parsed with one sentence for what is wrong."""

from __future__ import annotations

import json
import os
import reprlib
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vsepp.errors import VseppError

LARGEST_TEXT = 1 << 30
"""Bytes of the largest text that is read; the largest of the field, Karpathy's split of COCO, has 144 MB."""

_short = reprlib.Repr()
_short.maxlevel, _short.maxstring, _short.maxother = 2, 60, 60
_short.maxdict = _short.maxlist = _short.maxtuple = _short.maxset = 3


def shortly(value: object) -> str:
    """A value for a message, however long, deep or unprintable it is."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"a number of {value.bit_length()} bits"
    try:
        return _short.repr(value)
    except ValueError:  # a long number inside
        return f"a {type(value).__name__}"


def is_there(path: Path) -> bool:
    """Whether a path leads to something; one that no file can have does not."""
    try:
        path.stat()
    except (OSError, ValueError):
        return False
    return True


def require_file(path: Path, expected: str) -> os.stat_result:
    """Refuse what is no regular file before it is opened: a FIFO would wait for ever, a device never end.

    Parameters
    ----------
    path
        What should be a file, or a link to one.
    expected
        What it should hold, for the message: `an .npz of embeddings`.

    Raises
    ------
    VseppError
        If there is nothing, or a folder, a FIFO, a socket or a device.
    """
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        missing = isinstance(error, FileNotFoundError | NotADirectoryError)
        what = "no such file" if missing else f"cannot be read: {reason_of(error)}"
        raise VseppError(f"{path}: {what}; expected {expected}") from error
    if not stat.S_ISREG(status.st_mode):
        raise VseppError(f"{path}: {kind_of(status.st_mode)}, not a file; expected {expected}")
    return status


def kind_of(mode: int) -> str:
    """What a path is that is not a regular file, in words."""
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFLNK: "a link",
    }
    return kinds.get(stat.S_IFMT(mode), "a device")


def reason_of(error: BaseException) -> str:
    """Why a file cannot be read, in words: of the system's own errors without number and path, of others what they are."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return "not enough memory" if isinstance(error, MemoryError) else "it is damaged"


def bytes_of(path: Path, expected: str, largest: int = LARGEST_TEXT) -> bytes:
    """The bytes of a file that is read whole.

    Raises
    ------
    VseppError
        If it is no file (as `require_file`), has more than `largest` bytes or cannot be read.
    """
    size = require_file(path, expected).st_size
    if size > largest:
        raise VseppError(f"{path}: has {size:,} bytes; expected {expected}, of at most {largest:,} bytes")
    try:
        with path.open("rb") as stream:
            # Files below /proc have more bytes than they say.
            data = stream.read(largest + 1)
    except OSError as error:
        raise VseppError(f"{path}: cannot be read: {reason_of(error)}; expected {expected}") from error
    if len(data) > largest:
        raise VseppError(f"{path}: has more than {largest:,} bytes; expected {expected}")
    return data


def text_of(path: Path, expected: str, largest: int = LARGEST_TEXT) -> str:
    """The text of a UTF-8 file; errors as in `bytes_of` and `utf8`."""
    return utf8(bytes_of(path, expected, largest), str(path))


def utf8(data: bytes, where: str) -> str:
    """Text of UTF-8 bytes, with or without a byte order mark.

    Raises
    ------
    VseppError
        If they are not UTF-8, naming line and byte.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start]
        line, start = before.count(b"\n") + 1, before.rfind(b"\n") + 1
        # JSON is one long line: the text before the byte helps to find it.
        after = before[start:][-40:].decode("ascii", "replace")
        raise VseppError(
            f"{where}: not UTF-8: line {line}, byte {error.start - start + 1}: 0x{error.object[error.start]:02x} "
            f"after {after!r}; save the file as UTF-8"
        ) from error


def json_of(text: str, where: str, object_hook: Callable[[dict[str, Any]], Any] | None = None) -> Any:
    """The value of a JSON text.

    Parameters
    ----------
    text
        The text.
    where
        What messages call it.
    object_hook
        Changes each object as soon as it is read.

    Raises
    ------
    VseppError
        If it is not JSON, naming line and column, nests too deeply, holds a number of thousands of digits or gives a key twice.
    """

    def unique(pairs: list[tuple[str, Any]]) -> Any:
        made = dict(pairs)
        if len(made) < len(pairs):
            names = [name for name, _ in pairs]
            repeated = next(name for name in names if names.count(name) > 1)
            raise VseppError(
                f"{where}: not valid JSON: an object has the key {shortly(repeated)} twice; keep one"
            )
        return made if object_hook is None else object_hook(made)

    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise VseppError(
            f"{where}: not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}; "
            "the file may be truncated: fetch it again"
        ) from error
    except RecursionError as error:
        raise VseppError(
            f"{where}: not valid JSON: lists or objects nested hundreds of levels deep; expected a few levels"
        ) from error
    except ValueError as error:  # Python reads no whole number of more digits than this
        raise VseppError(
            f"{where}: not valid JSON: a number of thousands of digits; expected at most 64 bits"
        ) from error
