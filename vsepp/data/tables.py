"""The tables of images and captions on disk: `images.parquet`, `captions.parquet`; and
the rows of a split."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from vsepp.base.errors import VseppError
from vsepp.base.files import reading, whole_file
from vsepp.base.manifest import require_as_written

if TYPE_CHECKING:
    import pandas as pd

IMAGES = pa.schema(
    [(name, pa.string()) for name in ("image_id", "file_name", "container", "member", "split")]
)
CAPTIONS = pa.schema(
    [("caption_id", pa.int64()), ("image_index", pa.int32()), ("text", pa.string()), ("split", pa.string())]
)

Columns = dict[str, np.ndarray]
"""Name → column `(rows,)`; text as Python strings."""


class ParquetTable:
    """Columns of equal length, as arrays by name. A column is read from its file when it is first asked for.

    Reading a column does not import pandas, which would take a fifth of the time that a
    training needs to start.

    Parameters
    ----------
    path, schema
        The file, and the columns that it must have.

    Raises
    ------
    VseppError
        If the file is missing, unreadable, not as its step wrote it or has other columns.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path, self._schema = path, schema
        self._expected = f"columns {_columns(schema)}; run the step that reads the corpus again"
        self._read: dict[str, np.ndarray] = {}
        with reading(path, self._expected):
            require_as_written(path)
            self._file = pq.ParquetFile(path)
            if not self._file.schema_arrow.equals(schema):
                present = _columns(self._file.schema_arrow)
                raise VseppError(f"{path}: holds columns {present}; expected {self._expected}")

    def __getitem__(self, name: str) -> np.ndarray:
        """A column `(rows,)`; text as Python strings."""
        if name not in self._read:
            kind = self._schema.field(name).type
            with reading(self._path, self._expected):
                # One Arrow batch is in memory at a time.
                batches = self._file.iter_batches(columns=[name])
                parts = [_values(batch.column(0), kind) for batch in batches]
                self._read[name] = np.concatenate(parts or [_values(pa.array([], kind), kind)])
        return self._read[name]

    def __len__(self) -> int:
        """Number of rows."""
        return int(self._file.metadata.num_rows)


def write_tables(folder: Path, images: Columns | pd.DataFrame, captions: Columns | pd.DataFrame) -> None:
    """Write both tables into a folder; see `read_tables` for their columns.

    Parameters
    ----------
    folder
        A new folder, or a folder whose tables are written anew.
    images, captions
        The tables.
    """
    for name, columns, schema in (("images", images, IMAGES), ("captions", captions, CAPTIONS)):
        # Without the metadata of a data frame, which would give the same table other bytes under
        # another version of pandas.
        table = pa.table(columns, schema=schema).replace_schema_metadata(None)
        with whole_file(folder / f"{name}.parquet") as partial:
            pq.write_table(table, partial, compression="zstd")


def read_tables(folder: Path) -> tuple[ParquetTable, ParquetTable]:
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
    return ParquetTable(folder / "images.parquet", IMAGES), ParquetTable(
        folder / "captions.parquet", CAPTIONS
    )


@dataclass(frozen=True, eq=False)
class SplitRows:
    """The images and captions of a split, in file order."""

    images: np.ndarray
    """int64 `(n_images,)`, rows of the images table."""
    captions: np.ndarray
    """int64 `(n_captions,)`, rows of the captions table."""
    caption_to_image: np.ndarray
    """int64 `(n_captions,)`, each caption's image as a position in `images`."""


def split_rows(
    images: ParquetTable, captions: ParquetTable, split: str, limit: int | None = None
) -> SplitRows:
    """Find a split in the tables of a corpus.

    Parameters
    ----------
    images, captions
        The tables.
    split
        Name of the split.
    limit
        Take only this many images, from the first, with all of their captions.

    Raises
    ------
    VseppError
        If the split has no images.
    """
    image_rows = np.flatnonzero(np.asarray(images["split"]) == split)[:limit]
    if not len(image_rows):
        splits = ", ".join(dict.fromkeys(images["split"]))
        raise VseppError(f"split {split!r} has no images in this corpus; it has {splits}")
    owners = np.asarray(captions["image_index"]).astype(np.int64)
    caption_rows = np.flatnonzero(np.isin(owners, image_rows))
    return SplitRows(image_rows, caption_rows, np.searchsorted(image_rows, owners[caption_rows]))


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in schema)


def _values(column: pa.Array, kind: pa.DataType) -> np.ndarray:
    """A column by way of lists: `to_numpy` imports pandas, which takes longer than lists do. Equal
    texts share one string."""
    if kind != pa.string():
        return np.array(column.to_pylist(), dtype=str(kind))
    coded = column.dictionary_encode()
    return np.array(coded.dictionary.to_pylist(), dtype=object)[coded.indices.to_pylist()]
