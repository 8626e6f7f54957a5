"""Shards as WebDataset has them and img2dataset writes them: tar archives of photographs with captions.

Role: `shards`, a folder of `*.tar`. Files of one sample follow each other and differ only after the first dot of their names:
`000000012.jpg`, `000000012.txt`. With `captions: parquet`, captions are those of the table beside each archive, `00000.parquet`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from vsepp import components
from vsepp.data.containers import TAR, Container, role_path
from vsepp.data.raw_files import Caption, CaptionedImage, RawCorpus, RawFiles, lines_of
from vsepp.declared import SPLITS, Fraction
from vsepp.errors import VseppError, refuse
from vsepp.spec import CorpusSpec
from vsepp.user_files import LARGEST_TEXT, PHOTOGRAPHS, json_of, reading, utf8

ROLE = "shards"
CITATION = "Beaumont, img2dataset, 2021; Aizman, Maltby and Breuel, High performance I/O for large scale deep learning, 2019"
_COLUMNS = ["key", "caption"]


@dataclass(frozen=True)
class Options:
    """Options of the reader."""

    captions: Literal["txt", "parquet"] = "txt"
    """`txt`: a file of each sample, a caption a line. `parquet`: the columns `key` and `caption` of img2dataset's table; rows whose
    `status` is not `success` are left out."""
    held_out: Fraction = 0.1
    """Share of the images that are `val`, and share that are `test`, by a hash of their keys: an image keeps its split when others are
    added. A sample whose `json` has a `split` has that one."""


def read(spec: CorpusSpec) -> RawCorpus:
    """Read the samples of all archives, in the order of their names.

    A caption's id is its place among all captions, from 1.

    Raises
    ------
    VseppError
        If there is no archive, or a key is given twice, or a sample has no caption or two photographs.
    """
    options = components.options("reader", spec.reader)
    container = Container(role_path(spec, ROLE))
    samples: dict[str, dict[str, list[str]]] = {}
    for name in container.names:
        path = PurePosixPath(name)
        if f"{TAR}/" in name:
            key, _, kind = path.name.partition(".")
            samples.setdefault(str(path.with_name(key)), {}).setdefault(kind.lower(), []).append(name)
    if not samples:
        raise VseppError(f"{container.path}: expected a folder of tar archives with samples, found none")
    photographs = {key: _photographs(files) for key, files in samples.items()}
    known: dict[str, str] = {}
    images, problems, number = [], [], 0
    texts = _of_tables(container.path) if options.captions == "parquet" else {}
    for key, members in photographs.items():
        image_id = PurePosixPath(key).name
        if not members:
            continue  # such as a sample of text alone
        first = known.setdefault(image_id, key)
        found = texts.get(image_id, []) if options.captions == "parquet" else _lines(container, samples[key])
        if first != key:
            problems.append(f"{key}: {first} has the same key")
        elif len(members) > 1:
            problems.append(f"{key}: {len(members)} photographs")
        elif not found:
            problems.append(f"{key}: no caption")
        captions = tuple(Caption(number + place, text) for place, text in enumerate(found, start=1))
        number += len(found)
        images.append(
            CaptionedImage(
                image_id=image_id,
                path=members[0],
                container=ROLE,
                split=_split(container, image_id, samples[key], options.held_out),
                captions=captions,
                listed_in=container.where(members[0]),
                captions_in=f"{container.path}: caption",
            )
        )
    refuse(
        problems, f"{container.path}: samples that cannot be used", "Each has one photograph and a caption."
    )
    return RawCorpus(images, RawFiles(spec))


def _photographs(files: dict[str, list[str]]) -> list[str]:
    return [name for kind, names in files.items() if f".{kind}" in PHOTOGRAPHS for name in names]


def _lines(container: Container, files: dict[str, list[str]]) -> list[str]:
    """Captions of a sample's text file."""
    members = files.get("txt", [])
    return [
        line
        for name in members
        for line in lines_of(utf8(container.read(name, LARGEST_TEXT), container.where(name)).strip())
    ]


def _split(container: Container, key: str, files: dict[str, list[str]], held_out: float) -> str:
    for name in files.get("json", []):
        where = container.where(name)
        given = json_of(utf8(container.read(name, LARGEST_TEXT), where), where)
        split = given.get("split") if isinstance(given, dict) else None
        if split is not None and split not in SPLITS:
            raise VseppError(f"{where}: split {split!r}; expected one of {', '.join(SPLITS)}")
        if split is not None:
            return str(split)
    place = int(hashlib.sha256(key.encode()).hexdigest()[:15], 16) / 16**15
    return "test" if place < held_out else "val" if place < 2 * held_out else "train"


def _of_tables(folder: Path) -> dict[str, list[str]]:
    """Captions of each key, of the tables beside the archives."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.glob("*.parquet")):
        for key, caption in _rows(path):
            found.setdefault(key, []).append(caption)
    if not found:
        raise VseppError(f"{folder}: expected a table *.parquet beside each tar archive, found no row")
    return found


def _rows(path: Path) -> Iterator[tuple[str, str]]:
    import pandas as pd

    with reading(path, f"a table with the columns {' and '.join(_COLUMNS)}, as img2dataset writes it"):
        table = pd.read_parquet(path)
        if missing := [name for name in _COLUMNS if name not in table.columns]:
            raise VseppError(
                f"{path}: no column {' and '.join(missing)}; its columns are {', '.join(table.columns)}"
            )
        if "status" in table.columns:
            table = table[table["status"] == "success"]
        table = table[table["caption"].notna()]
    return zip(table["key"].astype(str), table["caption"].astype(str), strict=True)
