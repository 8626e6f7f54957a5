"""What figures draw of losses, computed by the code that trains: over negatives in a plane, or GOAL's weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from vsepp import components
from vsepp.errors import VseppError
from vsepp.losses import Batch
from vsepp.spec import Component, FigureDataSpec

# Scores of a pair that no negative reaches, and of a negative that violates no margin.
_FAR = 1e6
_POINTS = {"triplet": 101, "pair": 201}


def compute(spec: FigureDataSpec) -> dict[str, Any]:
    """The data of a figure, for JSON; see `compare_losses` and `sample_weights`.

    Raises
    ------
    VseppError
        On an unknown loss, or one that has no such weights.
    """
    return {"constellations": compare_losses, "weights": sample_weights}[spec.kind](spec)


def compare_losses(spec: FigureDataSpec) -> dict[str, Any]:
    """Each loss of an image at the origin over each set of captions, as in Figure 1; the similarity is the negative distance.

    Returns
    -------
    dict
        `positive`; `margins`, of each loss; `panels`, for each set of negatives its `negatives` and `losses`.
    """
    options = [components.options("loss", loss) for loss in spec.losses]
    panels = [
        {"negatives": points, "losses": [_loss(loss, spec.positive, points) for loss in spec.losses]}
        for points in spec.negatives
    ]
    return {"positive": spec.positive, "margins": [one.margin for one in options], "panels": panels}


def _loss(loss: Component, positive: tuple[float, ...], negatives: tuple[tuple[float, ...], ...]) -> float:
    scores = -np.linalg.norm([positive, *negatives], axis=1)
    # The other pairs are there for their captions alone: as images they are no hard negatives of the positive.
    square = np.full((len(scores), len(scores)), -_FAR)
    np.fill_diagonal(square, _FAR)
    square[0] = scores
    module = components.load("loss", loss.name)
    found = module.loss(torch.from_numpy(square), components.options("loss", loss), Batch(queries=1))
    return float(found)


def sample_weights(spec: FigureDataSpec) -> dict[str, Any]:
    """GOAL's weights at similarities from 0 to 1, as its Figures 2 and 3 show them.

    Returns
    -------
    dict
        `similarities`; of triplets `weights`, for each loss a list per similarity of the negative, over that of the
        positive; of pairs `positive` and `negative`, for each loss a list.
    """
    similarities = torch.linspace(0, 1, _POINTS[spec.of], dtype=torch.float64)
    found: dict[str, Any] = {"similarities": similarities.tolist()}
    for loss in spec.losses:
        module, options = components.load("loss", loss.name), components.options("loss", loss)
        if not hasattr(module, f"{spec.of}_weight{'s' if spec.of == 'pair' else ''}"):
            raise VseppError(
                f"figure of kind weights: loss {loss.name!r} has no {spec.of} weights; expected goal"
            )
        if spec.of == "triplet":
            n, p = torch.meshgrid(similarities, similarities, indexing="ij")
            found.setdefault("weights", []).append(module.triplet_weight(p, n, options).tolist())
        else:
            both = module.pair_weights(similarities, similarities, options, spec.others, spec.others)
            for name, weights in zip(("positive", "negative"), both, strict=True):
                found.setdefault(name, []).append(weights.tolist())
    return found
