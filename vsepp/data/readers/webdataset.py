"""Shards as WebDataset has them and img2dataset writes them: tar archives of photographs with captions.

Role: `shards`, a folder of `*.tar`. Files of one sample follow each other and differ only after the first dot of their names:
`000000012.jpg`, `000000012.txt`. With `captions: parquet`, captions come from the table beside each archive, `00000.parquet`.
If a sample's `json` has `caption_ids`, as `vsepp export-tar` writes it, captions and ids come from there.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from vsepp import components
from vsepp.data.containers import TAR, Container, role_path
from vsepp.data.raw_files import Caption, CaptionedImage, RawCorpus, RawFile, RawFiles, is_id, lines_of
from vsepp.declared import SPLITS, Fraction
from vsepp.errors import VseppError, refuse
from vsepp.spec import CorpusSpec
from vsepp.user_files import LARGEST_TEXT, PHOTOGRAPHS, reading

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
        name = image_id = PurePosixPath(key).name
        if not members:
            continue  # such as a sample of text alone
        first = known.setdefault(name, key)
        found = lines_of(_file(container, samples[key], "txt").text().strip())
        if options.captions == "parquet":
            found = texts.get(name, [])
        if first != key:
            problems.append(f"{key}: {first} has the same key")
        elif len(members) > 1:
            problems.append(f"{key}: {len(members)} photographs")
        elif not found:
            problems.append(f"{key}: no caption")
        file = _file(container, samples[key], "json", b"{}")
        noted = file.json()
        captions = tuple(Caption(number + place, text) for place, text in enumerate(found, start=1))
        if "caption_ids" in noted:
            image_id, captions = _exported(noted, file.where)
        number += len(captions)
        images.append(
            CaptionedImage(
                image_id=image_id,
                path=members[0],
                container=ROLE,
                split=_split(name, noted, file.where, options.held_out),
                captions=captions,
                listed_in=container.where(members[0]),
                captions_in=f"{container.path}: caption",
            )
        )
    refuse(problems, f"{container.path}: samples that cannot be used", "Each has a photograph and a caption.")
    return RawCorpus(images, RawFiles(spec))


def _photographs(files: dict[str, list[str]]) -> list[str]:
    return [name for kind, names in files.items() if f".{kind}" in PHOTOGRAPHS for name in names]


def _file(container: Container, files: dict[str, list[str]], kind: str, absent: bytes = b"") -> RawFile:
    """A sample's file of a kind, or `absent` where there is none."""
    for name in files.get(kind, []):
        return RawFile(container.read(name, LARGEST_TEXT), container.where(name))
    return RawFile(absent, "")


def _exported(noted: dict[str, Any], where: str) -> tuple[str, tuple[Caption, ...]]:
    with reading(where, "image_id, a text, and caption_ids, whole numbers, one for each of texts"):
        ids, texts = noted["caption_ids"], noted["texts"]
        if not isinstance(noted["image_id"], str) or not all(map(is_id, ids)):
            raise ValueError
        return noted["image_id"], tuple(Caption(*both) for both in zip(ids, texts, strict=True))


def _split(key: str, noted: dict[str, Any], where: str, held_out: float) -> str:
    if (split := noted.get("split")) is not None:
        if split not in SPLITS:
            raise VseppError(f"{where}: split {split!r}; expected one of {', '.join(SPLITS)}")
        return str(split)
    place = int(hashlib.sha256(key.encode()).hexdigest()[:15], 16) / 16**15
    return "test" if place < held_out else "val" if place < 2 * held_out else "train"


def _of_tables(folder: Path) -> dict[str, list[str]]:
    """Captions of each key, from the tables beside the archives."""
    import pandas as pd

    found: dict[str, list[str]] = {}
    for path in sorted(folder.glob("*.parquet")):
        with reading(path, f"a table with the columns {' and '.join(_COLUMNS)}, as img2dataset writes it"):
            table = pd.read_parquet(path)
            if missing := [name for name in _COLUMNS if name not in table.columns]:
                raise VseppError(f"no column {' and '.join(missing)}; there are {', '.join(table.columns)}")
            if "status" in table.columns:
                table = table[table["status"] == "success"]
            table = table[table["caption"].notna()]
        for key, caption in zip(table["key"].astype(str), table["caption"].astype(str), strict=True):
            found.setdefault(key, []).append(caption)
    if not found:
        raise VseppError(f"{folder}: expected a table *.parquet beside each tar archive, found no row")
    return found
