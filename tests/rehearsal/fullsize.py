"""Made-up raw files of the size, layout and statistics of the real sources, equal for equal seeds.

    write_raw(folder)                                   # everything, full size: 3.6 GB
    write_raw(folder, images=200)                       # full metadata, photographs of a slice
    write_raw(folder, Sizes(coco={"train": 80, ...}))   # a small corpus

Files: `annotations_trainval2014.zip` (captions only), `caption_datasets.zip`, `train2014.zip`, `val2014.zip`,
`flickr30k-images.zip`. What the captions are like says `made_captions`, the photographs `made_photographs`.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import made_captions
import numpy as np
from made_listings import (
    Listing,
    annotation_ids,
    annotations,
    coco_listing,
    flickr_listing,
    karpathy_entries,
)
from made_photographs import draw_all

from vsepp.base.spec import Component, CorpusSpec

ANNOTATIONS = "annotations_trainval2014.zip"
SPLITS = "caption_datasets.zip"
_PARTS = {"coco": ("train2014", "val2014"), "flickr30k": ("flickr30k-images",)}


@dataclass(frozen=True)
class Sizes:
    """How much of everything; as it stands, as much as the real releases have."""

    coco: Mapping[str, int] = field(
        default_factory=lambda: {"train": 82_783, "restval": 30_504, "val": 5_000, "test": 5_000}
    )
    """Split → images; `train` is all of train2014, the others share val2014."""
    coco_surplus: Mapping[str, int] = field(default_factory=lambda: {"train2014": 198, "val2014": 134})
    """Captions above five an image, which makes 414,113 and 202,654 annotations."""
    flickr30k: Mapping[str, int] = field(
        default_factory=lambda: {"train": 29_000, "val": 1_014, "test": 1_000}
    )
    photographs: int = 2_000
    """Different photographs, which the images share."""


FULL = Sizes()


def write_raw(folder: Path, scale: Sizes = FULL, seed: int = 0, images: int | None = None) -> dict[str, Path]:
    """Write all files into a folder.

    Parameters
    ----------
    folder
        Made where it is missing.
    scale
        How much of everything.
    seed
        Equal seeds and scales give equal contents.
    images
        Photographs of the first so many images of every split, in the order of the Karpathy files; the others are
        empty members, and the metadata stays whole. `None` writes all.

    Returns
    -------
    dict
        Name of each file → its path.
    """
    folder.mkdir(parents=True, exist_ok=True)
    listings = {dataset: listing(dataset, scale, seed) for dataset in _PARTS}
    _write_metadata(folder, listings, seed)
    jpegs = draw_all(seed, scale.photographs)
    for dataset, listed in listings.items():
        for part in _PARTS[dataset]:
            _write_photographs(folder / f"{part}.zip", part, listed, images, jpegs)
    return {path.name: path for path in sorted(folder.iterdir())}


def listing(dataset: str, scale: Sizes, seed: int) -> Listing:
    """Images of `coco` or `flickr30k`."""
    rng = np.random.default_rng([seed, 2, list(_PARTS).index(dataset)])
    if dataset == "coco":
        return coco_listing(rng, scale.coco, scale.coco_surplus, scale.photographs)
    return flickr_listing(rng, *_PARTS[dataset], scale.flickr30k, scale.photographs)


def _write_metadata(folder: Path, listings: Mapping[str, Listing], seed: int) -> None:
    """Write the two archives of splits and captions."""
    words = made_captions.lexicon(np.random.default_rng([seed, 0]))
    for number, (dataset, listed) in enumerate(listings.items()):
        rng = np.random.default_rng([seed, 1, number])
        count, coco = int(listed.captions.sum()), dataset == "coco"
        style = made_captions.COCO if coco else made_captions.FLICKR30K
        captions = made_captions.draw_captions(rng, count, style, words)
        ids = annotation_ids(rng, count) if coco else list(range(count))
        entries = karpathy_entries(listed, captions, ids, coco)
        _add(folder / SPLITS, f"dataset_{dataset}.json", {"images": entries, "dataset": dataset})
        for part in _PARTS["coco"] if coco else ():
            document = annotations(rng, part, listed, captions, ids)
            _add(folder / ANNOTATIONS, f"annotations/captions_{part}.json", document)


def _add(archive: Path, member: str, document: Mapping[str, object]) -> None:
    # Deflated fast: the level changes no content.
    with zipfile.ZipFile(archive, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as opened:
        opened.writestr(member, json.dumps(document))


def _write_photographs(
    path: Path, folder: str, listed: Listing, images: int | None, jpegs: Sequence[bytes]
) -> None:
    """Write an archive of photographs, stored and not deflated, sorted by name."""
    shown = set(listed.first_of_each_split(images))
    rows = [row for row in range(len(listed)) if listed.folders[row] == folder]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(f"{folder}/", b"")
        for row in sorted(rows, key=lambda row: listed.names[row]):
            data = jpegs[listed.photographs[row]] if row in shown else b""
            archive.writestr(f"{folder}/{listed.names[row]}", data)


def corpus_spec(dataset: str, folder: Path, scale: Sizes = FULL) -> CorpusSpec:
    """What the step that reads `coco` or `flickr30k` from `folder` is handed, with the sizes of all splits."""
    coco = dataset == "coco"
    files = {"images": "flickr30k-images.zip"}
    if coco:
        files = {"train_images": "train2014.zip", "val_images": "val2014.zip"}
        files |= dict.fromkeys(("train_captions", "val_captions"), ANNOTATIONS)
    files["splits"] = SPLITS
    return CorpusSpec(
        name="coco2014" if coco else dataset,
        reader=Component("coco" if coco else "karpathy"),
        files={role: str(folder / name) for role, name in files.items()},
        captions_per_image=5,
        surplus_captions="drop" if coco else "error",
        expected_images=dict(getattr(scale, dataset)),
    )
