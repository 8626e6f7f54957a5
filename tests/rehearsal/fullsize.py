"""Made-up raw files of the size, layout and statistics of the real sources, equal for equal seeds.

    write_raw(folder)                                   # everything, full size: 3.6 GB
    write_raw(folder, images=200, empty_rest=True)      # full metadata, photographs of a slice
    write_raw(folder, Sizes(coco={"train": 80, ...}))   # a small corpus

Files: `annotations_trainval2014.zip` (captions only), `caption_datasets.zip`, `train2014.zip`, `val2014.zip`,
`flickr30k-images.zip`. What the captions are like says `made_captions`, the photographs `made_photographs`.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import made_captions
import numpy as np
from made_listings import (
    Listing,
    annotation_ids,
    coco_listing,
    flickr_listing,
    members,
    write_annotations,
    write_karpathy,
    write_photographs,
)
from made_photographs import draw_all

from vsepp.spec import Component, CorpusSpec

ANNOTATIONS = "annotations_trainval2014.zip"
SPLITS = "caption_datasets.zip"
_FLICKR_FOLDERS = {"flickr30k": "flickr30k-images", "flickr8k": "Flicker8k_Dataset"}
_STYLES = {
    "coco": made_captions.COCO,
    "flickr30k": made_captions.FLICKR30K,
    "flickr8k": made_captions.FLICKR8K,
}


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
    flickr30k_unlisted: int = 769
    """Photographs of the archive that are in no split."""
    flickr8k: Mapping[str, int] = field(default_factory=lambda: {"train": 6_000, "val": 1_000, "test": 1_000})
    photographs: int = 2_000
    """Different photographs, which the images share."""
    jpeg_bytes: int = 24_000
    """Mean size of a photograph; 160,000 is COCO's, 6,000 to 170,000 can be had."""


FULL = Sizes()


def write_raw(
    folder: Path,
    scale: Sizes = FULL,
    seed: int = 0,
    images: int | None = None,
    empty_rest: bool = False,
) -> dict[str, Path]:
    """Write all files into a folder.

    Parameters
    ----------
    folder
        Made where it is missing.
    scale
        How much of everything.
    seed
        Equal seeds and scales give equal bytes.
    images
        Photographs of the first so many images of every split only, in the order of the Karpathy files; the
        metadata stays whole. `None` writes all.
    empty_rest
        With `images`: the other images are empty members and not missing ones. A corpus that keeps the first
        images of every split still wants every image of every split in the archives.

    Returns
    -------
    dict
        Name of each file → its path.
    """
    jpegs = draw_all(seed, scale.photographs, scale.jpeg_bytes)
    metadata = write_metadata(folder, scale, seed)
    return metadata | write_archives(folder, scale, seed, images, jpegs, empty_rest)


def write_metadata(folder: Path, scale: Sizes = FULL, seed: int = 0) -> dict[str, Path]:
    """Write the two archives of splits and captions; see `write_raw`."""
    folder.mkdir(parents=True, exist_ok=True)
    words = made_captions.lexicon(np.random.default_rng([seed, 0]))
    files = {name: folder / name for name in (ANNOTATIONS, SPLITS)}
    # Deflated fast: the level changes no content.
    with (
        zipfile.ZipFile(files[ANNOTATIONS], "w", zipfile.ZIP_DEFLATED, compresslevel=1) as annotations,
        zipfile.ZipFile(files[SPLITS], "w", zipfile.ZIP_DEFLATED, compresslevel=1) as splits,
    ):
        for number, (dataset, style) in enumerate(_STYLES.items()):
            rng = np.random.default_rng([seed, 1, number])
            images = listing(dataset, scale, seed)
            count = int(images.captions.sum())
            captions = made_captions.draw_captions(rng, count, style, words)
            coco = dataset == "coco"
            ids = annotation_ids(rng, images) if coco else np.arange(count)
            write_karpathy(splits, dataset, images, captions, ids)
            if coco:
                for part in ("train2014", "val2014"):
                    write_annotations(annotations, part, images, captions, ids, rng)
    return files


def write_archives(
    folder: Path,
    scale: Sizes,
    seed: int,
    images: int | None,
    jpegs: Sequence[bytes],
    empty_rest: bool = False,
) -> dict[str, Path]:
    """Write the three archives of photographs, image by image from `jpegs`; see `write_raw`."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for dataset, parts in (("coco", ("train2014", "val2014")), ("flickr30k", ("flickr30k-images",))):
        listed = listing(dataset, scale, seed)
        numbers: dict[int, int | None] = dict.fromkeys(range(len(listed))) if empty_rest else {}
        numbers |= {row: int(listed.photographs[row]) for row in listed.first_of_each_split(images)}
        unlisted = scale.flickr30k_unlisted if dataset == "flickr30k" and images is None else 0
        for part in parts:
            path = files[f"{part}.zip"] = folder / f"{part}.zip"
            write_photographs(path, part, members(listed, part, numbers, unlisted), jpegs)
    return files


def listing(dataset: str, scale: Sizes, seed: int) -> Listing:
    """Images of `coco`, `flickr30k` or `flickr8k`."""
    rng = np.random.default_rng([seed, 2, list(_STYLES).index(dataset)])
    if dataset == "coco":
        return coco_listing(rng, scale.coco, scale.coco_surplus, scale.photographs)
    return flickr_listing(rng, _FLICKR_FOLDERS[dataset], getattr(scale, dataset), scale.photographs)


def corpus_spec(dataset: str, folder: Path, scale: Sizes = FULL) -> CorpusSpec:
    """What the step that reads `coco` or `flickr30k` from `folder` is handed, with the sizes of all splits."""
    if dataset == "coco":
        files = {
            "train_images": "train2014.zip",
            "val_images": "val2014.zip",
            "train_captions": ANNOTATIONS,
            "val_captions": ANNOTATIONS,
            "splits": SPLITS,
        }
    else:
        files = {"images": f"{_FLICKR_FOLDERS[dataset]}.zip", "splits": SPLITS}
    return CorpusSpec(
        name="coco2014" if dataset == "coco" else dataset,
        reader=Component("coco" if dataset == "coco" else "karpathy"),
        files={role: str(folder / name) for role, name in files.items()},
        captions_per_image=5,
        surplus_captions="drop" if dataset == "coco" else "error",
        expected_images=dict(getattr(scale, dataset)),
    )
