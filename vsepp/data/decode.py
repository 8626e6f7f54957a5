"""Photographs → the image store, in several processes; a killed build goes on.

Apart from `store`: whoever reads a store computes with no line of this module.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vsepp.base.errors import VseppError, refuse
from vsepp.base.files import check_space, whole_file, write_text
from vsepp.base.manifest import read_manifest
from vsepp.base.progress import in_processes, track
from vsepp.base.publish import publish
from vsepp.base.spec import CorpusSpec, StoreSpec, from_dict
from vsepp.data.arrays import open_rows
from vsepp.data.container import Container
from vsepp.data.pictures import picture_size, read_picture, resized, stored_size
from vsepp.data.store import FILE, SIZES, offsets_of
from vsepp.data.tables import ParquetTable, read_tables

log = logging.getLogger("vsepp")

DONE = "done.jsonl"
PROBLEMS = "problems.txt"
CHUNK_IMAGES = 512

Photographs = Sequence[tuple[str, str]]
"""Container's path and member of each photograph."""


def make_store(
    store: StoreSpec, corpus: Path, files: Mapping[str, Path], out: Path, state: Path, workers: int
) -> dict[str, Any]:
    """Write the image store of a corpus, whose folder has the images table; as `build_store`."""
    images, _ = read_tables(corpus)
    spec = from_dict(CorpusSpec, read_manifest(corpus)["spec"])
    return build_store(images, spec, files, store, out, state, workers)


def build_store(
    images: ParquetTable,
    spec: CorpusSpec,
    files: Mapping[str, Path],
    store: StoreSpec,
    out: Path,
    state: Path,
    workers: int,
    *,
    chunk_images: int = CHUNK_IMAGES,
) -> dict[str, Any]:
    """Decode all images of a corpus into `out/images.npy`, RGB, with their sizes in `out/sizes.npy`,
    int32 `(n_images, 2)`.

    Squashed images are uint8 `(n_images, side, side, 3)`; images that keep their aspect ratio lie one after
    the other in uint8 `(bytes,)`. Works in `state`. If it fails or is killed, finished chunks stay there and
    the same call continues with the missing ones. The result is moved to `out` only when complete.

    Parameters
    ----------
    images
        Images table; image i of the store is row i of the table.
    spec
        The corpus.
    files
        The reader's name of a file → its path, the containers among them.
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
        `images`, `upscaled` (images with a side shorter than the store's, which were enlarged), `converted`
        (greyscale, CMYK or palette images turned into RGB), `exif_turned` (images that EXIF data ask to turn,
        which was done or ignored as `store.orientation` says), `photographs_sha256`, the digest of the
        SHA-256 of all files in the order of the table, and `equal_files`, where there are some: images whose
        file has the same bytes as another's. They stay in the splits that their corpus gives; the log says
        how many of them lie in several splits.

    Raises
    ------
    VseppError
        On photographs that are missing or cannot be decoded, all of them at once (where the aspect ratio is
        kept, all without a header first), and if the disk has too little space.
    OSError
        If the disk fills up meanwhile.
    """
    photographs = _photographs(images, spec, files)
    parts = [photographs[first : first + chunk_images] for first in range(0, len(photographs), chunk_images)]
    state.mkdir(parents=True, exist_ok=True)
    sizes = _sizes(parts, store, state, workers)
    offsets = offsets_of(sizes)
    shape = (len(sizes), store.side, store.side, 3) if store.resize == "squash" else (int(offsets[-1]),)
    offsets += _prepare(state, shape)
    chunks = []
    for number, part in enumerate(parts):
        first = number * chunk_images
        bounds = offsets[first : first + len(part) + 1].tolist()
        chunks.append(Chunk(number, part, state / FILE, bounds, store))
    results = _decode_missing(chunks, state, workers)
    publish({state / SIZES: out / SIZES, state / FILE: out / FILE})
    sums = [sha256 for result in results for sha256 in result.sha256]
    facts = {
        "images": len(images),
        "upscaled": sum(result.upscaled for result in results),
        "converted": sum(result.converted for result in results),
        "exif_turned": sum(result.turned for result in results),
        "photographs_sha256": hashlib.sha256("".join(sums).encode()).hexdigest(),
    }
    _warn(facts, store)
    if equal := _equal_files(images, sums):
        facts["equal_files"] = equal
    return facts


def _warn(facts: Mapping[str, Any], store: StoreSpec) -> None:
    count = facts["images"]
    if facts["upscaled"]:
        log.warning("%d of %d images are upscaled to %d pixels", facts["upscaled"], count, store.side)
    if facts["exif_turned"]:
        log.warning(
            "%d of %d images are to be turned by their EXIF data, which is %s",
            facts["exif_turned"],
            count,
            store.orientation,
        )


def _equal_files(images: ParquetTable, sums: Sequence[str]) -> int:
    """Number of images whose file equals another image's; the log says it."""
    copies = [count for count in Counter(sums).values() if count > 1]
    splits = Counter(sha256 for sha256, _ in set(zip(sums, images["split"], strict=True)))
    if copies:
        log.warning(
            "%d of %d images have files that equal another image's; files in several splits: %d",
            sum(copies),
            len(images),
            sum(count > 1 for count in splits.values()),
        )
    return sum(copies)


def _photographs(images: ParquetTable, spec: CorpusSpec, files: Mapping[str, Path]) -> Photographs:
    if not len(images):
        raise VseppError(f"corpus {spec.name}: no images to store; check its splits")
    if (np.asarray(images["container"]) == "").any():
        raise VseppError(
            f"corpus {spec.name}: has features but no photographs (reader {spec.reader.name}), so there is "
            "nothing to decode; give its runs image_features: precomputed"
        )
    roles, members = images["container"], images["member"]
    return [(str(files[role]), member) for role, member in zip(roles, members, strict=True)]


def _sizes(parts: Sequence[Photographs], store: StoreSpec, state: Path, workers: int) -> np.ndarray:
    """Height and width of every image in the store, int32 `(n_images, 2)`; kept in `state`."""
    file = state / SIZES
    if file.is_file():
        return open_rows(file, np.int32, (2,))
    count = sum(map(len, parts))
    if store.resize == "squash":
        sizes = np.full((count, 2), store.side, np.int32)
    else:
        results = in_processes(measure, [(part, store) for part in parts], min(workers, len(parts)))
        by_part = dict(track(results, count, "reading sizes", "image", per_item=len(parts[0])))
        measured = [by_part[number] for number in range(len(parts))]
        _refuse([problem for _, problems in measured for problem in problems], state, kept=False)
        sizes = np.array([size for sizes, _ in measured for size in sizes], np.int32)
    with whole_file(file) as partial, partial.open("wb") as stream:
        np.save(stream, sizes)
    return sizes


def measure(photographs: Photographs, store: StoreSpec) -> tuple[list[tuple[int, int]], list[str]]:
    """Height and width of each photograph in the store, by its header; and why some have none.

    Raises
    ------
    VseppError
        If a container cannot be opened.
    """
    sizes, problems = [], []
    for path, member in photographs:
        container = _container(path)
        name = container.where(member)
        try:
            with container.open(member) as (stream, _):
                size = picture_size(stream, name, upright=store.orientation == "applied")
            width, height = stored_size(size, store, name)
        except VseppError as error:
            problems.append(str(error))
        else:
            sizes.append((height, width))
    return sizes, problems


def _prepare(state: Path, shape: tuple[int, ...]) -> int:
    """Make the file that chunks are written into, or continue with an existing one; return the
    offset of its data."""
    file = state / FILE
    if not file.is_file():
        (state / DONE).unlink(missing_ok=True)
        check_space(state, math.prod(shape), "the image store")
        with whole_file(file) as partial:
            offset = np.lib.format.open_memmap(partial, mode="w+", dtype=np.uint8, shape=shape).offset
            # Its space is reserved, so that the disk does not fill up hours later.
            if hasattr(os, "posix_fallocate"):
                with partial.open("r+b") as stream:
                    os.posix_fallocate(stream.fileno(), 0, offset + math.prod(shape))
    return np.load(file, mmap_mode="r").offset


class Chunk(NamedTuple):
    """Consecutive photographs, which are decoded by one process."""

    number: int
    photographs: Photographs
    file: Path
    """The `.npy` file that the pixels are written into."""
    offsets: Sequence[int]
    """Byte of the file at which each photograph begins, and at which the last one ends."""
    store: StoreSpec


class ChunkResult(NamedTuple):
    """The outcome of a chunk; a chunk with problems is not finished."""

    number: int
    upscaled: int
    """Photographs with a side shorter than the store's."""
    converted: int
    """Photographs that were not RGB."""
    turned: int
    """Photographs with EXIF data that ask to turn or mirror them."""
    sha256: Sequence[str]
    """Digest of each photograph's file."""
    problems: Sequence[str]


def decode_chunk(chunk: Chunk) -> ChunkResult:
    """Decode a chunk's photographs and write them into the store's file.

    Raises
    ------
    VseppError
        If a container cannot be opened. Photographs that cannot be read or decoded are returned as problems.
    OSError
        If the pixels cannot be written.
    """
    upscaled = converted = turned = 0
    problems, sums = [], []
    upright = chunk.store.orientation == "applied"
    # Written, not mapped: on a full disk a mapped page ends the process with a bus error.
    with chunk.file.open("r+b") as stream:
        stream.seek(chunk.offsets[0])
        for row, (path, member) in enumerate(chunk.photographs):
            container = _container(path)
            name = container.where(member)
            try:
                data = container.read(member)
                picture = read_picture(data, name, upright=upright)
                pixels = resized(picture.rgb, chunk.store, name)
                if pixels.nbytes != chunk.offsets[row + 1] - chunk.offsets[row]:
                    raise VseppError(f"{name}: its size changed while the store was made")
            except VseppError as error:
                problems.append(str(error))
                continue
            upscaled += min(picture.rgb.size) < chunk.store.side
            converted += picture.mode != "RGB"
            turned += picture.orientation != 1
            sums.append(hashlib.sha256(data).hexdigest())
            if not problems:
                stream.write(pixels.data)
        stream.flush()
        os.fsync(stream.fileno())
    return ChunkResult(chunk.number, upscaled, converted, turned, sums, problems)


def _container(path: str) -> Container:
    return _opened(path, Path(path).stat().st_mtime_ns)


@cache
def _opened(path: str, modified: int) -> Container:
    # Kept open between chunks, since reading the member list of a large archive takes a while; reopened
    # if the file changed.
    return Container(path)


def _decode_missing(chunks: Sequence[Chunk], state: Path, workers: int) -> list[ChunkResult]:
    """Decode the chunks that are not yet recorded in `state`, record each, and return all results."""
    path = state / DONE
    done = _read_done(path)
    missing = [chunk for chunk in chunks if chunk.number not in done]
    if done:
        log.info("%s: continuing after %d finished chunks, %d to do", state, len(done), len(missing))
    problems: list[str] = []
    count, per_chunk = sum(len(chunk.photographs) for chunk in missing), len(chunks[0].photographs)
    with path.open("a", encoding="utf-8") as record:
        results = in_processes(decode_chunk, [(chunk,) for chunk in missing], min(workers, len(missing)))
        for _, result in track(results, count, "decoding", "image", per_item=per_chunk):
            problems += result.problems
            if not result.problems:
                done[result.number] = result
                record.write(_line(result))
                record.flush()
    _refuse(problems, state, kept=bool(done))
    return [done[number] for number in sorted(done)]  # chunks end in any order


def _refuse(problems: Sequence[str], state: Path, *, kept: bool) -> None:
    """Refuse photographs, if there are problems; all of them stand in a file in `state`."""
    file = state / PROBLEMS
    file.unlink(missing_ok=True)
    if problems:
        write_text(file, "\n".join(problems) + "\n")
    refuse(
        problems,
        "Photographs that cannot be decoded",
        f"All of them are in {file}. Fetch them again ({'the others are kept, ' if kept else ''}and the next run "
        "goes on), or leave them out: --config label=<name> corpora='{<role>: {leave_out: [<file names without suffix>]}}'.",
    )


def _read_done(path: Path) -> dict[int, ChunkResult]:
    """Results of the finished chunks; an incomplete last line is dropped from the file."""
    done: dict[int, ChunkResult] = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else ():
        with suppress(ValueError, TypeError):
            result = ChunkResult(**json.loads(line))
            done[result.number] = result
    write_text(path, "".join(map(_line, done.values())))
    return done


def _line(result: ChunkResult) -> str:
    return json.dumps(result._asdict()) + "\n"
