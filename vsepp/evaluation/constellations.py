"""Losses of a query over sets of negatives in a plane, as in Figure 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from vsepp import components
from vsepp.losses import Batch
from vsepp.spec import Component, ConstellationsSpec

# Scores of a pair that no negative reaches, and of a negative that violates no margin.
_FAR = 1e6


def compare_losses(spec: ConstellationsSpec) -> dict[str, Any]:
    """Each loss of an image at the origin over each set of captions; the similarity is the negative distance.

    Returns
    -------
    dict
        `positive`; `margins`, of each loss; `panels`, for each set of negatives its `negatives` and `losses`.

    Raises
    ------
    VseppError
        On an unknown loss.
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
