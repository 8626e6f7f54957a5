"""GOAL's weights over similarities, as its Figures 2 and 3 show them, computed by the code that trains."""

from __future__ import annotations

from typing import Any

import torch

from vsepp import components
from vsepp.errors import VseppError
from vsepp.spec import WeightsSpec

_POINTS = {"triplet": 101, "pair": 201}


def sample_weights(spec: WeightsSpec) -> dict[str, Any]:
    """Weights at similarities from 0 to 1.

    Returns
    -------
    dict
        `similarities`; of triplets `weights`, for each loss a list per similarity of the negative, over that of the
        positive; of pairs `positive` and `negative`, for each loss a list.

    Raises
    ------
    VseppError
        On an unknown loss, or one without such weights.
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
