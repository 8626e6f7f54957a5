"""The image store: all photographs of a corpus, decoded and resized once, then memory-mapped."""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vsepp.data.containers import role_path
from vsepp.data.decode import Chunk, ChunkResult, decode_chunk
from vsepp.errors import VseppError, refuse
from vsepp.provenance.publish import publish
from vsepp.provenance.space import check_space, full_disk_explained
from vsepp.runtime.files import write_text
from vsepp.runtime.progress import track
from vsepp.runtime.workers import in_processes
from vsepp.spec import CorpusSpec, StoreSpec

if TYPE_CHECKING:
    from vsepp.data.tables import Table

log = logging.getLogger("vsepp")

FILE = "images.npy"
DONE = "done.jsonl"
CHUNK_IMAGES = 512


def build_store(
    images: Table,
    spec: CorpusSpec,
    store: StoreSpec,
    out: Path,
    state: Path,
    workers: int,
    *,
    chunk_images: int = CHUNK_IMAGES,
) -> dict[str, Any]:
    """Decode all images of a corpus into `out/images.npy`, `uint8 (n_images, side, side, 3)` RGB.

    Works in `state`. If it fails or is killed, finished chunks stay there and the same call continues with the missing
    ones. The result is moved to `out` only when complete.

    Parameters
    ----------
    images
        Images table; row i of the store is row i of it.
    spec
        The corpus, whose `files` say where the containers are.
    store
        Resizing and side in pixels.
    out
        Folder of the store.
    state
        Working folder on the file system of `out`, used for these photographs and this store only.
    workers
        Processes that decode; 1: this one.
    chunk_images
        Images per chunk; a chunk is done as a whole or not at all.

    Returns
    -------
    dict
        `images`, `upscaled` (those with a side shorter than the store's, which were enlarged) and
        `converted` (greyscale, CMYK or palette images turned into RGB).

    Raises
    ------
    VseppError
        On photographs that are missing or cannot be decoded, and if the disk is full.
    """
    if not len(images):
        raise VseppError(f"corpus {spec.name}: no images to store; check its splits")
    shape = (len(images), store.side, store.side, 3)
    photographs = _photographs(images, spec)
    with full_disk_explained(state, "for the image store", math.prod(shape)):
        offset = _prepare(state, shape)
        chunks: list[Chunk] = []
        for first in range(0, len(images), chunk_images):
            some = tuple(photographs[first : first + chunk_images])
            start = offset + first * math.prod(shape[1:])
            chunks.append(Chunk(len(chunks), some, state / FILE, start, store))
        done = _decode_missing(chunks, state, workers)
    publish({state / FILE: out / FILE})
    facts = {
        "images": len(images),
        "upscaled": sum(result.upscaled for result in done),
        "converted": sum(result.converted for result in done),
    }
    if facts["upscaled"]:
        log.warning("%d of %d images are upscaled to %d pixels", facts["upscaled"], len(images), store.side)
    return facts


def open_store(folder: Path) -> np.memmap:
    """Map the images of a store, `uint8 (n_images, side, side, 3)`, read-only.

    Raises
    ------
    VseppError
        If there is none, or the file is not a store.
    """
    path = folder / FILE
    if not path.is_file():
        raise VseppError(f"{path}: missing; run the step that makes the image store")
    try:
        images = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError) as error:
        raise VseppError(f"{path}: not an image store ({error}); run the step that makes it again") from error
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[2:] != (images.shape[1], 3):
        raise VseppError(
            f"{path}: expected uint8 (n_images, side, side, 3), found {images.dtype} {images.shape}; "
            "run the step that makes it again"
        )
    return images


def _photographs(images: Table, spec: CorpusSpec) -> list[tuple[str, str]]:
    if (np.asarray(images["container"]) == "").any():
        raise VseppError(
            f"corpus {spec.name}: has features but no photographs (reader {spec.reader.name}), so there is nothing to "
            "decode; give its runs image_features: precomputed"
        )
    paths = {role: str(role_path(spec, role)) for role in dict.fromkeys(images["container"])}
    return [(paths[role], member) for role, member in zip(images["container"], images["member"], strict=True)]


def _decode_missing(chunks: Sequence[Chunk], state: Path, workers: int) -> list[ChunkResult]:
    """Decode the chunks that are not yet recorded in `state`, record each, and return all results."""
    path = state / DONE
    done = _read_done(path)
    missing = [chunk for chunk in chunks if chunk.number not in done]
    if done:
        log.info("%s: continuing after %d finished chunks, %d to do", state, len(done), len(missing))
    problems: list[str] = []
    with path.open("a", encoding="utf-8") as record:
        results = in_processes(decode_chunk, [(chunk,) for chunk in missing], min(workers, len(missing)))
        for _, result in track(results, len(missing), "decoding images", "chunk"):
            problems += result.problems
            if not result.problems:
                done[result.number] = result
                record.write(_line(result))
                record.flush()
    refuse(
        problems,
        "Photographs that cannot be decoded",
        f"Fetch them again; the others are kept in {state}, and the next run continues from there.",
    )
    return list(done.values())


def _prepare(state: Path, shape: tuple[int, ...]) -> int:
    """Make the file that chunks are written into, or continue with an existing one; return the offset of its data."""
    file, begun = state / FILE, state / "begun.npy"
    if not file.is_file():
        state.mkdir(parents=True, exist_ok=True)
        (state / DONE).unlink(missing_ok=True)
        check_space(state, math.prod(shape), "the image store")
        try:
            _allocate(begun, shape)
            begun.rename(file)
        finally:
            begun.unlink(missing_ok=True)
    return np.load(file, mmap_mode="r").offset


def _allocate(file: Path, shape: tuple[int, ...]) -> None:
    """Make a `.npy` file of zeros and reserve its space, so that the disk does not fill up hours later."""
    offset = np.lib.format.open_memmap(file, mode="w+", dtype=np.uint8, shape=shape).offset
    if hasattr(os, "posix_fallocate"):
        with file.open("r+b") as stream:
            os.posix_fallocate(stream.fileno(), 0, offset + math.prod(shape))


def _read_done(path: Path) -> dict[int, ChunkResult]:
    """Results of the finished chunks; an incomplete last line is dropped from the file."""
    done: dict[int, ChunkResult] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        with suppress(ValueError, TypeError):
            result = ChunkResult(**json.loads(line))
            done[result.number] = result
    write_text(path, "".join(map(_line, done.values())))
    return done


def _line(result: ChunkResult) -> str:
    return json.dumps(result._asdict()) + "\n"
