"""The tables of images and captions on disk: `images.parquet`, `captions.parquet`.

In shards, both hold only Parquet's metadata of the shards beside them, `00000.images.parquet` and so on, of a fixed number of rows
each, and the SHA-256 of each shard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from vsepp.data.shard_files import open_shard
from vsepp.errors import VseppError, refuse
from vsepp.provenance.digests import path_digest
from vsepp.provenance.manifest import require_as_written
from vsepp.provenance.publish import publish
from vsepp.runtime.files import whole_file
from vsepp.user_files import reading

if TYPE_CHECKING:
    import pandas as pd

IMAGES = pa.schema(
    [(name, pa.string()) for name in ("image_id", "file_name", "container", "member", "split")]
)
CAPTIONS = pa.schema(
    [("caption_id", pa.int64()), ("image_index", pa.int32()), ("text", pa.string()), ("split", pa.string())]
)

# Key of the metadata of a table in shards.
_SHA256 = b"sha256"


class Table:
    """Columns of equal length, as arrays by name. A column is read from its file when it is first asked for.

    Reading a column does not import pandas, which would take a fifth of the time that a training needs to start.

    Parameters
    ----------
    rows
        Number of rows.
    read
        Reads a range of the rows of a column.
    """

    def __init__(self, rows: int, read: Callable[[str, range], np.ndarray]) -> None:
        self._rows = range(rows)
        self._read = read
        self._column = cache(lambda name: read(name, self._rows))

    def __getitem__(self, name: str) -> np.ndarray:
        """A column `(rows,)`; text as Python strings."""
        return self._column(name)

    def __len__(self) -> int:
        """Number of rows."""
        return len(self._rows)

    def part(self, rows: slice) -> Table:
        """A range of consecutive rows; no other rows of a column are kept in memory."""
        some = self._rows[rows]
        return Table(len(some), lambda name, asked: self._read(name, some[asked.start : asked.stop]))


def rows_in(path: Path) -> int:
    """Number of rows in a table's file."""
    with reading(path, "a table of a corpus; run the step that reads the corpus again"):
        return pq.read_metadata(path).num_rows


def write_tables(
    folder: Path,
    images: pd.DataFrame,
    captions: pd.DataFrame,
    rows: int | None = None,
    state: Path | None = None,
) -> None:
    """Write both tables into a folder; see `read_tables` for their columns.

    Parameters
    ----------
    folder
        A new folder, or a folder whose tables are written anew.
    images, captions
        The tables.
    rows
        Number of rows in a shard; `None`: each table is one file.
    state
        Folder where shards are collected, which survives a kill; by default `folder` itself.

    Raises
    ------
    VseppError
        If the tables do not belong together.
    """
    _check(folder, images, captions)
    for name, frame, schema in (("images", images, IMAGES), ("captions", captions, CAPTIONS)):
        # Without pandas' own metadata, which would give the same table other bytes under another version.
        table = pa.Table.from_pandas(frame, schema=schema, preserve_index=False).replace_schema_metadata(None)
        path = folder / f"{name}.parquet"
        if rows:
            _write_shards(table, path, rows, state or folder)
            continue
        with whole_file(path) as partial:
            pq.write_table(table, partial, compression="zstd")


def _write_shards(table: pa.Table, path: Path, rows: int, state: Path) -> None:
    """Write the shards that are not there yet, and `path`, the metadata of all shards."""
    shards = {}
    for number, start in enumerate(range(0, len(table), rows)):
        shard = state / f"{number:05}.{path.name}"
        shards[shard] = path.parent / shard.name
        if not shard.is_file():
            part = table.slice(start, rows)
            with whole_file(shard) as partial:
                pq.write_table(
                    part, partial, compression="zstd", row_group_size=rows, write_page_checksum=True
                )
    groups = [pq.read_metadata(shard) for shard in shards]
    for shard, group in zip(shards, groups, strict=True):
        group.set_file_path(shard.name)
    digests = " ".join(map(path_digest, shards))
    with whole_file(path) as partial:
        pq.write_metadata(table.schema.with_metadata({_SHA256: digests}), partial, groups)
    publish(shards)


def read_tables(folder: Path) -> tuple[Table, Table]:
    """Read the tables of a corpus.

    Returns
    -------
    images
        `image_id`, `file_name`, `container`, `member`, `split`: all text.
    captions
        `caption_id` (int64, unique), `image_index` (int32, row of `images`), `text`, `split` (the image's).

    Raises
    ------
    VseppError
        If a table is missing, unreadable, not as its step wrote it or has other columns.
    """
    return _read(folder / "images.parquet", IMAGES), _read(folder / "captions.parquet", CAPTIONS)


def _read(path: Path, schema: pa.Schema) -> Table:
    again = "run the step that reads the corpus again"
    with reading(path, f"a table of a corpus; {again}"):
        require_as_written(path)
        file = pq.ParquetFile(path)
    if not file.schema_arrow.equals(schema):
        found = ", ".join(f"{column.name} {column.type}" for column in file.schema_arrow)
        wanted = ", ".join(f"{column.name} {column.type}" for column in schema)
        raise VseppError(f"{path}: expected columns {wanted}; found {found}; {again}")

    metadata, kinds = file.metadata, file.schema_arrow.metadata or {}
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    starts = np.cumsum([0, *(group.num_rows for group in groups)])
    digests = kinds.get(_SHA256, b"").decode().split()

    def batches(name: str, asked: list[int]) -> Iterator[pa.RecordBatch]:
        """A column's rows in some row groups; in a table in shards, each row group is a shard."""
        if asked and not digests:
            yield from file.iter_batches(columns=[name], row_groups=asked)
        for number in asked if digests else ():
            shard = groups[number].column(0).file_path, groups[number].num_rows, digests[number]
            yield from open_shard(path, *shard, lambda file: _checked(file, name)).to_batches()

    def read(name: str, rows: range) -> np.ndarray:
        with reading(path, f"a table of a corpus; {again}"):
            kind = schema.field(name).type
            asked = np.flatnonzero((starts[:-1] < rows.stop) & (starts[1:] > rows.start)).tolist()
            at, parts = int(starts[asked[0]]) if asked else 0, []
            for batch in batches(name, asked):  # one Arrow batch is in memory at a time
                begin = max(rows.start - at, 0)
                parts.append(_values(batch.column(0)[begin : max(rows.stop - at, begin)], kind))
                at += len(batch)
            return np.concatenate(parts or [_values(pa.array([], kind), kind)])

    return Table(metadata.num_rows, read)


def _checked(shard: Path, name: str) -> pa.Table:
    """A column of a shard, with the checksums of its pages verified."""
    return pq.ParquetFile(shard, page_checksum_verification=True).read([name])


def _values(column: pa.Array, kind: pa.DataType) -> np.ndarray:
    """A column by way of lists: `to_numpy` imports pandas, which takes longer than lists do. Equal texts share one string."""
    if kind != pa.string():
        return np.array(column.to_pylist(), dtype=str(kind))
    coded = column.dictionary_encode()
    return np.array(coded.dictionary.to_pylist(), dtype=object)[coded.indices.to_pylist()]


def _check(folder: Path, images: pd.DataFrame, captions: pd.DataFrame) -> None:
    """Refuse tables that do not belong together."""
    index = np.asarray(captions["image_index"])
    if len(index) and not (index.min() >= 0 and index.max() < len(images)):
        raise VseppError(
            f"{folder}: captions point at images {index.min()} to {index.max()}, but there are {len(images)}"
        )
    ids, times = np.unique(np.asarray(captions["caption_id"]), return_counts=True)
    refuse(
        [str(number) for number in ids[times > 1]],
        f"{folder}: caption ids that occur more than once",
        "Read the corpus again.",
    )
    if not (np.asarray(images["split"])[index] == np.asarray(captions["split"])).all():
        raise VseppError(f"{folder}: captions in another split than their image; read the corpus again")
