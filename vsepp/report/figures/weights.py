"""Weights of triplets or pairs over their similarities, as GOAL has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic.dataclasses import dataclass

from vsepp.base import components
from vsepp.base.declared import STRICT
from vsepp.base.errors import VseppError
from vsepp.report.figures.base import FigureOfLosses
from vsepp.report.pairing import Material
from vsepp.report.plots import Description, legend, read_data

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

CITATION = "Xuan and Chen (2023), GOAL, Figures 2 and 3"
_POINTS = {"triplet": 101, "pair": 201}
_FUNCTIONS = {"triplet": "triplet_weight", "pair": "pair_weights"}
"""Kind of weights → a loss's function that gives them."""
_TICKS = (0, 0.5, 1)
_TOLD = ((0.6, 0.3), (0.5, 0.5), (0.9, 0.9), (0.3, 0.6))
"""Similarities of positive and negative at which the text alternative tells the weights."""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Figure(FigureOfLosses):
    """Weights of losses."""

    height: ClassVar[float] = 2.0

    kind: Literal["weights"]
    of: Literal["triplet", "pair"]
    """Weights of triplets, or those of positive and negative pairs."""
    others: float = 0.0
    """Pairs: m₊ and m₋, the mean over the other pairs."""

    def compute(self) -> dict[str, Any]:
        """Weights of each loss at similarities from 0 to 1, computed by the code that trains.

        Returns
        -------
        dict
            `similarities`; for triplets `weights`, for each loss a list per similarity of the negative, over similarities of
            the positive; for pairs `positive` and `negative`, for each loss a list.

        Raises
        ------
        VseppError
            If a loss has no such weights.
        """
        import torch  # not at the top: reports are drawn without it

        similarities = torch.linspace(0, 1, _POINTS[self.of], dtype=torch.float64)
        data: dict[str, Any] = {"similarities": similarities.tolist()}
        for loss in self.losses:
            module, of_loss = components.load("loss", loss.name), components.options("loss", loss)
            if not hasattr(module, _FUNCTIONS[self.of]):
                raise VseppError(
                    f"figure weights: loss {loss.name!r} has no {self.of} weights; expected goal"
                )
            if self.of == "triplet":
                n, p = torch.meshgrid(similarities, similarities, indexing="ij")
                data.setdefault("weights", []).append(module.triplet_weight(p, n, of_loss).tolist())
            else:
                both = module.pair_weights(similarities, similarities, of_loss, self.others, self.others)
                for name, weights in zip(("positive", "negative"), both, strict=True):
                    data.setdefault(name, []).append(weights.tolist())
        return data

    def draw(self, canvas: Canvas, material: Material) -> Description:
        """A panel a loss: weights of triplets over both similarities, or of positive and of negative pairs over one."""
        draw = _draw_triplets if self.of == "triplet" else _draw_pairs
        return draw(canvas, self.labels, read_data(material))


def _draw_triplets(canvas: Canvas, labels: Sequence[str], data: dict[str, list]) -> Description:
    axes, description = canvas.subplots(1, len(labels), squeeze=False, sharey=True)[0], Description()
    for axis, label, weights in zip(axes, labels, data["weights"], strict=True):
        values = np.asarray(weights)
        shown = axis.imshow(
            values,
            origin="lower",
            extent=(0, 1, 0, 1),
            vmin=0,
            vmax=1,
            cmap="Greens",
            interpolation="nearest",
        )
        axis.set(title=label, xlabel="positive", xticks=_TICKS, yticks=_TICKS)
        axis.grid(False)
        steps = len(values) - 1
        examples = [f"{values[round(n * steps), round(p * steps)]:.3g} at {p:g} and {n:g}" for p, n in _TOLD]
        description.alt.append(f"{label}, at similarities of positive and negative: {'; '.join(examples)}.")
    axes[0].set_ylabel("negative")
    canvas.colorbar(shown, ax=list(axes), shrink=0.7)
    return description


def _draw_pairs(canvas: Canvas, labels: Sequence[str], data: dict[str, list]) -> Description:
    axes, description = canvas.subplots(1, len(labels), squeeze=False)[0], Description()
    for place, (axis, label) in enumerate(zip(axes, labels, strict=True)):
        ends = []
        for colour, dashes, side in zip(("C0", "C1"), ("-", "--"), ("positive", "negative"), strict=True):
            values = data[side][place]
            axis.plot(
                data["similarities"], values, color=colour, linestyle=dashes, marker="", label=f"{side} pair"
            )
            ends.append(f"{side} from {values[0]:.2f} to {values[-1]:.2f}")
        axis.set(title=label, xlabel="similarity", xticks=_TICKS)
        axis.set_ylim(bottom=0)
        description.alt.append(f"{label}, over similarities from 0 to 1: {'; '.join(ends)}.")
    axes[0].set_ylabel("weight")
    legend(canvas, axes[0])
    return description
