"""A model of one's own pictures: their captions checked and split by count, and the parameters of its run."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any

from vsepp.base.errors import VseppError, as_started
from vsepp.base.files import csv_text, require_folder, shown, write_text
from vsepp.base.publish import variant_folder
from vsepp.base.spec import Component, CorpusSpec, VocabularySpec
from vsepp.data.caption_files import TABLES, columns_of, read_beside, read_captions
from vsepp.data.captions import Vocabulary
from vsepp.data.container import Container
from vsepp.data.corpus import read_corpus, usable_images
from vsepp.data.picture_folder import pictures_in, readable
from vsepp.data.pictures import read_picture
from vsepp.data.raw import CaptionedImage, RawCorpus
from vsepp.data.readers.captions_csv import images_of
from vsepp.pipeline.reports import SETTINGS_FILE

log = logging.getLogger("vsepp")

RUN = "your-model"
"""The run of `params/papers/own/`."""
SPLITS = ("train", "val", "test")
FEWEST_PICTURES = 50  # different ones: copies of one file count once
FEWEST_OF_SPLIT = 2
"""Pictures of a split: recalls of one alone say nothing, and have no interval."""
_INPUT_FILES = {"images": "own-pictures", "captions": "own-captions.csv"}
EPOCHS = 8
STEPS_FOR_MH = 1500
"""MH needs some hundred steps to leave chance: where `EPOCHS` have fewer steps than these, SH trains alone."""
VOCABULARY_THRESHOLD = 2
PATIENCE = 8
"""Epochs without a better validation after which SH alone ends."""
BATCH = 128
INPUTS = Path("results") / "own" / "inputs"


@dataclass(frozen=True)
class Trial:
    """A prepared folder of pictures: the inputs of its run, and the settings that the workflow takes."""

    inputs: Path
    """Folder of the captions and of the link to the pictures."""
    settings: Mapping[str, Any]
    """Values for `--config` of the workflow."""
    pictures: Mapping[str, int]
    """Split → number of its pictures."""
    captions: int

    @property
    def file(self) -> Path:
        """The settings as a file."""
        return self.inputs / SETTINGS_FILE


def prepare(folder: Path, captions: Path | None = None, columns: str = "") -> Trial:
    """Check a folder of pictures and its captions, split them, and write the inputs of a run.

    Parameters
    ----------
    folder
        Pictures, also below it.
    captions
        A table of images and captions, and optionally of their splits, as `read_captions` takes it. Without it each picture has a
        text file of its name beside it, `.txt` or `.caption`, one caption a line.
    columns
        Names of columns that are not known: `image=file,caption=words`.

    Raises
    ------
    VseppError
        If there are no pictures, fewer than `FEWEST_PICTURES` different ones with captions, captions of pictures that are not
        there or that share no word, a file of captions that cannot be read, or if pictures cannot be decoded, as in `readable`.
    """
    container = Container(require_folder(folder, "a folder of pictures"))
    files = pictures_in(container)
    captioned, has_splits = _captioned(container, files, captions, columns)
    if without := sorted({*files} - {image.path for image in captioned}):
        log.warning(
            "%s: pictures without a caption, which are left out: %d, the first is %s",
            folder,
            len(without),
            shown(without[0]),
        )
    digests = _digests(container, captioned)
    captioned = [image for image in captioned if image.path in digests]
    if (distinct := len(set(digests.values()))) < FEWEST_PICTURES:
        raise VseppError(
            f"{folder}: {distinct} different pictures with captions, expected at least {FEWEST_PICTURES}: add more, or search them "
            f'with a model that is trained already: {as_started()}vsepp query flickr8k --pictures {quote(str(folder))} --text "..."'
        )
    captioned = _split(folder, captioned, digests, has_splits)
    table = _table(captioned)
    digest = hashlib.sha256("\n".join([table, *digests.values()]).encode()).hexdigest()
    inputs = INPUTS / f"{_slug(folder)}-{digest[:8]}"
    counts = {split: sum(image.split == split for image in captioned) for split in SPLITS}
    pairs = sum(len(image.captions) for image in captioned if image.split == "train")
    trial = Trial(
        inputs,
        _settings(inputs, counts["test"], pairs),
        counts,
        sum(len(image.captions) for image in captioned),
    )
    written = {role: inputs / name for role, name in _INPUT_FILES.items()}
    _write(trial, folder, table, **written)
    # The step that reads the corpus must find what was found here.
    _, kept, _ = read_corpus(CorpusSpec(name="own", reader=Component("captions_csv")), written)
    try:
        Vocabulary.from_captions(kept, VocabularySpec(("train",), VOCABULARY_THRESHOLD))
    except VseppError as error:
        raise VseppError(
            f"{folder}: in the {pairs} captions of pictures to train on no word stands {VOCABULARY_THRESHOLD} times "
            "or more; give captions that share words"
        ) from error
    return trial


def _captioned(
    container: Container, files: Iterable[str], captions: Path | None, columns: str
) -> tuple[list[CaptionedImage], bool]:
    """Pictures with captions, as the step that reads the corpus will find them, and whether their table gives splits."""
    if columns and not captions:
        raise VseppError("columns are those of a table of captions, but no table is given")
    if captions:
        table = read_captions(captions, columns_of(columns))
    else:
        table, alone = read_beside(container, files)
        if alone:
            log.warning(
                "%s: text files without a picture of their name: %d, the first is %s",
                container.path,
                len(alone),
                shown(alone[0]),
            )
        if not table.rows:
            tables = [name for name in container.names if name.lower().endswith(TABLES)] + alone
            guess = f"; perhaps {shown(str(container.path / tables[0]))} is one" if tables else ""
            raise VseppError(
                f"{container.path}: no captions; give a table with the columns image and caption, or a text file of its name "
                f"beside each picture, with a caption a line{guess}"
            )
    spec = CorpusSpec(name="own", reader=Component("captions_csv"))
    raw = RawCorpus(images_of(table), left_out=table.problems)
    images, members, _ = usable_images(spec, {"images": container.path}, raw)
    captioned = [replace(image, path=member) for image, member in zip(images, members, strict=True)]
    return captioned, table.has_splits


def _digests(container: Container, captioned: Iterable[CaptionedImage]) -> dict[str, str]:
    """SHA-256 of the pictures that can be decoded; the others are named, and refused where they are many."""

    def digest(name: str) -> str:
        data = container.read(name)
        read_picture(data, container.where(name), upright=True)
        return hashlib.sha256(data).hexdigest()

    return dict(readable([image.path for image in captioned], digest))


def _split(
    folder: Path, captioned: list[CaptionedImage], digests: Mapping[str, str], has_splits: bool
) -> list[CaptionedImage]:
    """Pictures with a split: the user's, or a tenth each to validate and to test, drawn by a hash of the names.

    Equal files are drawn together: a model must not be tested on what it was trained on.
    """
    groups: dict[str, list[CaptionedImage]] = {}
    for image in captioned:
        groups.setdefault(digests[image.path], []).append(image)
    copies = [group for group in groups.values() if len(group) > 1]
    if has_splits:
        if apart := [group for group in copies if len({image.split for image in group}) > 1]:
            names = " and ".join(shown(f"{image.path} ({image.split})") for image in apart[0][:2])
            raise VseppError(
                f"{folder}: {len(apart)} files lie in several splits under several names, the first is {names}; give copies of one "
                "file one split"
            )
        counts = Counter(group[0].split for group in groups.values())
        if small := [split for split in SPLITS if counts[split] < FEWEST_OF_SPLIT]:
            raise VseppError(
                f"{folder}: {counts[small[0]]} different pictures with captions have the split {small[0]}, expected at least "
                f"{FEWEST_OF_SPLIT}; give each split pictures in the column `split`, or leave the column out"
            )
    if copies:
        log.warning(
            "%s: equal files, which are put into one split: %d, the first are %s",
            folder,
            sum(map(len, copies)),
            " and ".join(shown(image.path) for image in copies[0][:2]),
        )
    if has_splits:
        return captioned
    drawn = sorted(
        groups,
        key=lambda digest: min(hashlib.sha256(image.path.encode()).digest() for image in groups[digest]),
    )
    tenth = max(len(drawn) // 10, 10)
    splits = dict.fromkeys(drawn[:tenth], "test") | dict.fromkeys(drawn[tenth : 2 * tenth], "val")
    return [replace(image, split=splits.get(digests[image.path], "train")) for image in captioned]


def _table(captioned: Iterable[CaptionedImage]) -> str:
    """The captions as the CSV that the reader takes."""
    rows = (
        {"image": image.path, "caption": caption.text.strip(), "split": image.split}
        for image in captioned
        for caption in image.captions
    )
    return csv_text(("image", "caption", "split"), rows)


def _settings(inputs: Path, test_images: int, pairs: int) -> dict[str, Any]:
    """Settings of the workflow: SH alone until validation has had enough or, where there are steps enough, SH and then MH."""
    steps = math.ceil(pairs / BATCH)
    if steps * EPOCHS < STEPS_FOR_MH:
        most = math.ceil(STEPS_FOR_MH / steps)
        schedule = {
            "epochs": most,
            "patience": PATIENCE,
            "drop_at": 1.0,
            "loss": {"curriculum": 1.0},
            "system": "SH",
        }
    else:
        schedule = {"epochs": EPOCHS, "loss": {"curriculum": 0.333}}
    schedule["vocabulary_threshold"] = VOCABULARY_THRESHOLD
    return {
        "preset": "own",
        "papers": ["own"],
        "seeds": [0],
        "label": inputs.name,
        "archives": str(inputs),
        # Else trials would share the artefacts that are made of pictures and captions.
        "datasets": {"own": {"content": inputs.name}},
        "evaluation": {"fold_size": test_images},
        "runs": {RUN: schedule},
    }


def command_of(model: Path) -> str:
    """The command that makes a trial again, for the folder of its model; empty where the model is of no trial."""
    variant = variant_folder(model)
    link = variant.parent / "inputs" / variant.name / "own-pictures" if variant else model
    return f"{as_started()}vsepp try {quote(str(link.readlink()))}" if link.is_symlink() else ""


def _slug(folder: Path) -> str:
    """The folder's name in the letters that names of results have."""
    return re.sub("[^a-z0-9]", "-", folder.resolve().name.lower()).strip("-")[:40] or "pictures"


def _write(trial: Trial, folder: Path, table: str, images: Path, captions: Path) -> None:
    """Write the inputs; captions and link that are there already stay, so that results made from them stay done."""
    trial.inputs.mkdir(parents=True, exist_ok=True)
    if not captions.is_file():
        write_text(captions, table)
    if not images.is_symlink() or images.resolve() != folder.resolve():
        images.unlink(missing_ok=True)
        images.symlink_to(folder.resolve(), target_is_directory=True)
    write_text(trial.file, json.dumps(trial.settings, indent=1) + "\n")
