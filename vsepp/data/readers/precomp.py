"""The folders of features that the paper's authors published: `coco_precomp`, `f30k_precomp`, `10crop_precomp`.

Role `folder`: the folder, or a zip archive of it, with `{train,dev,test}_ims.npy` (CNN features, float32
`(n, dim)`, L2-normalised) and `{train,dev,test}_caps.txt` (one caption per line, five per image). There are
no photographs. Some folders repeat each image's row five times, once per caption; others have it once.
"""

from __future__ import annotations

from vsepp.data.arrays import NpyRows
from vsepp.data.containers import Container, role_path
from vsepp.data.raw_files import Caption, CaptionedImage, RawCorpus, RawFile, RawFiles, lines_of
from vsepp.errors import VseppError, refuse
from vsepp.spec import CorpusSpec

CITATION = "Faghri, Fleet, Kiros and Fidler, 2018: VSE++, features released with its code"

ROLE = "folder"
# Split in the files' names → our name of it, in the order of the images table.
PREFIXES = {"train": "train", "dev": "val", "test": "test"}
CAPTIONS_PER_IMAGE = 5


def read(spec: CorpusSpec) -> RawCorpus:
    """Read train, val (`dev`) and test.

    An image's id is `train-0`, its path `train_ims.npy#0`: file and row of its feature, the first of five if
    rows are repeated. A caption's id is its number over the three files, from 0.

    Raises
    ------
    VseppError
        If files are missing or malformed, or if counts do not fit.
    """
    features = feature_files(spec)
    files = RawFiles(spec)
    images: list[CaptionedImage] = []
    first_id = 0
    for prefix, rows in features.items():
        file = files.read(ROLE, f"{prefix}_caps.txt")
        files.note_end(file)
        texts = lines_of(file.text())
        images += _images(prefix, texts, first_id, rows, file)
        first_id += len(texts)
    return RawCorpus(images, files)


def feature_files(spec: CorpusSpec) -> dict[str, NpyRows]:
    """The three arrays of features by prefix: `train`, `dev`, `test`.

    Raises
    ------
    VseppError
        Naming all files of the folder that are missing, or arrays that are malformed or differ in `dim`.
    """
    container = Container(role_path(spec, ROLE))
    wanted = [f"{prefix}_{what}" for prefix in PREFIXES for what in ("ims.npy", "caps.txt")]
    found = {name: container.locate(name) for name in wanted}
    missing = [name for name, member in found.items() if member is None]
    refuse(missing, f"{container.path}: files are missing", f"Expected {', '.join(wanted)}.")
    features = {prefix: NpyRows(container, str(found[f"{prefix}_ims.npy"])) for prefix in PREFIXES}
    if len({rows.dim for rows in features.values()}) > 1:
        dims = ", ".join(f"{rows.where} has {rows.dim}" for rows in features.values())
        raise VseppError(f"features of one encoder must have one dimension: {dims}; fetch the folder again")
    return features


def member_of(prefix: str, row: int) -> str:
    """File and row of a feature, as in the images table."""
    return f"{prefix}_ims.npy#{row}"


def _images(
    prefix: str, texts: list[str], first_id: int, rows: NpyRows, file: RawFile
) -> list[CaptionedImage]:
    step = _rows_per_image(rows, len(texts), file.where)
    images = []
    for number in range(len(rows) // step):
        lines = range(number * CAPTIONS_PER_IMAGE, (number + 1) * CAPTIONS_PER_IMAGE)
        images.append(
            CaptionedImage(
                image_id=f"{prefix}-{number}",
                path=member_of(prefix, number * step),
                container="",
                split=PREFIXES[prefix],
                captions=tuple(Caption(first_id + line, texts[line]) for line in lines),
                listed_in=f"{rows.where}: row {number * step}",
                captions_in=f"{file.where}: lines {lines[0] + 1} to {lines[-1] + 1}: caption",
            )
        )
    return images


def _rows_per_image(rows: NpyRows, captions: int, captions_in: str) -> int:
    """1, or 5 if an image's row is repeated for each caption."""
    if len(rows) and len(rows) * CAPTIONS_PER_IMAGE == captions:
        return 1
    if len(rows) and len(rows) == captions and captions % CAPTIONS_PER_IMAGE == 0:
        return CAPTIONS_PER_IMAGE
    raise VseppError(
        f"{rows.where} has {len(rows)} rows and {captions_in} {captions} captions; expected "
        f"{CAPTIONS_PER_IMAGE} captions per row, or one row per caption and {CAPTIONS_PER_IMAGE} per image; "
        "they are not of the same release: fetch both again"
    )
