"""Test images with the captions that two runs rank first."""

from __future__ import annotations

import io
import math
import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from vsepp.evaluation.protocols import protocol_folds
from vsepp.reporting.answers import Answers
from vsepp.reporting.plots import Material, Said, empty_panel
from vsepp.reporting.records import TEST_IMAGES, Record, read_ranks, scores, trouble_of
from vsepp.reporting.report_specs import FigureSpec

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
    records = [seeds[0] for seeds in material.shown(spec.runs).values()]
    if len(records) < len(spec.runs) or not all(record.spec.pictures for record in records):
        why = "no captions" if len(records) == len(spec.runs) else "not run"
        empty_panel(figure.subplots(), why)
        return said
    examples = _examples(spec, options.images, records)
    columns = 2 if width > 5 else 1
    figure.set_size_inches(width, _CELL * math.ceil(len(examples) / columns))
    figure.set_layout_engine("none")
    for place, example in enumerate(examples):
        row, column = divmod(place, columns)
        # Inches from the left and from the top.
        left, top = column * width / columns + _SPACE, row * _CELL + _SPACE
        _draw_picture(figure, example, left, top)
        for block, (head, text) in enumerate(example.captions):
            at = top + block * (_LINES + 1.15) * _LINE / 72
            _write(figure, left + _SIDE + 0.08, at, [head], fontweight="bold")
            lines = textwrap.wrap(text, _WRAP, max_lines=_LINES, placeholder=" …")
            _write(figure, left + _SIDE + 0.08, at + _LINE / 72, lines)
        told = "; ".join(f"{head}: {text.rstrip('.')}" for head, text in example.captions)
        said.alt.append(f"Image {example.image}: {told}.")
    kind = "Test images" if spec.photographs else "Test images, by their ids,"
    said.caption.append(
        f"{kind} evenly spaced over those of protocol {spec.under}, first and last among them, the same for both "
        f"models, of seed {records[0].spec.seed}; with the caption that each ranks first, ✓ where it is one of the image's, and "
        "the rank of the image's best-ranked caption. True: the image's first caption."
    )
    if bad := {run: why for run in spec.runs if (why := trouble_of(material.records[run], spec.under))}:
        said.caption.append("; ".join(f"{run} {why}" for run, why in bad.items()) + ".")
    return said


@dataclass(frozen=True)
class _Example:
    image: str
    """Its id."""
    picture: bytes
    """A JPEG; empty where it may not be shown."""
    captions: list[tuple[str, str]]
    """What stands beside it: a head, and the caption that each model scores highest in the image's fold, then a true one."""


def _examples(spec: FigureSpec, images: int, records: list[Record]) -> list[_Example]:
    """Test images evenly spaced over those that the protocol ranks, with the answers of each model."""
    answers = [Answers(record) for record in records]
    ranks = [read_ranks(record, spec.under)[0] for record in records]
    pictures, texts = answers[0].pictures, answers[0].pictures.texts
    fold_size = scores(records, spec.under, same=TEST_IMAGES)[0]["fold_size"]
    folds = protocol_folds(spec.under, len(pictures), fold_size)
    examples = []
    for image in np.unique(np.linspace(0, folds[-1].stop - 1, images).round().astype(int)):
        fold = next(fold for fold in folds if fold.start <= image < fold.stop)
        captions = []
        for label, model, of_model in zip(spec.labels, answers, ranks, strict=True):
            (first,) = model.captions(image, fold, 1)
            right = " ✓" if model.embeddings.caption_to_image[first] == image else ""
            captions.append((f"{label}: rank {1 + of_model.i2t[image]:g}{right}", texts[first]))
        truth = pictures.images[image]["captions"][0][1]
        picture = pictures.jpeg(image) if spec.photographs else b""
        examples.append(_Example(str(pictures.images[image]["id"]), picture, [*captions, ("True", truth)]))
    return examples


def _write(figure: Figure, left: float, top: float, lines: list[str], **look: Any) -> None:
    """Lines of text, from inches from the left and from the top."""
    width, height = figure.get_size_inches()
    for place, line in enumerate(lines):
        y = 1 - (top + place * _LINE / 72) / height
        figure.text(left / width, y, line, va="top", fontsize=6.5, **look)


def _draw_picture(figure: Figure, example: _Example, left: float, top: float) -> None:
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
