"""Ridge regression from images' features to captions' states, which are not mapped: `joint_dim` is their size."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from vsepp.declared import PositiveFloats
from vsepp.training.closed_form import Maps, Moments, factor

CITATION = "Hoerl and Kennard, 1970: Ridge regression: biased estimation for nonorthogonal problems"


@dataclass(frozen=True)
class Options:
    """Options of ridge regression."""

    alphas: PositiveFloats = (0.001, 0.01, 0.1, 1.0, 10.0)
    """α to choose from by rsum on validation, in units of the mean variance of an image's feature."""


def solve(moments: Moments, alpha: float, dim: int, options: Options) -> Maps:
    """The least mean of ‖W φ + b − ψ‖² over the pairs, plus α v ‖W‖², where v is the mean variance of a feature."""
    mean, covariance, d = moments
    weight = torch.cholesky_solve(covariance[:d, d:], factor(covariance[:d, :d], alpha)).T
    return weight, mean[d:] - weight @ mean[:d], torch.eye(len(weight)), torch.zeros(len(weight))
