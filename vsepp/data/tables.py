"""The tables of images and captions on disk: `images.parquet`, `captions.parquet`."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from vsepp.errors import VseppError
from vsepp.runtime.files import whole_file

IMAGES = pa.schema(
    [(name, pa.string()) for name in ("image_id", "file_name", "container", "member", "split")]
)
CAPTIONS = pa.schema(
    [("caption_id", pa.int64()), ("image_index", pa.int32()), ("text", pa.string()), ("split", pa.string())]
)


def write_tables(folder: Path, images: pd.DataFrame, captions: pd.DataFrame) -> None:
    """Write both tables into a folder; see `read_tables` for their columns.

    Raises
    ------
    VseppError
        Where the tables do not belong together.
    """
    _check(folder, images, captions)
    for name, frame, schema in (("images", images, IMAGES), ("captions", captions, CAPTIONS)):
        # Without pandas' own metadata, which would give the same table other bytes under another version.
        table = pa.Table.from_pandas(frame, schema=schema, preserve_index=False).replace_schema_metadata(None)
        with whole_file(folder / f"{name}.parquet") as partial:
            pq.write_table(table, partial, compression="zstd")


def read_tables(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
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
        Where a table is missing, unreadable or of another form.
    """
    images, captions = _read(folder / "images.parquet", IMAGES), _read(folder / "captions.parquet", CAPTIONS)
    _check(folder, images, captions)
    return images, captions


def _read(path: Path, schema: pa.Schema) -> pd.DataFrame:
    if not path.is_file():
        raise VseppError(f"{path}: missing; run the step that reads the corpus")
    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise VseppError(
            f"{path}: not a readable Parquet file ({error}); run the step that makes it"
        ) from error
    if not table.schema.equals(schema):
        found = ", ".join(f"{column.name} {column.type}" for column in table.schema)
        wanted = ", ".join(f"{column.name} {column.type}" for column in schema)
        raise VseppError(
            f"{path}: expected columns {wanted}; found {found}; run the step that makes it again"
        )
    return table.to_pandas()


def _check(folder: Path, images: pd.DataFrame, captions: pd.DataFrame) -> None:
    index = captions["image_index"].to_numpy()
    if len(index) and not (index.min() >= 0 and index.max() < len(images)):
        raise VseppError(
            f"{folder}: captions point at images {index.min()} to {index.max()}, but there are {len(images)}"
        )
    if not captions["caption_id"].is_unique:
        repeated = captions["caption_id"][captions["caption_id"].duplicated()].tolist()
        raise VseppError(f"{folder}: caption ids that occur twice: {repeated[:5]} ({len(repeated)} in all)")
    if not (images["split"].to_numpy()[index] == captions["split"].to_numpy()).all():
        raise VseppError(f"{folder}: captions whose split is not their image's; read the corpus again")
