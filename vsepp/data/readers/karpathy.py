"""Karpathy's split files: `dataset_flickr30k.json`, `dataset_flickr8k.json`, `dataset_coco.json`.

A file is `{"images": [...]}`; an image has `filename`, in COCO also `filepath` and `cocoid`, a `split`, the
ids of its captions (`sentids`) and the captions themselves (`sentences`: `raw`, `sentid`, `tokens`, `imgid`).
"""

from __future__ import annotations

from dataclasses import field
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from vsepp.data.raw_files import Caption, CaptionedImage, Id, RawCorpus, RawFiles
from vsepp.declared import SplitName
from vsepp.errors import refuse
from vsepp.spec import CorpusSpec
from vsepp.user_files import shortly

CITATION = "Karpathy and Fei-Fei, 2015: Deep visual-semantic alignments for generating image descriptions"


@dataclass(frozen=True)
class _Sentence:
    sentid: Id
    raw: str = ""


@dataclass(frozen=True)
class _Image:
    filename: Annotated[str, Field(min_length=1)]
    split: SplitName
    filepath: str = ""
    cocoid: Id | None = None
    sentids: list[Id] | None = None
    """In the order in which the captions count."""
    sentences: list[_Sentence] = field(default_factory=list)

    def __post_init__(self) -> None:
        ids = [sentence.sentid for sentence in self.sentences]
        if self.sentids is not None and sorted(self.sentids) != sorted(ids):
            different = sorted(set(ids) ^ set(self.sentids)) or self.sentids
            raise ValueError(f"'sentids' and 'sentences' disagree about {shortly(different)}")


@dataclass(frozen=True)
class _Document:
    images: list[_Image]


def read(spec: CorpusSpec) -> RawCorpus:
    """Read Flickr30K or Flickr8k with Karpathy's splits; roles `images` and `splits`.

    A caption is the `raw` text of a sentence and its id the `sentid`. An image's id is its file name without
    suffix, as in the original release of Flickr8k.

    Raises
    ------
    VseppError
        If the file does not have the layout described above.
    """
    files = RawFiles(spec)
    entries, _ = load(files, f"dataset_{spec.name}.json")
    return RawCorpus([image for image, _ in entries], files)


def load(files: RawFiles, member: str) -> tuple[list[tuple[CaptionedImage, int | None]], str]:
    """Images of the file `splits` with their `cocoid`, in file order, and the name of the file in messages.

    Parameters
    ----------
    files
        Raw files of the corpus.
    member
        The file's name, if `splits` is a folder or zip archive of several.

    Raises
    ------
    VseppError
        On malformed entries, unknown splits and sentence ids that occur more than once.
    """
    file = files.read("splits", member)
    entries = []
    for row, image in enumerate(file.json(_Document).images):
        raw = {sentence.sentid: sentence.raw for sentence in image.sentences}
        entry = CaptionedImage(
            image_id=PurePosixPath(image.filename).stem,
            path=(PurePosixPath(image.filepath) / image.filename).as_posix(),
            container="images",
            split=image.split,
            captions=tuple(Caption(sentid, raw[sentid]) for sentid in image.sentids or raw),
            listed_in=f"{file.where}: images[{row}]",
            captions_in=f"{file.where}: sentid",
        )
        entries.append((entry, image.cocoid))
    first: dict[int, str] = {}
    repeated = []
    for image, _ in entries:
        for sentid, _ in image.captions:
            if sentid in first:
                repeated.append(f"sentid {sentid} ({first[sentid]} and {image.path})")
            first[sentid] = image.path
    refuse(
        repeated,
        f"{file.where}: sentence ids that occur more than once",
        "Each caption must have an id of its own.",
    )
    return entries, file.where
