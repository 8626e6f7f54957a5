"""Canonical correlation analysis: images and captions are mapped to the directions in which they correlate most."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from vsepp.declared import PositiveFloat, PositiveFloats
from vsepp.training.closed_form import Maps, Moments, factor

CITATION = "Gong, Ke, Isard and Lazebnik, 2014: A multi-view embedding space for modeling internet images, tags, and their semantics"


@dataclass(frozen=True)
class Options:
    """Options of canonical correlation analysis."""

    alphas: PositiveFloats = (0.001, 0.01, 0.1, 1.0, 10.0)
    """α to choose from by rsum on validation, added to the variances of images and of captions, in units of the mean variance of each."""
    power: PositiveFloat = 4.0
    """Power of its canonical correlation that scales a direction. Gong et al.: 4."""


def solve(moments: Moments, alpha: float, dim: int, options: Options) -> Maps:
    """The `dim` directions of highest canonical correlation ρ, centred and scaled by ρ^power.

    With C + α v I = L Lᵀ of each covariance C, they are the singular vectors of Lᵢ⁻¹ Cᵢc Lc⁻ᵀ, and ρ its singular values.
    """
    mean, covariance, d = moments
    inverses = [torch.linalg.inv(factor(part, alpha)) for part in (covariance[:d, :d], covariance[d:, d:])]
    white = inverses[0] @ covariance[:d, d:] @ inverses[1].T
    left, correlations, right = torch.linalg.svd(white, full_matrices=False)
    scale = correlations[:dim, None] ** options.power
    images, captions = scale * (left.T[:dim] @ inverses[0]), scale * (right[:dim] @ inverses[1])
    return images, -images @ mean[:d], captions, -captions @ mean[d:]
