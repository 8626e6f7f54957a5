"""Made-up raw files of the layout of the real sources and of as many images and captions, equal for equal seeds.

    write_raw(folder, images=200)                       # full metadata, photographs of a slice
    write_raw(folder, Sizes(coco={"train": 80, ...}))   # a small corpus

Files: `annotations_trainval2014.zip` (captions only), `caption_datasets.zip`, `train2014.zip`, `val2014.zip`,
`flickr30k-images.zip`. Captions mean nothing; their words are as many and as unequally frequent as in English.
"""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from raw_layouts import jpeg

from vsepp.spec import Component, CorpusSpec

ANNOTATIONS = "annotations_trainval2014.zip"
SPLITS = "caption_datasets.zip"
WORDS = 30_000
LARGEST_COCO_ID = 581_929


@dataclass(frozen=True)
class Sizes:
    """How much of everything; as it stands, as much as the real releases have."""

    coco: Mapping[str, int] = field(
        default_factory=lambda: {"train": 82_783, "restval": 30_504, "val": 5_000, "test": 5_000}
    )
    """Split → images; `train` is all of train2014, the others share val2014."""
    coco_surplus: int = 332
    """Captions above five an image, which makes 616,767 annotations."""
    flickr30k: Mapping[str, int] = field(
        default_factory=lambda: {"train": 29_000, "val": 1_014, "test": 1_000}
    )
    photographs: int = 60
    """Different photographs, which the images share."""


@dataclass(frozen=True)
class Photograph:
    """An image of a data set, in the order of its Karpathy file."""

    folder: str
    """Inside the archive: `train2014`, `val2014`, `flickr30k-images`."""
    name: str
    split: str
    number: int
    """COCO's id; elsewhere the row."""
    captions: dict[int, str]


def write_raw(folder: Path, sizes: Sizes | None = None, *, images: int) -> dict[str, Path]:
    """Write all files into a folder; gives the name of each and its path.

    Of the photographs, those of the first `images` of every split are there, in the order of the Karpathy files. The
    others are empty members, and the metadata stays whole.
    """
    sizes = sizes or Sizes()
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    coco, flickr = coco_listing(rng, sizes), flickr_listing(rng, sizes)
    for name, listed in (("coco", coco), ("flickr30k", flickr)):
        entries = [karpathy_entry(row, image, name) for row, image in enumerate(listed)]
        _add(folder / SPLITS, f"dataset_{name}.json", {"images": entries, "dataset": name})
    for part in ("train2014", "val2014"):
        rows = [image for image in coco if image.folder == part]
        _add(folder / ANNOTATIONS, f"annotations/captions_{part}.json", annotations(rows))
    jpegs = [jpeg(number, (640, 480)) for number in range(sizes.photographs)]
    for listed in (coco, flickr):
        _write_photographs(folder, listed, images, jpegs)
    return {path.name: path for path in sorted(folder.iterdir())}


def coco_listing(rng: np.random.Generator, sizes: Sizes) -> list[Photograph]:
    """COCO's images as Karpathy lists them: all of val2014, its three splits mixed, before all of train2014.

    Ids are neither consecutive nor in order; the largest is the real release's, 581,929.
    """
    others = [split for split in sizes.coco if split != "train"]
    splits = rng.permutation(np.repeat(others, [sizes.coco[split] for split in others])).tolist()
    splits += ["train"] * sizes.coco["train"]
    ids = 1 + rng.choice(LARGEST_COCO_ID - 1, len(splits), replace=False)
    ids[0] = LARGEST_COCO_ID
    counts = np.full(len(splits), 5)
    counts[rng.choice(len(splits), sizes.coco_surplus, replace=False)] += 1
    sentences = iter(draw_captions(rng, counts.sum()))
    numbers = iter((1 + rng.permutation(2 * counts.sum())).tolist())
    listed = []
    for split, number, count in zip(splits, ids.tolist(), counts.tolist(), strict=True):
        folder = "train2014" if split == "train" else "val2014"
        captions = {next(numbers): next(sentences) for _ in range(count)}
        listed.append(Photograph(folder, f"COCO_{folder}_{number:012d}.jpg", split, number, captions))
    return listed


def flickr_listing(rng: np.random.Generator, sizes: Sizes) -> list[Photograph]:
    """Images of Flickr30K, sorted by name, their splits mixed."""
    splits = rng.permutation(np.repeat(list(sizes.flickr30k), list(sizes.flickr30k.values()))).tolist()
    sentences = draw_captions(rng, 5 * len(splits))
    listed = []
    for row, split in enumerate(splits):
        captions = {number: sentences[number] for number in range(5 * row, 5 * row + 5)}
        name = f"{1_000_092_795 + 1000 * row}.jpg"
        listed.append(Photograph("flickr30k-images", name, split, row, captions))
    return listed


def draw_captions(rng: np.random.Generator, count: int) -> list[str]:
    """Sentences of about ten words, of which few are frequent and many are rare."""
    lengths = np.clip(np.rint(rng.normal(10.5, 2.4, count)), 6, 50).astype(int)
    words = np.minimum(rng.zipf(1.3, lengths.sum()), WORDS).tolist()
    ends = np.cumsum(lengths).tolist()
    starts = [0, *ends[:-1]]
    return [
        "A " + " ".join(f"w{word}" for word in words[start:end]) + "."
        for start, end in zip(starts, ends, strict=True)
    ]


def karpathy_entry(row: int, image: Photograph, dataset: str) -> dict[str, object]:
    """An entry of `dataset_<name>.json`; only COCO's have `filepath` and `cocoid`."""
    sentences = [
        {"tokens": text.strip(".").lower().split(), "raw": text, "imgid": row, "sentid": number}
        for number, text in image.captions.items()
    ]
    entry = {"filename": image.name, "imgid": row, "split": image.split, "sentences": sentences}
    if dataset == "coco":
        entry |= {"filepath": image.folder, "cocoid": image.number}
    return {**entry, "sentids": list(image.captions)}


def annotations(images: Sequence[Photograph]) -> dict[str, object]:
    """Content of `captions_<folder>.json`."""
    return {
        "images": [{"id": image.number, "file_name": image.name} for image in images],
        "annotations": [
            {"image_id": image.number, "id": number, "caption": text}
            for image in images
            for number, text in image.captions.items()
        ],
    }


def _add(archive: Path, member: str, document: Mapping[str, object]) -> None:
    # Deflated fast: the level changes no content.
    with zipfile.ZipFile(archive, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as opened:
        opened.writestr(member, json.dumps(document))


def _write_photographs(folder: Path, listed: Sequence[Photograph], images: int, jpegs: list[bytes]) -> None:
    """Write the archives of photographs, stored and not deflated."""
    seen: Counter[str] = Counter()
    for part in sorted({image.folder for image in listed}):
        with zipfile.ZipFile(folder / f"{part}.zip", "w", zipfile.ZIP_STORED) as archive:
            archive.writestr(f"{part}/", b"")
            for row, image in enumerate(listed):
                if image.folder == part:
                    seen[image.split] += 1
                    shown = seen[image.split] <= images
                    archive.writestr(f"{part}/{image.name}", jpegs[row % len(jpegs)] if shown else b"")


def corpus_spec(dataset: str, folder: Path, sizes: Sizes) -> CorpusSpec:
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
        expected_images=dict(getattr(sizes, dataset)),
    )
