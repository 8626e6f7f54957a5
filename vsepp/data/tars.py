"""A corpus as tar archives for other programs, the counterpart of `vsepp.data.readers.webdataset`."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from vsepp.data.containers import Container
from vsepp.data.tables import read_tables
from vsepp.errors import VseppError
from vsepp.provenance.manifest import artefact_digest
from vsepp.provenance.publish import state_folder
from vsepp.runtime.files import whole_file
from vsepp.runtime.progress import track
from vsepp.user_files import PHOTOGRAPHS, is_there


def write_tars(corpus: Path, raw: Mapping[str, Path], output: Path, per_shard: int) -> None:
    """Write the photographs of a corpus as they are, with their captions, in the order of its tables: `00000.tar`, `00001.tar`, ...

    Archives of one corpus always have the same bytes. `output` is a new folder, which appears when all archives are complete; a stopped
    export goes on with the missing archives. `raw` says for each role where its photographs are; a missing photograph is refused.
    """
    if is_there(output):
        raise VseppError(f"{output}: already exists; name a new folder")
    images, captions = read_tables(corpus)
    if "" in images["container"]:
        raise VseppError(f"{corpus}: has images without photographs; expected a corpus of photographs")
    containers = {role: Container(raw[role]) for role in sorted(set(images["container"]))}
    by_image = np.argsort(captions["image_index"], kind="stable")
    bounds = np.searchsorted(captions["image_index"][by_image], np.arange(len(images) + 1))
    starts = range(0, len(images), per_shard)
    with state_folder(output, corpus=artefact_digest(corpus), per_shard=per_shard) as state:
        for start in track(starts, len(images), "writing archives", "photograph", each=per_shard):
            path = state / "shards" / f"{start // per_shard:05d}.tar"
            if path.is_file():
                continue
            with whole_file(path) as partial, tarfile.open(partial, "w", format=tarfile.USTAR_FORMAT) as tar:
                for row in range(start, min(start + per_shard, len(images))):
                    rows = by_image[bounds[row] : bounds[row + 1]]
                    noted = {key: images[key][row] for key in ("split", "image_id")}
                    noted |= {f"{key}s": captions[key][rows].tolist() for key in ("caption_id", "text")}
                    member = images["member"][row]
                    _add(tar, f"{row:09d}", member, containers[images["container"][row]].read(member), noted)
        (state / "shards").rename(output)


def _add(tar: tarfile.TarFile, key: str, member: str, data: bytes, noted: Mapping[str, Any]) -> None:
    """Add a sample: its photograph, its ids and captions as they are, and a caption a line, its own line breaks replaced by spaces."""
    kind = PurePosixPath(member).suffix.lower()
    files = {
        kind if kind in PHOTOGRAPHS else PHOTOGRAPHS[0]: data,
        ".json": json.dumps(noted, ensure_ascii=False).encode(),
        ".txt": "\n".join(" ".join(text.splitlines()) for text in noted["texts"]).encode(),
    }
    for suffix, content in files.items():
        info = tarfile.TarInfo(f"{key}{suffix}")  # its time, owner and rights are constants of tarfile
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
