"""Flickr8k as its authors released it.

Roles: `images` (`Flickr8k_Dataset.zip` or its folder) and `text` (`Flickr8k_text.zip` or its folder), which
holds `Flickr8k.token.txt` (`NAME.jpg#k`, a tab, the caption) and one list of photographs per split.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from vsepp.base.errors import VseppError
from vsepp.base.files import shortly
from vsepp.base.spec import CorpusSpec
from vsepp.data.raw import Caption, CaptionedImage, RawCorpus, RawFile, image_ids, read_raw

CITATION = "Hodosh, Young and Hockenmaier, 2013: Framing image description as a ranking task"
FILES = ("images", "text")

CAPTIONS = "Flickr8k.token.txt"
LISTS = {
    "train": "Flickr_8k.trainImages.txt",
    "val": "Flickr_8k.devImages.txt",
    "test": "Flickr_8k.testImages.txt",
}
_ROW = re.compile(r"(?P<name>[^\t]+)#(?P<number>[0-9]{1,4})\t(?P<text>.*)", re.DOTALL)


def read(spec: CorpusSpec, files: Mapping[str, Path]) -> RawCorpus:
    """Read the photographs of the three lists, in list order: train, val (`dev`), test.

    A caption's id is its line in `Flickr8k.token.txt`, counted from 1; an image's id is its file name without
    suffix. The release has captions for 92 photographs that are in no list: they are counted and left out.

    Raises
    ------
    VseppError
        On malformed lines, on captions of a photograph that are not numbered 0, 1, 2, … in this order, on a
        caption file without an end of its last line (the release has one, so the file is cut), and on listed
        photographs without captions.
    """
    tokens = read_raw(files["text"], CAPTIONS)
    captions = _captions(tokens)
    images: list[CaptionedImage] = []
    for split, list_name in LISTS.items():
        file = read_raw(files["text"], list_name)
        for line, content in _lines(file):
            name = content.strip()
            if name not in captions:
                raise VseppError(
                    f"{file.where}: line {line}: {shortly(name)} has no caption in {tokens.where}; fix the "
                    "list"
                )
            images.append(
                CaptionedImage(
                    image_id=PurePosixPath(name).stem,
                    path=name,
                    container="images",
                    split=split,
                    captions=tuple(captions[name]),
                    listed_in=f"{file.where}: line {line}",
                    captions_in=f"{tokens.where}: line",
                )
            )
    return RawCorpus(image_ids(images), sorted(captions.keys() - {image.path for image in images}))


def _captions(file: RawFile) -> dict[str, list[Caption]]:
    """Captions of each photograph in file order."""
    captions: dict[str, list[Caption]] = {}
    if not file.data.endswith(b"\n"):
        raise VseppError(f"{file.where}: ends inside its last line, which is cut; fetch it again")
    for line, content in _lines(file):
        row = _ROW.fullmatch(content)
        if row is None:
            raise VseppError(
                f"{file.where}: line {line}: got {shortly(content)}; expected NAME.jpg#k, a tab and the "
                "caption"
            )
        before = captions.setdefault(row["name"], [])
        if int(row["number"]) != len(before):
            raise VseppError(
                f"{file.where}: line {line}: got caption {row['number']} of {shortly(row['name'])}, expected "
                f"{len(before)}: a photograph's captions are numbered 0, 1, 2, … in this order; fetch the "
                "file again"
            )
        before.append(Caption(line, row["text"]))
    return captions


def _lines(file: RawFile) -> list[tuple[int, str]]:
    """Lines that are not blank, numbered from 1."""
    return [(number, line) for number, line in enumerate(file.lines(), start=1) if line.strip()]
