"""The image store: all photographs of a corpus, decoded and resized once, then memory-mapped."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vsepp.base.errors import VseppError, refuse
from vsepp.base.files import check_space, whole_file, write_text
from vsepp.base.manifest import read_manifest
from vsepp.base.progress import in_processes, track
from vsepp.base.publish import publish
from vsepp.base.spec import CorpusSpec, StoreSpec, from_dict, with_files
from vsepp.data.arrays import open_rows
from vsepp.data.containers import role_path
from vsepp.data.decode import Chunk, ChunkResult, Photographs, decode_chunk, measure

if TYPE_CHECKING:
    from vsepp.base.placement import Placed
    from vsepp.data.tables import Table

log = logging.getLogger("vsepp")

FILE = "images.npy"
SIZES = "sizes.npy"
DONE = "done.jsonl"
PROBLEMS = "problems.txt"
CHUNK_IMAGES = 512


@dataclass(frozen=True, eq=False)
class WholeImages:
    """Images that kept their aspect ratio, one after the other."""

    pixels: Placed
    """uint8 `(bytes,)`, in its file or on a device."""
    sizes: np.ndarray
    """int64 `(n_images, 2)`, height and width of each image."""
    offsets: np.ndarray
    """int64 `(n_images + 1,)`, byte at which each image begins, and at which the last image ends."""

    @classmethod
    def of(cls, pixels: Placed, sizes: np.ndarray) -> WholeImages:
        """Images from their pixels, one image after the other, and their sizes."""
        return cls(pixels, np.asarray(sizes, np.int64), _offsets(sizes))

    @classmethod
    def in_memory(cls, images: Sequence[np.ndarray]) -> WholeImages:
        """Images in arrays uint8 `(height, width, 3)`."""
        pixels = np.concatenate([image.ravel() for image in images])
        return cls.of(pixels, np.array([image.shape[:2] for image in images]))

    def __len__(self) -> int:
        """Number of images."""
        return len(self.sizes)

    def __getitem__(self, row: int) -> Any:
        """An image, uint8 `(height, width, 3)`, where the pixels are."""
        height, width = self.sizes[row].tolist()
        return self.pixels[self.offsets[row] : self.offsets[row + 1]].reshape(height, width, 3)


def make_store(
    store: StoreSpec, corpus: Path, files: Mapping[str, Path], out: Path, state: Path, workers: int
) -> dict[str, Any]:
    """Write the image store of a corpus, whose folder has the images table; `files` are its raw files. Facts and errors as of `build_store`."""
    from vsepp.data.tables import read_tables  # a model that is used reads no tables

    images, _ = read_tables(corpus)
    spec = from_dict(CorpusSpec, read_manifest(corpus)["spec"])
    return build_store(images, with_files(spec, files), store, out, state, workers)


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
    """Decode all images of a corpus into `out/images.npy`, RGB, with their sizes in `out/sizes.npy`, int32 `(n_images, 2)`.

    Squashed images are uint8 `(n_images, side, side, 3)`; images that keep their aspect ratio lie one after the other in uint8
    `(bytes,)`. Works in `state`. If it fails or is killed, finished chunks stay there and the same call continues with the
    missing ones. The result is moved to `out` only when complete.

    Parameters
    ----------
    images
        Images table; image i of the store is row i of the table.
    spec
        The corpus; its `files` say where the containers are.
    store
        Resizing and side in pixels.
    out
        Folder of the store.
    state
        Working folder on the file system of `out`, used for these photographs and this store only.
    workers
        Number of processes that decode; 1: this process.
    chunk_images
        Images per chunk; a chunk is done as a whole or not at all.

    Returns
    -------
    dict
        `images`, `upscaled` (images with a side shorter than the store's, which were enlarged), `converted` (greyscale, CMYK
        or palette images turned into RGB), `exif_turned` (images that EXIF data ask to turn, which was done or ignored as
        `store.orientation` says) and `photographs_sha256`, the digest of the SHA-256 of all files in the order of the table.

    Raises
    ------
    VseppError
        On photographs that are missing or cannot be decoded, all of them at once, and if the disk has too little space.
    OSError
        If the disk fills up meanwhile.
    """
    if not len(images):
        raise VseppError(f"corpus {spec.name}: no images to store; check its splits")
    photographs = _photographs(images, spec)
    starts = range(0, len(photographs), chunk_images)
    parts = [tuple(photographs[first : first + chunk_images]) for first in starts]
    sizes = _sizes(parts, store, state, workers)
    places = _offsets(sizes)
    shape = (len(sizes), store.side, store.side, 3) if store.resize == "squash" else (int(places[-1]),)
    file = state / FILE if sizes.all() else None
    first = _prepare(state, shape) if file else 0
    chunks = []
    for number, (start, part) in enumerate(zip(starts, parts, strict=True)):
        offsets = (first + places[start : start + len(part) + 1]).tolist()
        chunks.append(Chunk(number, part, file, tuple(offsets), store))
    done = _decode_missing(chunks, state, workers)
    publish({state / SIZES: out / SIZES, state / FILE: out / FILE})
    every = "".join(chain.from_iterable(result.sha256 for result in done))
    facts = {
        "images": len(images),
        "upscaled": sum(result.upscaled for result in done),
        "converted": sum(result.converted for result in done),
        "exif_turned": sum(result.turned for result in done),
        "photographs_sha256": hashlib.sha256(every.encode()).hexdigest(),
    }
    if facts["upscaled"]:
        log.warning("%d of %d images are upscaled to %d pixels", facts["upscaled"], len(images), store.side)
    if facts["exif_turned"]:
        said = "%d of %d images are to be turned by their EXIF data, which is %s"
        log.warning(said, facts["exif_turned"], len(images), store.orientation)
    known_digests = spec.photographs_sha256
    every_image = not spec.first_images and not spec.leave_out
    if known_digests and every_image and facts["photographs_sha256"] not in known_digests:
        said = "corpus %s: the photographs have the digest %s, but %s is known of this data set: some of their files differ"
        log.warning(said, spec.name, facts["photographs_sha256"], " or ".join(known_digests))
    return facts


def open_store(folder: Path) -> np.ndarray | WholeImages:
    """Map the images of a store, read-only: uint8 `(n_images, side, side, 3)`, or images that kept their aspect ratio.

    Raises
    ------
    VseppError
        If there is no store, or the files are not a store.
    """
    images, sizes = open_rows(folder / FILE, np.uint8), open_rows(folder / SIZES, np.int32, (2,))
    return images if images.ndim == 4 else WholeImages.of(images, np.asarray(sizes))


def _sizes(parts: Sequence[Photographs], store: StoreSpec, state: Path, workers: int) -> np.ndarray:
    """Height and width of every image in the store, int32 `(n_images, 2)`, 0 where a photograph cannot be read.

    Kept in `state`, if they are complete.
    """
    file = state / SIZES
    if file.is_file():
        return np.load(file)
    if store.resize == "squash":
        sizes = np.full((sum(map(len, parts)), 2), store.side, np.int32)
    else:
        found: dict[int, list[tuple[int, int]]] = {}
        results = in_processes(measure, [(part, store) for part in parts], min(workers, len(parts)))
        count = sum(map(len, parts))
        for number, some in track(results, count, "reading sizes", "image", each=len(parts[0])):
            found[number] = some
        sizes = np.array([size for number in sorted(found) for size in found[number]], np.int32)
    state.mkdir(parents=True, exist_ok=True)
    if sizes.all():
        with whole_file(file) as partial, partial.open("wb") as stream:
            np.save(stream, sizes)
    return sizes


def _offsets(sizes: np.ndarray) -> np.ndarray:
    """Byte at which each image begins, from all heights and widths, and at which the last image ends."""
    return np.concatenate([[0], (3 * np.asarray(sizes, np.int64).prod(axis=1)).cumsum()])


def _photographs(images: Table, spec: CorpusSpec) -> list[tuple[str, str]]:
    if (np.asarray(images["container"]) == "").any():
        raise VseppError(
            f"corpus {spec.name}: has features but no photographs (reader {spec.reader.name}), so there is nothing to "
            "decode; give its runs image_features: precomputed"
        )
    paths = {role: str(role_path(spec, role)) for role in dict.fromkeys(images["container"])}
    return [(paths[role], member) for role, member in zip(images["container"], images["member"], strict=True)]


def _decode_missing(chunks: Sequence[Chunk], state: Path, workers: int) -> list[ChunkResult]:
    """Decode the chunks that are not yet recorded in `state`, record each, and return all results.

    Where a photograph's size is not known, there is no file to write to: then all problems are found and nothing is kept.
    """
    path = state / DONE
    done = _read_done(path)
    missing = [chunk for chunk in chunks if chunk.number not in done]
    if done:
        log.info("%s: continuing after %d finished chunks, %d to do", state, len(done), len(missing))
    problems: list[str] = []
    with path.open("a", encoding="utf-8") as record:
        results = in_processes(decode_chunk, [(chunk,) for chunk in missing], min(workers, len(missing)))
        count, each = sum(len(chunk.photographs) for chunk in missing), len(chunks[0].photographs)
        for _, result in track(results, count, "decoding", "image", each=each):
            problems += result.problems
            if not result.problems and chunks[0].file:
                done[result.number] = result
                record.write(_line(result))
                record.flush()
    if problems:
        write_text(state / PROBLEMS, "\n".join(problems) + "\n")
    refuse(
        problems,
        "Photographs that cannot be decoded",
        f"All of them are in {state / PROBLEMS}. Fetch them again ({'the others are kept, ' if done else ''}and the next run "
        "goes on), or leave them out: --config label=<name> corpora='{<role>: {leave_out: [<file names without suffix>]}}'.",
    )
    (state / PROBLEMS).unlink(missing_ok=True)
    return [done[number] for number in sorted(done)]  # chunks end in any order


def _prepare(state: Path, shape: tuple[int, ...]) -> int:
    """Make the file that chunks are written into, or continue with an existing one; return the offset of its data."""
    file = state / FILE
    if not file.is_file():
        state.mkdir(parents=True, exist_ok=True)
        (state / DONE).unlink(missing_ok=True)
        check_space(state, math.prod(shape), "the image store")
        with whole_file(file) as partial:
            offset = np.lib.format.open_memmap(partial, mode="w+", dtype=np.uint8, shape=shape).offset
            # Its space is reserved, so that the disk does not fill up hours later.
            if hasattr(os, "posix_fallocate"):
                with partial.open("r+b") as stream:
                    os.posix_fallocate(stream.fileno(), 0, offset + math.prod(shape))
    return np.load(file, mmap_mode="r").offset


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
