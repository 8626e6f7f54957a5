"""The boundary to files: any error on reading a file becomes one sentence with its name; a file is
written whole or not at all.

`reading` is the guard of every reader. A user's file is also opened only if it is a regular file of a
plausible size, and parsed strictly (`bytes_of`, `text_of`, `read_json`, `yaml_of`); files that vsepp wrote
itself are known by the digests of their manifest.
"""

from __future__ import annotations

import csv
import glob
import io
import json
import os
import re
import reprlib
import shutil
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from vsepp.base.errors import VseppError
from vsepp.base.signatures import HEAD, NEVER_MEANT, kind_of

if TYPE_CHECKING:
    import numpy as np

_PROCESSES = Path("/proc")
LARGEST_TEXT = 1 << 30
"""Bytes of the largest text that is read; the largest of the field, Karpathy's split of COCO, has 144 MB."""
_DAMAGED = "it is damaged"

_short = reprlib.Repr()
_short.maxlevel, _short.maxstring, _short.maxother = 2, 60, 60
_short.maxdict = _short.maxlist = _short.maxtuple = _short.maxset = 3


def shortly(value: object) -> str:
    """A value for a message, however long, deep or unprintable it is."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"a number of {value.bit_length()} bits"
    if value is None:
        return "null"
    try:
        # A byte that is no UTF-8, as in `shown`.
        return re.sub(r"(?<!\\)\\udc(?=[89a-f])", r"\\x", _short.repr(value))
    except ValueError:  # a long number inside
        return f"a {type(value).__name__}"


def shown(name: str) -> str:
    """A name of a file as it can be printed: bytes that are no UTF-8, and letters that steer a terminal, are
    escaped (`caf\\xe9.jpg`)."""
    letters = []
    for letter in name:
        if "\udc80" <= letter <= "\udcff":  # how Python keeps a byte that is no UTF-8
            letters.append(f"\\x{ord(letter) - 0xDC00:02x}")
        else:
            letters.append(letter if letter.isprintable() else repr(letter)[1:-1])
    return "".join(letters)


def path_of(value: object, name: str) -> Path:
    """An argument as a path; a `VseppError` with its name if it is none."""
    try:
        return Path(value)  # type: ignore[arg-type]  # what is no path is refused
    except TypeError as error:
        raise VseppError(f"{name}: expected a path, got {shortly(value)}") from error


def is_there(path: Path) -> bool:
    """Whether a path leads to something; a path that no file can have does not."""
    try:
        path.stat()
    except (OSError, ValueError):
        return False
    return True


@contextmanager
def reading(
    where: Path | str, expected: str, *, kinds: Collection[str] | None = None, data: bytes | None = None
) -> Iterator[None]:
    """Guard the reading of a file: whatever the body raises becomes one sentence that names the file.

    Only a file that begins as it should is called damaged; another file is named by its first bytes.

    Parameters
    ----------
    where
        The file, and the part of it, as messages name it. It is put before a `VseppError` that
        does not begin with it.
    expected
        What the file should hold and, if it does not, what to do: `a table; run the
        step that makes it again`.
    kinds
        Kinds of whole files of this sort, as `signatures.kind_of` names them; `None` if they are not known.
    data
        Its first bytes, where `where` is no path.

    Raises
    ------
    VseppError
        If the body raises any exception.
    """
    try:
        yield
    except VseppError as error:
        if str(error).startswith((str(where), shown(str(where)))):
            raise
        raise VseppError(f"{shown(str(where))}: {error}") from error
    except Exception as error:  # damaged bytes can raise anything
        reason = reason_of(error)
        if reason == _DAMAGED or isinstance(error, ValueError):
            head = data if data is not None else _head(where) if isinstance(where, Path) else None
            kind = "" if head is None else kind_of(head)
            if kind in NEVER_MEANT or (kinds is not None and kind not in ("", *kinds)):
                reason = f"is {kind}"
        raise VseppError(f"{shown(str(where))}: {reason}; expected {expected}") from error


def _head(path: Path) -> bytes | None:
    """The first bytes of a file; `None` if it is none, or cannot be read."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as stream:
            return stream.read(HEAD)
    except (OSError, ValueError):
        return None


def reason_of(error: BaseException) -> str:
    """Why a file cannot be read, in words: other exceptions than these say nothing to a user."""
    match error:
        case FileNotFoundError() | NotADirectoryError():
            return "no such file"
        case OSError(strerror=str(reason)):
            return reason
        case MemoryError():
            return "not enough memory"
        case ValueError() if "null byte" in str(error):
            return "a path cannot hold NUL"
        case RecursionError():
            return "lists or objects nested hundreds of levels deep"
        case json.JSONDecodeError():
            return f"not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        case UnicodeDecodeError(object=bytes(data), start=start):
            line_start = data.rfind(b"\n", 0, start) + 1
            # JSON is one long line: the text before the byte helps to find it.
            before = data[line_start:start][-40:].decode("ascii", "replace")
            line = data.count(b"\n", 0, start) + 1
            return (
                f"not UTF-8: line {line}, byte {start - line_start + 1}: 0x{data[start]:02x} after {before!r}"
            )
    return _DAMAGED


def require_file(path: Path, expected: str) -> os.stat_result:
    """Refuse what is no regular file before it is opened: a FIFO would wait for ever, a device never end.

    Parameters
    ----------
    path
        What should be a file, or a link to one.
    expected
        Expected content, for the message: `an .npz of embeddings`.

    Raises
    ------
    VseppError
        If there is nothing, or a folder, a FIFO, a socket or a device.
    """
    with reading(path, expected):
        status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise VseppError(f"{shown(str(path))}: {_kind_of_node(status)}, not a file; expected {expected}")
    return status


def require_folder(path: Path, expected: str) -> Path:
    """A folder that is there; VseppError with what it is instead, and what is expected."""
    if not is_there(path):
        raise VseppError(f"{shown(str(path))}: no such folder; expected {expected}")
    if not path.is_dir():
        head = _head(path)
        kind = _kind_of_node(path.stat()) if head is None else kind_of(head) or "a file"
        raise VseppError(f"{shown(str(path))}: is {kind}, not a folder; expected {expected}")
    return path


def _kind_of_node(status: os.stat_result) -> str:
    kinds = {
        stat.S_IFREG: "a file",
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
    }
    return kinds.get(stat.S_IFMT(status.st_mode), "a device")


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
    with reading(path, expected):
        return path.read_bytes()


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
    with reading(
        where, "UTF-8 text; save it as such (Excel: CSV UTF-8)", kinds=("text", "JSON", "XML"), data=data
    ):
        return data.decode("utf-8-sig")


def json_of(
    text: str,
    where: str,
    object_hook: Callable[[dict[str, Any]], Any] | None = None,
    expected: str = "valid JSON: fetch or make the file again",
) -> Any:
    """The value of a JSON text.

    Parameters
    ----------
    text
        The text.
    where
        What messages call it.
    object_hook
        Changes each object as soon as it is read.
    expected
        As of `reading`.

    Raises
    ------
    VseppError
        If it is not JSON, naming line and column, nests too deeply, holds a number of thousands of
        digits or gives a key twice.
    """

    def unique(pairs: list[tuple[str, Any]]) -> Any:
        values = dict(pairs)
        if len(values) < len(pairs):
            names = [name for name, _ in pairs]
            repeated = next(name for name in names if names.count(name) > 1)
            raise VseppError(f"{where}: not valid JSON: the key {shortly(repeated)} is there twice; keep one")
        return values if object_hook is None else object_hook(values)

    with reading(where, expected, data=text[:HEAD].encode("utf-8", "replace")):
        return json.loads(text, object_pairs_hook=unique)


def yaml_of(text: str, where: str) -> Any:
    """The value of a YAML text that people write; `None` if it holds none. Errors as in `json_of`."""
    import yaml  # not at start-up: it costs a twentieth of a second

    class Loader(yaml.CSafeLoader):
        """Plain values, each key once: PyYAML silently keeps the last of equal keys."""

    def unique(loader: Loader, node: yaml.MappingNode) -> dict[Any, Any]:
        lines: dict[Any, int] = {}
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key, line = loader.construct_object(key_node, deep=True), key_node.start_mark.line + 1
            if key in lines:
                raise VseppError(f"{shortly(key)} is given twice, in lines {lines[key]} and {line}; keep one")
            lines[key] = line
        loader.flatten_mapping(node)
        return loader.construct_mapping(node, deep=True)

    # 1e-4 is a number, as in YAML 1.2; PyYAML's own numbers need a point and a sign.
    number = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$")
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", number, list("-+.0123456789"))
    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, unique)
    with reading(where, "valid YAML, whose dates, numbers, keys and tags have a meaning"):
        try:
            return yaml.load(text, Loader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = f" in line {mark.line + 1}, column {mark.column + 1}" if mark else ""
            raise VseppError(f"not valid YAML: {error.problem or error.context}{place}") from error


def read_json(path: Path, expected: str) -> Any:
    """The value of a JSON file; errors as in `text_of` and `json_of`, with what is expected."""
    return json_of(text_of(path, expected), str(path), expected=expected)


def output_folder(folder: Path) -> Path:
    """Make a folder that results are written to; return it.

    Raises
    ------
    VseppError
        If it cannot be made or written to, before anything is computed for it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            return folder
    except (OSError, ValueError) as error:
        match error:
            case FileExistsError():
                reason = "a link that leads to no folder" if folder.is_symlink() else "a file"
            case NotADirectoryError():
                reason = "it lies in a file"
            case _:
                reason = reason_of(error)
        raise VseppError(
            f"{shown(str(folder))}: results cannot be written there: {reason}; give another folder"
        ) from error


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a path beside `path` to write to; it replaces `path` once the body has succeeded."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = partial_path(path)
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def partial_path(path: Path) -> Path:
    """Path beside `path` for unfinished content.

    Each process has its own: two processes that make one artefact must not write to the same file. Leftovers
    of killed processes of this machine are removed.
    """
    # What is added to a name must not make it too long.
    name = path.name if len(os.fsencode(path.name)) < 128 else sha256(os.fsencode(path.name)).hexdigest()
    prefix = f".{name}.{os.uname().nodename}"
    for leftover in path.parent.glob(f"{glob.escape(prefix)}.*.part"):
        if _PROCESSES.is_dir() and not (_PROCESSES / leftover.name.split(".")[-2]).is_dir():
            remove(leftover)
    return path.with_name(f"{prefix}.{os.getpid()}.part")


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def write_arrays(path: Path, *, compressed: bool = False, **arrays: np.ndarray) -> None:
    """Write an `.npz`."""
    import numpy as np

    save = np.savez_compressed if compressed else np.savez
    with whole_file(Path(path)) as partial, partial.open("wb") as stream:
        save(stream, **arrays)  # type: ignore[arg-type]  # none is named allow_pickle


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Some columns of rows as CSV, below a heading."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def write_text(path: Path, text: str) -> None:
    """Write a text file, as UTF-8."""
    with whole_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def check_space(folder: Path, needed: int, what: str) -> None:
    """Refuse to start what the disk cannot hold; `needed` is in bytes.

    Raises
    ------
    VseppError
        Naming what is needed and what is free.
    """
    from vsepp.base.words import bytes_text

    free = shutil.disk_usage(folder).free
    if free < needed:
        raise VseppError(
            f"{folder}: no space: {what} needs {bytes_text(needed)} and {bytes_text(free)} are free; free "
            "some, or put the results on another disk"
        )
