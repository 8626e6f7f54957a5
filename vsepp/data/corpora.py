"""Raw files → tables of images and captions, with all checks that do not depend on the layout."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath

import numpy as np
import pandas as pd

from vsepp import components
from vsepp.data.containers import Container, role_path
from vsepp.data.raw_files import Caption, CaptionedImage
from vsepp.errors import VseppError, refuse
from vsepp.spec import CorpusSpec
from vsepp.user_files import shortly

log = logging.getLogger("vsepp")

# Absolute, through a folder above, or with control characters.
_NO_NAME = re.compile(r"(/|[A-Za-z]:[\\/]|(.*/)?\.\.(/|$))|.*[\x00-\x1f\x7f-\x9f]", re.DOTALL)


def read_corpus(spec: CorpusSpec) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read a corpus from its raw files.

    Parameters
    ----------
    spec
        The corpus.

    Returns
    -------
    images
        One row per image that is in a split, in file order: `image_id`, `file_name`, `container` (role of the folder
        or archive in `spec.files`), `member` (path inside it), `split`. If there are features but no
        photographs, `container` is empty and `member` names file and row. `images.attrs["facts"]` counts what
        is used and what is not.
    captions
        One row per caption: `caption_id`, `image_index` (row of `images`), `text`, `split`.

    Raises
    ------
    VseppError
        On anything wrong in the files, naming file and row; all problems of a kind in one message.
    """
    raw = components.load("reader", spec.reader.name).read(spec)
    if not raw.images:
        raise VseppError(
            f"corpus {spec.name}: no split lists an image; check the files {sorted(spec.files.values())}"
        )
    _check_names(raw.images)
    _check_repeated(raw.images)
    _check_captions(spec, raw.images)
    members = _members(spec, raw.images)
    _check_expected(spec, raw.images)
    kept = _kept_rows(spec, raw.images)
    images, captions = _tables(spec, [raw.images[row] for row in kept], [members[row] for row in kept])
    surplus = sum(len(image.captions) - len(_used(spec, image)) for image in raw.images)
    images.attrs["facts"] = {
        "images": images["split"].value_counts(sort=False).to_dict(),
        "captions": captions["split"].value_counts(sort=False).to_dict(),
        "ignored": {"captioned images in no split": raw.unlisted, "surplus captions": surplus},
        **({"reported_sha256": raw.files.sums} if raw.files.sums else {}),
    }
    log.info("%s: %s", spec.name, images.attrs["facts"])
    return images, captions


def require_test_images(images: pd.DataFrame, name: str, needed: int) -> None:
    """Refuse a corpus whose test images do not fill the folds of its evaluations, before anything is trained on it.

    Raises
    ------
    VseppError
        Naming both numbers and what to change.
    """
    there = int((images["split"] == "test").sum())
    if there < needed:
        raise VseppError(
            f"corpus {name}: has {there} test images, but the evaluation's folds need {needed}; lower evaluation.fold_size in the "
            "preset, or give the corpus more test images"
        )


def _check_names(images: Sequence[CaptionedImage]) -> None:
    """Refuse paths that lead out of a container or that no table can hold."""
    wrong = [f"{image.listed_in}: {shortly(image.path)}" for image in images if _NO_NAME.match(image.path)]
    refuse(
        wrong,
        "Images whose path leads elsewhere or holds control characters",
        "Paths must be relative to the folder or archive of the photographs.",
    )


def _check_repeated(images: Sequence[CaptionedImage]) -> None:
    first: dict[str, CaptionedImage] = {}
    repeated = []
    for image in images:
        other = first.setdefault(image.image_id, image)
        if other is not image:
            repeated.append(
                f"{image.image_id} ({other.split}, {other.listed_in}; {image.split}, {image.listed_in})"
            )
    refuse(repeated, "Images listed twice", "Splits must be disjoint: list each image once.")


def _check_captions(spec: CorpusSpec, images: Sequence[CaptionedImage]) -> None:
    none = [f"{image.listed_in}: {image.path}" for image in images if not image.captions]
    refuse(none, "Images without captions", "Caption them, or take them out of the split.")
    if (wanted := spec.captions_per_image) is not None:
        fewer = [_counted(image) for image in images if len(image.captions) < wanted]
        refuse(fewer, f"Images with fewer than {wanted} captions", "Fix the files, or captions_per_image.")
        if spec.surplus_captions == "error":
            more = [_counted(image) for image in images if len(image.captions) > wanted]
            refuse(
                more,
                f"Images with more than {wanted} captions",
                "Fix the files, or set surplus_captions to drop to keep the first ones.",
            )
    empty, invalid = [], []
    for image in images:
        for caption_id, text in image.captions:
            where = f"{image.captions_in} {caption_id} ({image.path})"
            if not text.strip():
                empty.append(where)
            elif "\0" in text:
                invalid.append(f"{where}: {text[:40]!r}")
    refuse(empty, "Empty captions", "Write them, or take the images out of the split.")
    refuse(invalid, "Captions that hold NUL, and so are no text", "Fix the file.")


def _counted(image: CaptionedImage) -> str:
    return f"{image.listed_in}: {image.path} has {len(image.captions)}"


def _members(spec: CorpusSpec, images: Sequence[CaptionedImage]) -> list[str]:
    """Path of each image inside its container; of an image without photograph its own path."""
    members = {image.image_id: image.path for image in images}
    for role in sorted({image.container for image in images if image.container}):
        container = Container(role_path(spec, role))
        listed = [image for image in images if image.container == role]
        missing = []
        for image in listed:
            if member := container.locate(image.path):
                members[image.image_id] = member
            else:
                missing.append(f"{image.path} ({image.split}, {image.listed_in})")
        refuse(
            missing,
            f"{container.path}: lacks photographs that a split lists, {len(missing)} of {len(listed)}",
            f"It holds {len(container.names)} files, those of links to folders not counted; fetch a complete copy.",
        )
    return list(members.values())


def _check_expected(spec: CorpusSpec, images: Sequence[CaptionedImage]) -> None:
    """Compare the sizes of the splits with those known for the source."""
    sizes = Counter(image.split for image in images)
    refuse(
        [
            f"{split} has {sizes[split]} images, expected {expected}"
            for split, expected in spec.expected_images.items()
            if sizes[split] != expected
        ],
        f"corpus {spec.name}: splits of the wrong size",
        "Fix the split files, or expected_images if this is another release.",
    )


def _used(spec: CorpusSpec, image: CaptionedImage) -> tuple[Caption, ...]:
    return image.captions[: spec.captions_per_image]


def _kept_rows(spec: CorpusSpec, images: Sequence[CaptionedImage]) -> list[int]:
    """Rows of images that are neither left out nor beyond the first ones of their split, in file order."""
    absent = sorted(set(spec.leave_out) - {image.image_id for image in images})
    refuse(absent, f"corpus {spec.name}: leave_out names images that it does not have", "Give their ids.")
    seen: Counter[str] = Counter()
    kept = []
    for row, image in enumerate(images):
        if image.image_id in spec.leave_out:
            continue
        seen[image.split] += 1
        if seen[image.split] <= spec.first_images.get(image.split, len(images)):
            kept.append(row)
    return kept


def _tables(
    spec: CorpusSpec, raw: Sequence[CaptionedImage], members: Sequence[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    images = pd.DataFrame(
        [
            (image.image_id, PurePosixPath(image.path).name, image.container, member, image.split)
            for image, member in zip(raw, members, strict=True)
        ],
        columns=["image_id", "file_name", "container", "member", "split"],
        dtype="str",
    )
    rows = [
        (caption.caption_id, index, caption.text, image.split)
        for index, image in enumerate(raw)
        for caption in _used(spec, image)
    ]
    captions = pd.DataFrame(rows, columns=["caption_id", "image_index", "text", "split"])
    types = {"caption_id": np.int64, "image_index": np.int32, "text": "str", "split": "str"}
    return images, captions.astype(types)
