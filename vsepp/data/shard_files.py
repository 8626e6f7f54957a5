"""Files of arrays in shards: a fixed number of items in each, and one file, `shards.json`, that lists them with their SHA-256.

The files lie below the folder of their artefact, where jobs wrote them, each job a range of them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from vsepp.errors import VseppError
from vsepp.provenance.artefacts import SHARDS
from vsepp.provenance.manifest import MANIFEST, read_manifest
from vsepp.runtime.files import write_text
from vsepp.runtime.shards import Shards
from vsepp.user_files import json_of, reading, text_of

VERSION = 1


def open_array(folder: Path, file: str) -> np.ndarray | Shards:
    """Map an array of an artefact, read-only, from its file or from its shards.

    Raises
    ------
    VseppError
        If a shard is missing, short, or not the listed shard. For an array in one file, numpy's OSError and ValueError.
    """
    if not (folder / SHARDS).is_file():
        return np.load(folder / file, mmap_mode="r", allow_pickle=False)
    return Shards([open_shard(folder / SHARDS, **shard) for shard in _listed(folder)[file]])


def arrays_in(folder: Path) -> list[str]:
    """File names of the arrays of an artefact, in one file each or in shards."""
    if (folder / SHARDS).is_file():
        return sorted(_listed(folder))
    return sorted(path.name for path in folder.glob("*.npy"))


def list_shards(parts: Sequence[Path], folder: Path, out: Path) -> dict[str, int]:
    """Write `out/shards.json` of the artefact in `folder`, from the manifests of the jobs' folders in their order.

    Returns
    -------
    dict
        `shards` and `items`.

    Raises
    ------
    VseppError
        If the shards of the jobs do not follow each other.
    """
    files: dict[str, list[dict[str, Any]]] = {}
    for part in parts:
        for name, digest in sorted(read_manifest(part)["outputs"].items()):
            number, _, file = name.partition(".")
            shards = files.setdefault(file, [])
            if number != f"{len(shards):05}":
                raise VseppError(
                    f"{part / name}: expected shard {len(shards):05} next; {_again(part)} and the same of the parts beside it"
                )
            rows = len(_mapped(part / name))
            shards.append({"path": os.path.relpath(part / name, folder), "rows": rows, "sha256": digest})
    write_text(out / SHARDS, json.dumps({"version": VERSION, "files": files}, indent=1) + "\n")
    first = next(iter(files.values()))
    return {"shards": len(first), "items": sum(shard["rows"] for shard in first)}


def _listed(folder: Path) -> dict[str, Any]:
    """File → its shards, as `shards.json` lists them."""
    path = folder / SHARDS
    with reading(path, "a list of shards; run the step that makes it again"):
        listed = json_of(text_of(path, "a list of shards"), str(path))
        if listed["version"] != VERSION:
            raise VseppError(
                f"has version {listed['version']}, expected {VERSION}; it is of another version of vsepp"
            )
        return dict(listed["files"])


def _mapped(file: Path) -> np.ndarray:
    return np.load(file, mmap_mode="r", allow_pickle=False)


def open_shard(listed: Path, path: str, rows: int, sha256: str, read: Callable[[Path], Any] = _mapped) -> Any:
    """Open a shard, after a check by its length and its job's manifest that it is the listed shard.

    Parameters
    ----------
    listed
        The file that lists it.
    path
        Path of the shard, relative to the list's folder.
    rows, sha256
        Number of rows and digest, as listed.
    read
        Reads its rows; by default, memory-maps an array.

    Raises
    ------
    VseppError
        If it is missing, short, has another number of rows or is not the listed shard.
    """
    file = listed.parent / path
    if not file.is_file():
        raise VseppError(f"{file}: missing, a shard of {listed}; {_again(file.parent)}")
    written = _outputs(file.parent, (file.parent / MANIFEST).stat().st_mtime_ns).get(file.name)
    if written != sha256:
        raise VseppError(
            f"{file}: has the digest {str(written)[:12]}, {listed} expects {sha256[:12]}; make the list again: delete it and run "
            "the same command"
        )
    try:
        opened = read(file)
    except (OSError, ValueError, EOFError) as error:
        raise VseppError(f"{file}: no whole shard ({error}); {_again(file.parent)}") from error
    if len(opened) != rows:
        raise VseppError(f"{file}: has {len(opened)} rows, {listed} expects {rows}; {_again(file.parent)}")
    return opened


@cache
def _outputs(part: Path, _changed: int) -> dict[str, str]:
    """Digests of the files that a job wrote."""
    return dict(read_manifest(part)["outputs"])


def _again(part: Path) -> str:
    return f"make it again: delete {part} and run the same command"
