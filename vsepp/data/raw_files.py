"""What a reader returns, and how raw files are opened."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Any, NamedTuple

from pydantic import Field, TypeAdapter, ValidationError

from vsepp.data.containers import Container, role_path
from vsepp.declared import mistakes_of
from vsepp.errors import VseppError, refuse
from vsepp.spec import CorpusSpec
from vsepp.user_files import LARGEST_TEXT, bytes_of, utf8

log = logging.getLogger("vsepp")

Id = Annotated[int, Field(ge=0, lt=1 << 63)]
"""Number of an image or caption in a JSON file."""


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

    def json(self, declaration: Any) -> Any:
        """Its JSON, read through a declaration; keys that it does not name may hold anything.

        Raises
        ------
        VseppError
            If it is not JSON, naming line and column, or of another form, naming the keys.
        """
        try:
            return TypeAdapter(declaration).validate_json(self.text(), strict=True)
        except ValidationError as error:
            mistakes = [f"{key}: {text}".removeprefix(": ") for key, text in mistakes_of(error, declaration)]
            refuse(
                mistakes, f"{self.where}: malformed entries", "Fetch the file again, or fix these entries."
            )
            raise

    def tell_end(self) -> None:
        """Warn of a file of lines whose last one has no end: it may be cut, and nothing else would show it."""
        if self.data and not self.data.endswith((b"\n", b"\r")):
            message = (
                "%s: its last line has no end, and is taken as it is; if it is cut, fetch the file again"
            )
            log.warning(message, self.where)


class RawFiles:
    """Reads the raw text files of a corpus and compares their checksums with those that others report."""

    def __init__(self, spec: CorpusSpec) -> None:
        self.spec = spec
        self.sums: dict[str, str] = {}
        """Name, as in `spec.reported_sha256` → SHA-256 found."""

    def read(self, role: str, member: str) -> RawFile:
        """Read the file of a role: given itself, or as the folder or zip archive that holds `member`.

        Tells where its checksum differs from what others report, which proves nothing.

        Raises
        ------
        VseppError
            If the corpus declares no such role, or the file is missing.
        """
        path = role_path(self.spec, role)
        if path.is_file() and path.suffix.lower() != ".zip":
            file = RawFile(bytes_of(path, member), str(path))
        else:
            container = Container(path)
            inside = container.locate(member)
            if inside is None:
                raise VseppError(f"{path}: holds no {member}; fetch a complete copy")
            file = RawFile(container.read(inside, LARGEST_TEXT), container.where(inside))
        # A file given itself may have another name than in its release.
        for name in {member, PurePosixPath(file.where).name} & set(self.spec.reported_sha256):
            self.sums[name] = found = hashlib.sha256(file.data).hexdigest()
            reported = self.spec.reported_sha256[name]
            if found not in reported:
                message = (
                    "corpus %s: %s has SHA-256 %s, but %s is reported for it. The file is used, since the reported sum was not "
                    "verified here; compare it with another copy"
                )
                log.warning(message, self.spec.name, name, found, " or ".join(reported))
        return file


@dataclass(frozen=True)
class RawCorpus:
    """Captioned images in the order of their file."""

    images: list[CaptionedImage]
    files: RawFiles
    """What they were read with."""
    unlisted: int = 0
    """Images that have captions but are in no split."""


def lines_of(text: str) -> list[str]:
    """Lines of a text without their ends, `\\n` or `\\r\\n`; text after the last end counts too."""
    # Not str.splitlines, which also breaks at characters that may stand inside a caption.
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]
