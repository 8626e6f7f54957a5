"""Raw files: a folder or zip archive read in place, the text or JSON of one file, and what a reader returns."""

from __future__ import annotations

import os
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Annotated, Any, NamedTuple, TypeVar

from pydantic import Field, ValidationError

from vsepp.base.declared import SPLITS, adapter
from vsepp.base.errors import VseppError
from vsepp.base.files import LARGEST_TEXT, bytes_of, json_of, reading, reason_of, require_file, shortly, utf8

T = TypeVar("T")

EXPECTED = "a folder or a whole zip archive that is not encrypted; it may be truncated: fetch it again"
LARGEST_MEMBER = 2 << 30
"""A member is read into memory whole; no photograph or caption file is larger."""

# macOS adds these to its archives: metadata of the members, not members.
_SHADOWS = "__MACOSX/"
_ENCRYPTED = 0x1  # a flag of a member


class Caption(NamedTuple):
    """A caption and its number in the raw files."""

    caption_id: int
    text: str


@dataclass(frozen=True)
class CaptionedImage:
    """An image of a split with its captions, as the raw files list it."""

    image_id: str
    path: str
    """Relative path that the raw files give: `NAME.jpg` or `train2014/NAME.jpg`."""
    container: str
    """Role of the folder or archive that holds it; empty if there are features but no photographs."""
    split: str
    captions: tuple[Caption, ...]
    listed_in: str
    """File and row that list it, for messages."""
    captions_in: str
    """File that holds its captions and its name for their numbers, for messages: `dataset.json: sentid`."""

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise VseppError(
                f"{self.listed_in}: got split {shortly(self.split)}; expected one of {', '.join(SPLITS)}"
            )


@dataclass(frozen=True)
class RawCorpus:
    """Captioned images in the order of their file."""

    images: list[CaptionedImage]
    unlisted: list[str] | None = None
    """Ids of images that have captions but are in no split; `None` if one file gives both."""


class Container:
    """Files of a folder or of a zip archive, which is not unpacked. Each process opens its own.

    Parameters
    ----------
    path
        A folder or a zip archive.
    expected
        What messages say that it should be.

    Raises
    ------
    VseppError
        If `path` does not exist or is neither a folder nor a zip archive, or if two members have the same name.
    """

    def __init__(self, path: Path | str, expected: str = EXPECTED):
        self.path = Path(path)
        self.is_folder = self.path.is_dir()
        self._archive = None if self.is_folder else _opened(self.path, expected)

    def locate(self, path: str) -> str | None:
        """The member that `path` names, or `None`.

        An exact path wins. Otherwise the base name decides, since one release packs the photographs in a folder
        (`Flicker8k_Dataset/NAME.jpg`) and another does not; of several members with this base name, the member
        with a path that ends in `path` wins.

        Raises
        ------
        VseppError
            If several members match.
        """
        candidates = self._by_basename.get(path.rpartition("/")[2], [])
        if path in candidates:
            return path
        if len(candidates) > 1:
            candidates = [name for name in candidates if name.endswith("/" + path)] or candidates
        if len(candidates) > 1:
            raise VseppError(
                f"{self.path}: {path} is ambiguous: {' and '.join(candidates[:3])} match; "
                "keep one of them, or give the folder that holds it"
            )
        return candidates[0] if candidates else None

    def read(self, member: str, largest: int = LARGEST_MEMBER) -> bytes:
        """Bytes of a member, given by its exact path inside.

        Raises
        ------
        VseppError
            If it is missing, damaged, encrypted, no file or has more than `largest` bytes, naming member and container.
        """
        with self.open(member) as (stream, size):
            if size > largest:
                raise VseppError(
                    f"{self.where(member)}: has {size:,} bytes, expected at most {largest:,}; check where the copy comes from"
                )
            # At the end of an archive's member its checksum is compared.
            return stream.read(size) + stream.read(1)

    @contextmanager
    def open(self, member: str) -> Iterator[tuple[IO[bytes], int]]:
        """Open a member that is too large for memory: a stream, and the number of bytes that it should have.

        Errors as in `read`; an error of reading that the body raises is reported as one of the member.
        """
        where, expected = self.where(member), "a whole copy: fetch it again"
        if self._archive is None:
            size = require_file(self.path / member, expected).st_size
            with reading(where, expected), (self.path / member).open("rb") as stream:
                yield stream, size
            return
        info = self._archive.NameToInfo.get(member)
        if info is None:
            raise VseppError(f"{where}: no such member; expected {expected}")
        if info.flag_bits & _ENCRYPTED:
            raise VseppError(f"{where}: is encrypted; give a copy that needs no password")
        with reading(where, expected), self._archive.open(info) as packed:
            yield packed, info.file_size

    def where(self, member: str) -> str:
        """What messages call a member."""
        return f"{self.path}/{member}"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Paths of all files inside, relative and with forward slashes, sorted. Links to folders are not followed."""
        if self._archive is not None:
            members = self._archive.namelist()
            return tuple(sorted(n for n in members if not n.endswith("/") and not n.startswith(_SHADOWS)))
        names = []
        for folder, _, files in os.walk(self.path, onerror=_refuse_unlisted):
            below = Path(folder).relative_to(self.path)
            names += [(below / name).as_posix() for name in files]
        return tuple(sorted(names))

    @cached_property
    def _by_basename(self) -> dict[str, list[str]]:
        index: dict[str, list[str]] = {}
        for name in self.names:
            index.setdefault(name.rpartition("/")[2], []).append(name)
        return index


def _opened(path: Path, expected: str) -> zipfile.ZipFile:
    require_file(path, expected)
    with reading(path, expected):
        archive = zipfile.ZipFile(path)
    for name, count in Counter(archive.namelist()).items():
        if count > 1:
            raise VseppError(f"{path}: {count} members are named {shortly(name)}; keep one of them")
    return archive


def _refuse_unlisted(error: OSError) -> None:
    raise VseppError(f"{error.filename}: its files cannot be listed: {reason_of(error)}") from error


class RawFile(NamedTuple):
    """The bytes of a raw file and its name in messages."""

    data: bytes
    where: str

    def text(self) -> str:
        """Its text, with or without a byte order mark.

        Raises
        ------
        VseppError
            If it is not UTF-8, naming line and byte.
        """
        return utf8(self.data, self.where)

    def lines(self) -> list[str]:
        """Lines of its text without their ends, `\\n` or `\\r\\n`; text after the last end counts too."""
        # Not str.splitlines, which also breaks at characters that may stand inside a caption.
        lines = [line.removesuffix("\r") for line in self.text().split("\n")]
        return lines if lines[-1] else lines[:-1]

    def json(self, form: type[T], object_hook: Callable[[dict[str, Any]], Any] | None = None) -> T:
        """Its JSON as a class that declares what it must hold; other keys are left out.

        Raises
        ------
        VseppError
            If it is not JSON, naming line and column, or holds something else, naming the first place: `images[3].filename`.
        """
        value = json_of(self.text(), self.where, object_hook)
        try:
            return adapter(form).validate_python(value)
        except ValidationError as error:
            first = error.errors()[0]
            place = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in first["loc"])
            problem = (
                "missing" if first["type"] == "missing" else f"got {shortly(first['input'])}; {first['msg']}"
            )
            raise VseppError(
                f"{self.where}: {place.removeprefix('.') or 'all of it'}: {problem}; fetch the file again, or fix this entry"
            ) from error


RawId = Annotated[int, Field(strict=True, ge=0, lt=1 << 63)]
"""Id of an image or caption in a JSON file."""


def read_raw(path: Path, member: str) -> RawFile:
    """Read a file: given itself, or as the folder or zip archive that holds `member`.

    Raises
    ------
    VseppError
        If the file is missing.
    """
    if path.is_file() and path.suffix.lower() != ".zip":
        return RawFile(bytes_of(path, member), str(path))
    container = Container(path)
    inside = container.locate(member)
    if inside is None:
        raise VseppError(f"{path}: holds no {member}; fetch a complete copy")
    return RawFile(container.read(inside, LARGEST_TEXT), container.where(inside))
