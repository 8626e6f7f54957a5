"""Test images with the captions that two runs rank first."""

from __future__ import annotations

import math
import textwrap
from itertools import product
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from vsepp.base.declared import STRICT, Count
from vsepp.report import text
from vsepp.report.answers import Answers
from vsepp.report.figures.base import FigureOfScores
from vsepp.report.models import MeasuredModel, Models
from vsepp.report.pairing import Material, pair
from vsepp.report.plots import Description, empty_panel

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

CITATION = "Faghri et al. (2018), VSE++, Figure 3"
_WRAP, _LINES = 46, 2
# Inches: height of a cell, side of its picture, space around it; points: from line to line.
_CELL, _SIDE, _SPACE, _LINE = 1.18, 1.0, 0.06, 8.2


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Figure(FigureOfScores):
    """A cell per test image."""

    kind: Literal["examples"]
    runs: Annotated[tuple[str, ...], Field(min_length=2, max_length=2)]
    """Run ids, in the order of the labels."""
    images: Count = 6
    """How many test images, evenly spaced."""

    @property
    def named(self) -> tuple[str, ...]:
        """Run ids."""
        return self.runs

    def draw(self, canvas: Canvas, material: Material) -> Description:
        """A cell per test image: picture, the caption that each model ranks first with the rank of the best true one, a true one."""
        description, width = Description(), canvas.get_size_inches()[0]
        models, why = self._of_one_seed(material.models)
        if why:
            empty_panel(canvas.subplots(), why)
            return description
        answers = [Answers(model, self.protocol) for model in models]
        photographs = self.dataset in material.report.photographs
        # Evenly spaced over the images that the protocol ranks.
        spaced = np.linspace(0, len(answers[0].queries["i2t"]) - 1, self.images)
        places = np.unique(spaced.round().astype(int)).tolist()
        columns = 2 if width > 5 else 1
        canvas.set_size_inches(width, _CELL * math.ceil(len(places) / columns))
        canvas.set_layout_engine("none")
        for cell, place in enumerate(places):
            row, column = divmod(cell, columns)
            # Inches from the left and from the top.
            left, top = column * width / columns + _SPACE, row * _CELL + _SPACE
            of_models = [model.answer("i2t", place, 1) for model in answers]
            image = of_models[0].query
            _draw_picture(canvas, image.jpeg if photographs else b"", image.words, left, top)
            captions = [
                (
                    f"{label}: rank {text.rank(answer.rank)}{' ✓' * answer.answers[0].right}",
                    answer.answers[0].words,
                )
                for label, answer in zip(self.labels, of_models, strict=True)
            ]
            captions.append(("True", answers[0].own_caption(place)))
            _write_captions(canvas, captions, left + _SIDE + 0.08, top)
            sentences = "; ".join(f"{head}: {words.rstrip('.')}" for head, words in captions)
            description.alt.append(f"Image {image.words}: {sentences}.")
        kind = "Test images" if photographs else "Test images, by their ids,"
        description.caption.append(
            f"{kind} evenly spaced over protocol {self.protocol}, including the first and the last, the same for both models; "
            f"{text.seeds([models[0].seed])}. Beside each: the caption that a model ranks first (✓: it belongs to the image), and the rank "
            "of the image's best caption. True: the image's first caption."
        )
        if trouble := material.trouble(self.runs):
            description.caption.append("; ".join(f"{run} {why}" for run, why in trouble.items()) + ".")
        return description

    def _of_one_seed(self, models: Models) -> tuple[list[MeasuredModel], str]:
        """The models of the first seed that both runs have, sound where the run has sound seeds; or why nothing is drawn."""
        if any(run not in models for run in self.runs):
            return [], "not run"
        sides = pair({run: models[run] for run in self.runs}, self.protocol).models.values()
        for of_both in product(*sides):
            if len({model.seed for model in of_both}) == 1:
                return list(of_both), "" if all(model.pictures for model in of_both) else "no captions"
        return [], "no seed common to both"


def _write_captions(canvas: Canvas, captions: list[tuple[str, str]], left: float, top: float) -> None:
    """Heads and texts below each other, from inches from the left and from the top."""
    width, height = canvas.get_size_inches()
    for block, (head, words) in enumerate(captions):
        lines = textwrap.wrap(words, _WRAP, max_lines=_LINES, placeholder=" …")
        for place, line in enumerate([head, *lines]):
            y = 1 - (top + (block * (_LINES + 1.15) + place) * _LINE / 72) / height
            weight = "normal" if place else "bold"
            canvas.text(left / width, y, line, va="top", fontsize=6.5, fontweight=weight)


def _draw_picture(canvas: Canvas, jpeg: bytes, name: str, left: float, top: float) -> None:
    """An image's picture, or its id where there is none."""
    width, height = canvas.get_size_inches()
    place = (left / width, 1 - (top + _SIDE) / height, _SIDE / width, _SIDE / height)
    axis = canvas.add_axes(place, xticks=[], yticks=[], anchor="NW")
    axis.grid(False)
    axis.spines[:].set(visible=True, linewidth=0.4)
    if jpeg:
        from vsepp.data.pictures import read_picture

        axis.imshow(np.asarray(read_picture(jpeg, f"the picture of image {name}", upright=False).rgb))
    else:
        words = "\n".join(textwrap.wrap(f"image {name}", 16))
        axis.text(0.5, 0.5, words, transform=axis.transAxes, ha="center", va="center", fontsize=6)
