"""Karpathy's split files: `dataset_flickr30k.json`, `dataset_flickr8k.json`, `dataset_coco.json`.

A file is `{"images": [...]}`; an image has `filename`, in COCO also `filepath` and `cocoid`, a `split`, the
ids of its captions (`sentids`) and the captions themselves (`sentences`: `raw`, `sentid`, `tokens`, `imgid`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import FailFast, Field

from vsepp.base.errors import VseppError
from vsepp.base.files import shortly
from vsepp.base.spec import CorpusSpec
from vsepp.data.raw import Caption, CaptionedImage, RawCorpus, RawId, image_ids, read_raw

CITATION = "Karpathy and Fei-Fei, 2015: Deep visual-semantic alignments for generating image descriptions"
FILES = ("images", "splits")


@dataclass(frozen=True)
class Sentence:
    """A caption."""

    sentid: RawId
    raw: Any = None
    """Its text, which is not used where COCO has it."""


@dataclass(frozen=True)
class Entry:
    """An image."""

    filename: Annotated[str, Field(min_length=1)]
    split: str
    filepath: str = ""
    cocoid: RawId | None = None
    sentids: list[RawId] = field(default=None)  # type: ignore[arg-type]
    """Ids of its captions in their order; `None` where the file has none, but never `null` in it:
    defaults are not validated."""
    sentences: list[Sentence] = field(default_factory=list)


@dataclass(frozen=True)
class Document:
    """The file."""

    images: Annotated[list[Entry], FailFast()]


def read(spec: CorpusSpec, files: Mapping[str, Path]) -> RawCorpus:
    """Read Flickr30K or Flickr8k with Karpathy's splits.

    A caption is the `raw` text of a sentence and its id the `sentid`. An image's id is its file name without
    suffix, as in the original release of Flickr8k, or its path where another image has the same.

    Raises
    ------
    VseppError
        If the file does not have the layout described above.
    """
    return RawCorpus(image_ids([image for image, _ in load(files["splits"], f"dataset_{spec.name}.json")]))


def load(path: Path, member: str) -> list[tuple[CaptionedImage, int | None]]:
    """Images of a split file with their `cocoid`, in file order.

    Parameters
    ----------
    path
        The file, or a folder or zip archive of several.
    member
        Its name there.

    Raises
    ------
    VseppError
        On malformed entries.
    """
    file = read_raw(path, member)
    images = []
    for row, entry in enumerate(file.json(Document, _without_tokens).images):
        where = f"{file.where}: images[{row}]"
        texts = {sentence.sentid: sentence.raw for sentence in entry.sentences}
        listed = [sentence.sentid for sentence in entry.sentences]
        sentids = listed if entry.sentids is None else entry.sentids
        if sorted(listed) != sorted(sentids):
            differing = sorted(set(listed) ^ set(sentids)) or sentids
            raise VseppError(
                f"{where}: 'sentids' and 'sentences' disagree about {shortly(differing)}; fetch the file "
                "again, or fix this entry"
            )
        image = CaptionedImage(
            image_id=PurePosixPath(entry.filename).stem,
            path=(PurePosixPath(entry.filepath) / entry.filename).as_posix(),
            container="images",
            split=entry.split,
            captions=tuple(Caption(sentid, texts[sentid]) for sentid in sentids),
            listed_in=where,
            captions_in=f"{file.where}: sentid",
        )
        images.append((image, entry.cocoid))
    return images


def _without_tokens(value: dict[str, Any]) -> dict[str, Any]:
    # Captions are tokenised here; Karpathy's own tokens would take most of the memory of COCO's file.
    value.pop("tokens", None)
    return value
