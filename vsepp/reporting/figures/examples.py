"""Test images with the captions that two runs rank first."""

from __future__ import annotations

import io
import math
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from vsepp.data.pictures import Pictures
from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.protocols import protocol_folds
from vsepp.provenance.manifest import require_intact
from vsepp.reporting.plots import Material, Said, not_run
from vsepp.reporting.records import TEST_IMAGES, Record, read_ranks, scores, trouble_of
from vsepp.reporting.specs import FigureSpec
from vsepp.similarity import scorer

CITATION = "Faghri et al. (2018), VSE++, Figure 3"
RUNS = "pair"
NEEDS = ("dataset", "labels", "protocol", "images")


@dataclass(frozen=True)
class Options:
    """How many."""

    images: int = 6
    """How many test images, evenly spaced."""

    def __post_init__(self) -> None:
        if self.images < 1:
            raise ValueError(f"images: got {self.images}; expected at least 1")


_WRAP, _LINES = 46, 2
# Inches: height of a cell, side of its picture, space around it; points: from line to line.
_CELL, _SIDE, _SPACE, _LINE = 1.18, 1.0, 0.06, 8.2


def draw(figure: Figure, spec: FigureSpec, options: Any, material: Material) -> Said:
    """A cell per test image: picture, the caption that each model ranks first with the rank of the best true one, a true one."""
    said, width = Said(), figure.get_size_inches()[0]
    shown = [material.records[run][0] for run in spec.runs if run in material.records]
    if len(shown) < len(spec.runs) or not all(record.spec.pictures for record in shown):
        figure.set_size_inches(width, 1.2)
        not_run(figure.subplots(), "no captions" if len(shown) == len(spec.runs) else "not run")
        return said
    examples = _examples(spec, options.images, material)
    columns = 2 if width > 5 else 1
    rows = math.ceil(len(examples) / columns)
    figure.set_size_inches(width, _CELL * rows)
    figure.set_layout_engine("none")
    for place, example in enumerate(examples):
        row, column = divmod(place, columns)
        # Inches from the left and from the top.
        left, top = column * width / columns + _SPACE, row * _CELL + _SPACE
        _picture(figure, example, left, top)
        told = _told(spec, example)
        for block, (head, text) in enumerate(told):
            at = top + block * (_LINES + 1.15) * _LINE / 72
            _write(figure, left + _SIDE + 0.08, at, [head], fontweight="bold")
            lines = textwrap.wrap(text, _WRAP, max_lines=_LINES, placeholder=" …")
            _write(figure, left + _SIDE + 0.08, at + _LINE / 72, lines)
        said.alt.append(
            f"Image {example.image}: {'; '.join(f'{head}: {text.rstrip(chr(46))}' for head, text in told)}."
        )
    kind = "Test images" if spec.photographs else "Test images, by their ids,"
    seed = material.records[spec.runs[0]][0].spec.seed
    said.caption.append(
        f"{kind} evenly spaced over those of protocol {spec.under}, first and last among them, the same for both "
        f"models, of seed {seed}; with the caption that each ranks first, ✓ where it is one of the image's, and the rank of "
        "the image's best-ranked caption. True: the image's first caption."
    )
    if bad := {run: why for run in spec.runs if (why := trouble_of(material.records[run], spec.under))}:
        said.caption.append("; ".join(f"{run} {why}" for run, why in bad.items()) + ".")
    return said


@dataclass(frozen=True)
class _Answer:
    """What a model says of an image."""

    caption: str
    """The one that it scores highest in the image's fold."""
    right: bool
    """Whether that is one of the image's."""
    rank: float
    """From 1, of the best of the image's captions."""


@dataclass(frozen=True)
class _Example:
    image: str
    """Its id."""
    picture: bytes
    """A JPEG; empty where it may not be shown."""
    truth: str
    """The image's first caption."""
    answers: tuple[_Answer, ...]


def _examples(spec: FigureSpec, images: int, material: Material) -> list[_Example]:
    """Test images evenly spaced over those that the protocol ranks, with the answers of the first seed of each run."""
    records = [material.records[run][0] for run in spec.runs]
    for record in records:
        require_intact(Path(record.spec.evaluation), "embeddings.npz")
    found = scores(records, spec.under, same=TEST_IMAGES)[0]
    pictures = Pictures(Path(records[0].spec.pictures))
    folds = protocol_folds(spec.under, len(pictures), found["fold_size"])
    chosen = np.unique(np.linspace(0, folds[-1].stop - 1, images).round().astype(int))
    answers = [_answers(record, spec.under, chosen, folds, pictures.texts) for record in records]
    return [
        _Example(
            image=str(pictures.images[image]["id"]),
            picture=pictures.jpeg(image) if spec.photographs else b"",
            truth=pictures.images[image]["captions"][0][1],
            answers=tuple(answer[place] for answer in answers),
        )
        for place, image in enumerate(chosen)
    ]


def _answers(
    record: Record, protocol: str, chosen: np.ndarray, folds: list[slice], texts: list[str]
) -> list[_Answer]:
    embeddings = Embeddings.load(Path(record.spec.evaluation) / "embeddings.npz")
    ranks, _ = read_ranks(record, protocol)
    score, owner, found = scorer(embeddings.similarity), embeddings.caption_to_image, []
    for image in chosen:
        fold = next(fold for fold in folds if fold.start <= image < fold.stop)
        near = np.flatnonzero((owner >= fold.start) & (owner < fold.stop))
        values = score(embeddings.image_embeddings[image : image + 1], embeddings.caption_embeddings[near])[0]
        top = int(near[np.argmax(values)])
        found.append(_Answer(texts[top], bool(owner[top] == image), 1 + float(ranks.i2t[image])))
    return found


def _told(spec: FigureSpec, example: _Example) -> list[tuple[str, str]]:
    """What stands beside a picture: heads and captions."""
    told = [
        (f"{label}: rank {answer.rank:g}{' ✓' if answer.right else ''}", answer.caption)
        for label, answer in zip(spec.labels, example.answers, strict=True)
    ]
    return [*told, ("True", example.truth)]


def _write(figure: Figure, left: float, top: float, lines: list[str], **look: Any) -> None:
    """Lines of text, from inches from the left and from the top."""
    width, height = figure.get_size_inches()
    for place, line in enumerate(lines):
        y = 1 - (top + place * _LINE / 72) / height
        figure.text(left / width, y, line, va="top", fontsize=6.5, **look)


def _picture(figure: Figure, example: _Example, left: float, top: float) -> None:
    width, height = figure.get_size_inches()
    place = (left / width, 1 - (top + _SIDE) / height, _SIDE / width, _SIDE / height)
    axis = figure.add_axes(place, xticks=[], yticks=[], anchor="NW")
    axis.grid(False)
    axis.spines[:].set_visible(True)
    axis.spines[:].set_linewidth(0.4)
    if example.picture:
        with Image.open(io.BytesIO(example.picture), formats=["JPEG"]) as picture:
            axis.imshow(np.asarray(picture))
    else:
        name = "\n".join(textwrap.wrap(f"image {example.image}", 16))
        axis.text(0.5, 0.5, name, transform=axis.transAxes, ha="center", va="center", fontsize=6)
