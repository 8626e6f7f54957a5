"""Raw files → tables of images and captions, with all checks that do not depend on the layout."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from vsepp.base import components
from vsepp.base.errors import VseppError, first_of, refuse
from vsepp.base.files import shortly
from vsepp.base.spec import CorpusSpec
from vsepp.data.container import Container
from vsepp.data.raw import CaptionedImage, RawCorpus
from vsepp.data.tables import Columns, write_tables

log = logging.getLogger("vsepp")

MOST_LEFT_OUT = 0.05
"""Share of the captions, or of the images, that may be left out because they cannot be used."""
MOST_UNSEPARATED = 0.1  # share of the captions whose words may lack blanks between them
# JSON can spell half of a surrogate pair, which no UTF-8 file can hold.
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_LINE_END = re.compile(r"\r\n|[\r\n]")
# Control characters except tabs and line ends. In captions they are kept as parts of words.
_CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
_LEADS_OUT = re.compile(r"[\\/]|[A-Za-z]:[\\/]|(.*[\\/])?\.\.([\\/]|$)", re.DOTALL)
_NO_NAME = re.compile(rf"{_CONTROL}|[\t\n\r]")
# Han, kana, Thai, Lao, Myanmar and Khmer: written without blanks between words.
_UNSEPARATED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uff66-\uff9f]"
)
_LONGEST_WORD = 3.5
"""Letters of a piece between blanks, on average, above which the pieces are no words: words have two
(Chinese) or three (Thai)."""
_LONGEST_ALONE = 2
"""Likewise where most captions are one piece: a short sentence, or a word."""


def make_tables(spec: CorpusSpec, files: Mapping[str, Path], out: Path, test_images: int) -> dict[str, Any]:
    """Write the tables of a corpus; facts and errors as of `read_corpus`.

    Parameters
    ----------
    spec
        The corpus.
    files
        The reader's name of a file → its path.
    out
        Gets `images.parquet` and `captions.parquet`.
    test_images
        Smallest number of test images that the folds of later evaluations need; fewer are refused
        before anything is trained.
    """
    images, captions, facts = read_corpus(spec, files)
    count = int((images["split"] == "test").sum())
    if count < test_images:
        raise VseppError(
            f"corpus {spec.name}: has {count} test images, but the evaluation's folds need {test_images}; "
            "lower evaluation.fold_size in the preset, or give the corpus more test images"
        )
    write_tables(out, images, captions)
    log.info("%s: %s", spec.name, facts)
    return facts


def read_corpus(spec: CorpusSpec, files: Mapping[str, Path]) -> tuple[Columns, Columns, dict[str, Any]]:
    """Read a corpus from its raw files.

    Parameters
    ----------
    spec
        The corpus.
    files
        The reader's name of a file → its path.

    Returns
    -------
    images
        One row per image that is in a split, in file order: `image_id`, `file_name`, `container` (role of the
        folder or archive in `files`), `member` (path inside it), `split`. If there are features but no
        photographs, `container` is empty and `member` names file and row.
    captions
        One row per caption: `caption_id`, `image_index` (row of `images`), `text`, `split`.
    facts
        Counts of what was kept and of what was left out.

    Raises
    ------
    VseppError
        On anything wrong in the files, naming file and row; all missing photographs in one message.
    """
    components.checked("reader", spec.reader)
    raw = components.load("reader", spec.reader.name).read(spec, files)
    if not raw.images and not raw.left_out:
        raise VseppError(
            f"corpus {spec.name}: no split lists an image; check {sorted(map(str, files.values()))}"
        )
    _check_expected(spec, raw)
    usable, members, left_out = usable_images(spec, files, raw)
    rows, first_images = _first_images(spec, usable)
    images, captions = _tables(spec, [usable[row] for row in rows], [members[row] for row in rows])
    ignored = {} if raw.unlisted is None else {"captioned images in no split": len(raw.unlisted)}
    ignored["surplus captions"] = sum(
        len(image.captions) - len(image.captions[: spec.captions_per_image]) for image in usable
    )
    facts: dict[str, Any] = {
        "images": dict(Counter(images["split"].tolist())),
        "captions": dict(Counter(captions["split"].tolist())),
        "ignored": ignored,
    }
    if spec.leave_out:
        facts["left_out"] = len(set(spec.leave_out))
    if left_out:
        facts["unusable"] = left_out
    if first_images:
        facts["first_images"] = first_images
    return images, captions, facts


def usable_images(
    spec: CorpusSpec, files: Mapping[str, Path], raw: RawCorpus
) -> tuple[list[CaptionedImage], list[str], int]:
    """What a corpus is made of: first what cannot be used is left out and named, then the rest is checked.

    Parameters
    ----------
    spec
        The corpus; what its `leave_out` names counts nowhere.
    files
        The reader's name of a folder or archive of pictures → its path.
    raw
        What the reader found.

    Returns
    -------
    images
        Images with at least one caption; line breaks in captions are blanks.
    members
        Path of each inside its container.
    left_out
        Number of captions that cannot be used, and of the other captions of images that are left out.

    Raises
    ------
    VseppError
        If more than `MOST_LEFT_OUT` would be left out, on images that are listed twice or share a file, that
        have too few or too many captions, or that their container lacks, and where words are not separated.
    """
    if absent := sorted(set(spec.leave_out) - {image.image_id for image in raw.images}):
        raise VseppError(
            f"corpus {spec.name}: leave_out names {absent[0]}, which it does not have; give ids of images"
        )
    listed = [image for image in raw.images if image.image_id not in spec.leave_out]
    results = [_usable(spec, image) for image in listed]
    images = [image for image, _ in results if image is not None]
    problems = [*raw.left_out, *chain.from_iterable(faults for _, faults in results)]
    count, kept = (sum(max(len(image.captions), 1) for image in some) for some in (listed, images))
    count += len(raw.left_out)
    if count - kept > MOST_LEFT_OUT * count:
        raise VseppError(
            f"corpus {spec.name}: {count - kept} of {count} captions cannot be used, more than "
            f"{MOST_LEFT_OUT:.0%}: {first_of(problems)}. Correct them, or delete their rows"
        )
    for problem in problems[:20]:
        log.warning("left out: %s", problem)
    if problems:
        log.warning("corpus %s: left out %d of %d captions", spec.name, count - kept, count)
    _check_images(spec, images)
    _check_words(spec, images)
    return images, _members(files, images), count - kept


def _usable(spec: CorpusSpec, image: CaptionedImage) -> tuple[CaptionedImage | None, list[str]]:
    """An image with its captions that can be used, if enough are left; and why the others cannot."""
    where = f"{image.listed_in}: {shortly(image.path)}"
    reason = "" if image.captions else "has no caption"
    if _NO_TEXT.search(image.path):
        reason = "is not UTF-8"
    if _NO_NAME.search(image.path):
        reason = "holds control characters"
    if _LEADS_OUT.match(image.path):
        expected = "a path relative to the folder or archive of the pictures, below it"
        reason = f"is absolute or leads out; expected {expected}"
    if reason:
        return None, [f"{where} {reason}"]
    captions, problems = [], []
    for caption in image.captions:
        text = caption.text
        if isinstance(text, str) and text.strip() and not _NO_TEXT.search(text):
            captions.append(caption._replace(text=_LINE_END.sub(" ", text)))
        else:
            empty = isinstance(text, str) and not text.strip()
            what = "an empty caption" if empty else f"got {shortly(text)}; expected UTF-8 text"
            place = caption.where or f"{image.captions_in} {caption.caption_id}"
            problems.append(f"{place} ({shortly(image.path)}): {what}")
    if 0 < len(captions) < min(len(image.captions), spec.captions_per_image or 1):
        problems.append(f"{where} has {len(captions)} captions left, expected {spec.captions_per_image}")
        return None, problems
    return replace(image, captions=tuple(captions)) if captions else None, problems


def _check_words(spec: CorpusSpec, images: Sequence[CaptionedImage]) -> None:
    """Refuse captions whose words no blanks part: a vocabulary of them would hold sentences."""
    texts = [caption.text for image in images for caption in image.captions]
    # A caption of another language may hold a name.
    unspaced = [text.split() for text in texts if len(_UNSEPARATED.findall(text)) > len(text) / 4]
    if len(unspaced) <= MOST_UNSEPARATED * len(texts):
        return
    # With the digits and Latin letters of a piece: a program that parts words parts them from these.
    letters = [
        sum(map(str.isalnum, piece)) for pieces in unspaced for piece in pieces if _UNSEPARATED.search(piece)
    ]
    mostly_one_piece = sum(len(pieces) == 1 for pieces in unspaced) > len(unspaced) / 2
    if sum(letters) > (_LONGEST_ALONE if mostly_one_piece else _LONGEST_WORD) * len(letters):
        raise VseppError(
            f"corpus {spec.name}: the words of {len(unspaced)} of {len(texts)} captions are not separated, "
            f"the first is {shortly(' '.join(unspaced[0]))}; put blanks between words first, by a program "
            "that finds them in this language"
        )


def _check_images(spec: CorpusSpec, images: Sequence[CaptionedImage]) -> None:
    """Refuse the first image that is listed twice or has too few or too many captions."""
    listed: dict[str, CaptionedImage] = {}
    owners: dict[int, CaptionedImage] = {}  # caption id → its image
    for image in images:
        first = listed.setdefault(image.image_id, image)
        if first is not image:
            raise VseppError(
                f"{image.listed_in}: image {shortly(image.image_id)}, of {image.split}, is listed before, in "
                f"{first.listed_in} for {first.split}; splits must be disjoint: list each image once"
            )
        _check_count(spec, image)
        for caption_id, *_ in image.captions:
            if caption_id in owners:
                raise VseppError(
                    f"{image.captions_in} {caption_id} ({shortly(image.path)}): {image.listed_in} has a "
                    f"caption of the same id as {owners[caption_id].listed_in} "
                    f"({shortly(owners[caption_id].path)}); each caption must have an id of its own"
                )
            owners[caption_id] = image


def _check_count(spec: CorpusSpec, image: CaptionedImage) -> None:
    count, expected = len(image.captions), spec.captions_per_image
    if expected is None or count == expected or (count > expected and spec.surplus_captions == "drop"):
        return
    cure = "captions_per_image" if count < expected else "set surplus_captions to drop to keep the first ones"
    raise VseppError(
        f"{image.listed_in}: {shortly(image.path)} has {count} captions, expected {expected}; fix the files, "
        f"or {cure}"
    )


def _members(files: Mapping[str, Path], images: Sequence[CaptionedImage]) -> list[str]:
    """Path of each image inside its container, or the image's own path where it has no photograph."""
    members = {image.image_id: image.path for image in images}
    for role in sorted({image.container for image in images if image.container}):
        container = Container(files[role])
        listed = [image for image in images if image.container == role]
        missing = []
        owners: dict[str, CaptionedImage] = {}
        for image in listed:
            if member := container.locate(image.path):
                members[image.image_id] = member
                first = owners.setdefault(member, image)
                if first is not image:
                    raise VseppError(
                        f"{image.listed_in}: {shortly(image.path)} is the same file as {shortly(first.path)} "
                        f"of {first.listed_in}: {container.where(member)}; give both the same name"
                    )
            else:
                missing.append(f"{image.path} ({image.split}, {image.listed_in})")
        refuse(
            missing,
            f"{container.path}: lacks pictures that are listed, {len(missing)} of {len(listed)}",
            f"It holds {len(container.names)} files, those of links to folders not counted; correct the "
            "names (folder, case, ending), or add the pictures.",
        )
    return list(members.values())


def _check_expected(spec: CorpusSpec, raw: RawCorpus) -> None:
    """Compare the sizes of the splits with the sizes known for the source."""
    problems = []
    for split, expected in spec.expected_images.items():
        listed = [image for image in raw.images if image.split == split]
        if len(listed) != expected:
            surplus = [f"{image.image_id} ({image.path}, {image.listed_in})" for image in listed[expected:]]
            examples = f"; beyond it are {first_of(surplus)}" if surplus else ""
            problems.append(f"{split} has {len(listed)} images, expected {expected}{examples}")
    if problems:
        unlisted = f" Captioned images that no split lists: {first_of(raw.unlisted)}." if raw.unlisted else ""
        raise VseppError(
            f"corpus {spec.name}: splits of the wrong size: {'; '.join(problems)}.{unlisted} "
            "Fix the split files, or expected_images if this is another release."
        )


def _first_images(
    spec: CorpusSpec, images: Sequence[CaptionedImage]
) -> tuple[list[int], dict[str, dict[str, int]]]:
    """Rows that are kept, in file order; and for each split in `spec.first_images`, how many images
    it keeps of how many."""
    seen: Counter[str] = Counter()
    kept = []
    for row, image in enumerate(images):
        seen[image.split] += 1
        if seen[image.split] <= spec.first_images.get(image.split, len(images)):
            kept.append(row)
    sizes = {
        split: {"kept": min(n, seen[split]), "of": seen[split]} for split, n in spec.first_images.items()
    }
    return kept, sizes


def _tables(
    spec: CorpusSpec, images: Sequence[CaptionedImage], members: Sequence[str]
) -> tuple[Columns, Columns]:
    texts = {
        "image_id": [image.image_id for image in images],
        "file_name": [PurePosixPath(image.path).name for image in images],
        "container": [image.container for image in images],
        "member": members,
        "split": [image.split for image in images],
    }
    captions = [
        (caption.caption_id, index, caption.text, image.split)
        for index, image in enumerate(images)
        for caption in image.captions[: spec.captions_per_image]
    ]
    types = {"caption_id": np.int64, "image_index": np.int32, "text": object, "split": object}
    columns = zip(*captions, strict=True) if captions else [()] * len(types)
    return (
        {name: np.array(values, dtype=object) for name, values in texts.items()},
        {name: np.array(values, kind) for (name, kind), values in zip(types.items(), columns, strict=True)},
    )
