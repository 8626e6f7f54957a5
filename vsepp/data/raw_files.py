"""What a reader returns, and how raw files are opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from vsepp.base.errors import VseppError
from vsepp.base.files import LARGEST_TEXT, bytes_of, json_of, shortly, utf8
from vsepp.base.spec import CorpusSpec
from vsepp.data.containers import Container, role_path


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

    def json(self, object_hook: Callable[[dict[str, Any]], Any] | None = None) -> dict[str, Any]:
        """Its JSON object.

        Raises
        ------
        VseppError
            If it is not JSON, or not an object, naming line and column.
        """
        value = json_of(self.text(), self.where, object_hook)
        if not isinstance(value, dict):
            raise VseppError(f"{self.where}: expected a JSON object, found {shortly(value)}")
        return value


def read_raw(spec: CorpusSpec, role: str, member: str) -> RawFile:
    """Read the file of a role: given itself, or as the folder or zip archive that holds `member`.

    Raises
    ------
    VseppError
        If the corpus declares no such role, or the file is missing.
    """
    path = role_path(spec, role)
    if path.is_file() and path.suffix.lower() != ".zip":
        return RawFile(bytes_of(path, member), str(path))
    container = Container(path)
    found = container.locate(member)
    if found is None:
        raise VseppError(f"{path}: holds no {member}; fetch a complete copy")
    return RawFile(container.read(found, LARGEST_TEXT), container.where(found))


@dataclass(frozen=True)
class RawCorpus:
    """Captioned images in the order of their file."""

    images: list[CaptionedImage]
    unlisted: list[str] | None = None
    """Ids of images that have captions but are in no split; `None` if one file gives both."""


def lines_of(text: str) -> list[str]:
    """Lines of a text without their ends, `\\n` or `\\r\\n`; text after the last end counts too."""
    # Not str.splitlines, which also breaks at characters that may stand inside a caption.
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]


def is_id(value: Any) -> bool:
    """Whether a JSON value can be the id of an image or caption: a whole number from 0 that fits into 64 bits."""
    return type(value) is int and 0 <= value < 1 << 63


def list_of(document: dict[str, Any], key: str, where: str) -> list[Any]:
    """Value of a key that must hold a list.

    Raises
    ------
    VseppError
        If it holds none.
    """
    value = document.get(key)
    if not isinstance(value, list):
        raise VseppError(
            f"{where}: expected a list under {key!r}, found {shortly(value)}; its keys are {shortly(sorted(document))}"
        )
    return value
