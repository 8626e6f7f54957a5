"""Folders of features that authors published with their captions: of VSE++ (`coco_precomp`, `f30k_precomp`,
`10crop_precomp`), and the regions of SCAN, which VSE∞ trains on.

Role `folder`: the folder, or a zip archive of it, with `{train,dev,test}_ims.npy`, float32, and
`{train,dev,test}_caps.txt`, one caption a line, five an image. VSE++'s arrays are `(n, dim)`, L2-normalised;
regions are `(n, 36, 2048)`, as a detector gave them. There are no photographs. Some files repeat each image's
row five times, once a caption, others have it once. Where there are `testall` files, which hold all 5,000
test images of COCO, they are the test split. Where there is an `_ids.txt`, its lines are the images' ids, one
an image or one a caption.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from vsepp.base.errors import VseppError, first_of
from vsepp.base.spec import CorpusSpec
from vsepp.data.arrays import NpyRows
from vsepp.data.container import Container
from vsepp.data.raw import Caption, CaptionedImage, RawCorpus, RawFile, read_raw

CITATION = (
    "Faghri, Fleet, Kiros and Fidler, 2018: VSE++, features released with its code; "
    "Lee, Chen, Hua, Hu and He, 2018: Stacked Cross Attention, regions released with its code"
)

FOLDER = "folder"
FILES = ("folder",)
# Split in the files' names → our name of it, in the order of the images table.
PREFIXES = {"train": "train", "dev": "val", "test": "test", "testall": "test"}
CAPTIONS_PER_IMAGE = 5


def read(spec: CorpusSpec, files: Mapping[str, Path]) -> RawCorpus:
    """Read train, val (`dev`) and test (`testall`, where it exists).

    An image's id comes from `_ids.txt`, or else is `train-0`; its path is `train_ims.npy#0`: file and
    row of its feature, the first of five rows if they are repeated. A caption's id is its number over
    the three files, from 0.

    Raises
    ------
    VseppError
        If files are missing or malformed, or if counts or ids do not fit.
    """
    container = Container(files[FOLDER])
    images: list[CaptionedImage] = []
    first_id = 0
    for prefix, rows in feature_files(container).items():
        file = read_raw(container.path, f"{prefix}_caps.txt")
        texts = file.lines()
        if blank := [str(line) for line, text in enumerate(texts, start=1) if not text.strip()]:
            raise VseppError(
                f"{file.where}: blank lines: {first_of(blank)}; expected a caption a line, five an image: "
                "delete a blank line at the end, and fetch the file again where one stands before it"
            )
        split = _images(prefix, texts, first_id, rows, file)
        if container.locate(f"{prefix}_ids.txt"):
            split = _named(split, read_raw(container.path, f"{prefix}_ids.txt"))
        images += split
        first_id += len(texts)
    return RawCorpus(images)


def feature_files(container: Container) -> dict[str, NpyRows]:
    """The three arrays of features by prefix: `train`, `dev`, and `testall` or `test`.

    Raises
    ------
    VseppError
        If a file is missing, or for arrays that are malformed or have rows of different shapes.
    """
    kinds = ("ims.npy", "caps.txt")
    left_out = "test" if any(container.locate(f"testall_{kind}") for kind in kinds) else "testall"
    prefixes = [prefix for prefix in PREFIXES if prefix != left_out]
    wanted = [f"{prefix}_{kind}" for prefix in prefixes for kind in kinds]
    members = {}
    for name in wanted:
        member = container.locate(name)
        if member is None:
            raise VseppError(f"{container.path}: holds no {name}; expected {', '.join(wanted)}")
        members[name] = member
    features = {prefix: NpyRows(container, members[f"{prefix}_ims.npy"]) for prefix in prefixes}
    if len({rows.row_shape for rows in features.values()}) > 1:
        shapes = ", ".join(f"{rows.where} has {_times(rows.row_shape)}" for rows in features.values())
        raise VseppError(
            f"features of one encoder must have one shape an image, dim or vectors × dim: {shapes}; fetch "
            "the folder again"
        )
    return features


def member_of(prefix: str, row: int) -> str:
    """File and row of a feature, as in the images table."""
    return f"{prefix}_ims.npy#{row}"


def _times(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))


def _images(
    prefix: str, texts: list[str], first_id: int, rows: NpyRows, file: RawFile
) -> list[CaptionedImage]:
    step = rows_per_image(rows, file)
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


def rows_per_image(rows: NpyRows, file: RawFile) -> int:
    """Rows of features per image: 1, or 5 if they are repeated for each caption of the file of captions."""
    captions = len(file.lines())
    if len(rows) and len(rows) * CAPTIONS_PER_IMAGE == captions:
        return 1
    if len(rows) and len(rows) == captions and captions % CAPTIONS_PER_IMAGE == 0:
        return CAPTIONS_PER_IMAGE
    raise VseppError(
        f"{rows.where} has {len(rows)} rows and {file.where} {captions} captions; expected "
        f"{CAPTIONS_PER_IMAGE} captions per row, or one row per caption and {CAPTIONS_PER_IMAGE} per image; "
        "they are not of the same release: fetch both again"
    )


def _named(images: list[CaptionedImage], file: RawFile) -> list[CaptionedImage]:
    """Images of a split, with ids from the file of the split's ids."""
    ids = [line.strip() for line in file.lines()]
    if "" in ids:
        raise VseppError(f"{file.where}: line {ids.index('') + 1}: is empty; expected one id a line")
    step, odd = divmod(len(ids), len(images))
    if odd or step not in (1, CAPTIONS_PER_IMAGE):
        raise VseppError(
            f"{file.where} has {len(ids)} ids; expected {len(images)}, one an image, or "
            f"{CAPTIONS_PER_IMAGE * len(images)}, one a caption; it is of another release: fetch the folder "
            "again"
        )
    for row, name in enumerate(ids):
        if name != (own := ids[row - row % step]):
            raise VseppError(
                f"{file.where}: line {row + 1}: got {name!r} after {own!r}, but there are as many ids as "
                "captions; expected five equal lines an image: fetch the folder again"
            )
    return [
        replace(image, image_id=name, listed_in=f"{file.where}: line {step * number + 1}")
        for number, (image, name) in enumerate(zip(images, ids[::step], strict=True))
    ]
