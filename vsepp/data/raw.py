"""Raw files: the text or JSON of one file, and what a reader returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import Field, ValidationError

from vsepp.base.declared import SPLITS, adapter
from vsepp.base.errors import VseppError
from vsepp.base.files import (
    LARGEST_TEXT,
    bytes_of,
    is_there,
    json_of,
    require_file,
    shortly,
    utf8,
)
from vsepp.data.container import Container

T = TypeVar("T")


class Caption(NamedTuple):
    """A caption and its number in the raw files."""

    caption_id: int
    text: str
    where: str = ""
    """File and line that hold it, for messages; empty where `captions_in` and the number name them."""


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
    left_out: list[str] = field(default_factory=list)
    """Rows that name no image or no caption: where, and why."""


def image_ids(images: Sequence[CaptionedImage]) -> list[CaptionedImage]:
    """Images whose ids are as short as they were given, but whole paths where different
    paths would share one."""
    paths: dict[str, set[str]] = {}
    for image in images:
        paths.setdefault(image.image_id, set()).add(image.path)
    return [
        replace(image, image_id=image.path) if len(paths[image.image_id]) > 1 else image for image in images
    ]


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
            If it is not JSON, naming line and column, or holds something else, naming the first
            place: `images[3].filename`.
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
                f"{self.where}: {place.removeprefix('.') or 'all of it'}: {problem}; fetch the file again, "
                "or fix this entry"
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
        if container.is_folder and is_there(path / member):
            require_file(path / member, "a whole copy: fetch it again")
        raise VseppError(f"{path}: holds no {member}; give a complete copy, or the file itself")
    return RawFile(container.read(inside, LARGEST_TEXT), container.where(inside))
