"""Write generated scenes as the raw files of MS-COCO 2014 and Flickr30K, with the Karpathy splits.

Readers of the real files read these; nothing after this module knows that the data is generated.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from vsepp.base.declared import SPLITS
from vsepp.base.errors import VseppError
from vsepp.base.files import write_text
from vsepp.base.progress import in_processes, track
from vsepp.base.spec import Difficulty, ScenesSpec
from vsepp.scenes.grammar import tokenise, write_captions
from vsepp.scenes.render import render_scene
from vsepp.scenes.world import Scene, sample_split

LAYOUTS = {"coco": SPLITS, "flickr": ("train", "val", "test")}
"""Layout → the splits that its Karpathy file knows."""
_CHUNK = 50


@dataclass(frozen=True)
class Photograph:
    """A scene with its place in a layout, ready to be drawn and described."""

    scene: Scene
    split: str
    folder: str
    file_name: str
    image_id: int
    seeds: tuple[int, ...]


def generate(spec: ScenesSpec, out: Path, workers: int = 1) -> dict[str, Any]:
    """Render scenes with captions in the raw layouts of real data sets.

    Files do not depend on the number of workers; two calls with one spec write the same bytes.

    Parameters
    ----------
    spec
        Sizes, difficulty and seed.
    out
        Where the folders `coco/` (`train2014/`, `val2014/`, `annotations/captions_{train,val}2014.json`,
        `dataset_coco.json`) and `flickr/` (`flickr30k-images/`, `dataset_flickr30k.json`) are made.
    workers
        Processes that draw.

    Returns
    -------
    dict
        Layout → `images` and `captions` written.

    Raises
    ------
    VseppError
        If a layout is to have other splits than its Karpathy file knows.
    """
    for layout, sizes in spec.images.items():
        if set(sizes) != set(LAYOUTS[layout]):
            raise VseppError(f"scenes.images.{layout}: expected splits {LAYOUTS[layout]}, got {tuple(sizes)}")
    facts = {}
    for number, layout in enumerate(LAYOUTS):
        if layout not in spec.images:
            continue
        root = out / layout
        photographs = _photographs(spec, layout, number)
        # Flickr30K has five captions per image.
        settings = spec.settings if layout == "coco" else replace(spec.settings, extra_captions=0.0)
        captions = _drawn(photographs, root, settings, workers)
        if layout == "coco":
            _write_coco(root, photographs, captions, np.random.default_rng([spec.seed, number, 1]))
        else:
            entries = _entries(photographs, captions, itertools.count())
            content = {"images": entries, "dataset": "flickr30k"}
            write_text(root / "dataset_flickr30k.json", json.dumps(content))
        facts[layout] = {"images": len(photographs), "captions": sum(map(len, captions))}
    return facts


def _photographs(spec: ScenesSpec, layout: str, number: int) -> list[Photograph]:
    """All scenes of a layout in the order of its Karpathy file: val2014 first, splits
    mixed within a folder."""
    scenes = []
    for index, split in enumerate(LAYOUTS[layout]):
        rng = np.random.default_rng([spec.seed, number, 0, index])
        drawn = sample_split(rng, spec.images[layout][split], spec.side, spec.settings)
        scenes += [(scene, split, (spec.seed, number, 2, index, row)) for row, scene in enumerate(drawn)]
    rng = np.random.default_rng([spec.seed, number, 0])
    scenes = [scenes[row] for row in rng.permutation(len(scenes))]
    if layout == "coco":
        scenes.sort(key=lambda item: item[1] == "train")
    # Ids are neither consecutive nor in the file's order, so nothing can take a row number for an id.
    ids = rng.choice(np.arange(1, 7 * len(scenes)), size=len(scenes), replace=False).tolist()
    photographs = []
    for (scene, split, seeds), image_id in zip(scenes, ids, strict=True):
        folder, file_name = "flickr30k-images", f"{1_000_000_000 + 1009 * image_id}.jpg"
        if layout == "coco":
            folder = "train2014" if split == "train" else "val2014"
            file_name = f"COCO_{folder}_{image_id:012d}.jpg"
        photographs.append(Photograph(scene, split, folder, file_name, image_id, seeds))
    return photographs


def _drawn(photographs: list[Photograph], root: Path, settings: Difficulty, workers: int) -> list[list[str]]:
    """Write every JPEG and return the captions of each, in order."""
    for folder in {photograph.folder for photograph in photographs}:
        (root / folder).mkdir(parents=True)
    chunks = [photographs[start : start + _CHUNK] for start in range(0, len(photographs), _CHUNK)]
    results = in_processes(_draw_chunk, [(chunk, root, settings) for chunk in chunks], workers)
    drawn = dict(track(results, len(photographs), f"scenes of {root.name}", "image", per_item=_CHUNK))
    return [captions for number in range(len(chunks)) for captions in drawn[number]]


def _draw_chunk(photographs: list[Photograph], root: Path, settings: Difficulty) -> list[list[str]]:
    captions = []
    for photograph in photographs:
        rng = np.random.default_rng(photograph.seeds)
        picture = render_scene(photograph.scene, rng, settings)
        path = root / photograph.folder / photograph.file_name
        picture.save(path, quality=int(settings.jpeg_quality), subsampling=0)
        # As in COCO, a few images have six or seven captions.
        surplus = int(rng.integers(1, 3)) if rng.random() < settings.extra_captions else 0
        captions.append(write_captions(photograph.scene, 5 + surplus, rng, settings))
    return captions


def _write_coco(
    root: Path, photographs: list[Photograph], captions: list[list[str]], rng: np.random.Generator
) -> None:
    """Write `captions_{train,val}2014.json`, with rows in random order, and `dataset_coco.json`."""
    count = sum(map(len, captions))
    ids = rng.choice(np.arange(1, 3 * count), size=count, replace=False).tolist()
    entries = [
        {"filepath": photograph.folder, "cocoid": photograph.image_id, **entry}
        for photograph, entry in zip(photographs, _entries(photographs, captions, ids), strict=True)
    ]
    for folder in ("train2014", "val2014"):
        images = [
            {
                "id": photograph.image_id,
                "file_name": photograph.file_name,
                "width": photograph.scene.width,
                "height": photograph.scene.height,
                "license": 1,
            }
            for photograph in photographs
            if photograph.folder == folder
        ]
        annotations = [
            {"id": sentence["sentid"], "image_id": entry["cocoid"], "caption": sentence["raw"]}
            for entry in entries
            if entry["filepath"] == folder
            for sentence in entry["sentences"]
        ]
        about = {"description": "Generated scenes in the layout of COCO 2014", "version": "1.0", "year": 2014}
        content = {
            "info": about,
            "licenses": [{"id": 1, "name": "Generated", "url": ""}],
            "images": [images[row] for row in rng.permutation(len(images))],
            "annotations": [annotations[row] for row in rng.permutation(len(annotations))],
        }
        write_text(root / "annotations" / f"captions_{folder}.json", json.dumps(content))
    write_text(root / "dataset_coco.json", json.dumps({"images": entries, "dataset": "coco"}))


def _entries(
    photographs: list[Photograph], captions: list[list[str]], ids: Iterable[int]
) -> list[dict[str, Any]]:
    """Karpathy's records of images; their captions take the ids one after another."""
    remaining = iter(ids)
    entries = []
    for row, (photograph, texts) in enumerate(zip(photographs, captions, strict=True)):
        sentences = [
            {"raw": text, "tokens": tokenise(text), "imgid": row, "sentid": next(remaining)} for text in texts
        ]
        entries.append(
            {
                "filename": photograph.file_name,
                "imgid": row,
                "split": photograph.split,
                "sentids": [sentence["sentid"] for sentence in sentences],
                "sentences": sentences,
            }
        )
    return entries
