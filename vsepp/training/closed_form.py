"""A run whose maps are computed from all training pairs at once, on two frozen encoders, instead of trained by steps."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from vsepp import components
from vsepp.errors import VseppError
from vsepp.evaluation.encode import encode_split
from vsepp.evaluation.metrics import retrieval_metrics
from vsepp.evaluation.ranks import retrieval_ranks
from vsepp.models.joint import JointEmbedding, l2_normalise
from vsepp.provenance.publish import publish
from vsepp.spec import RunSpec, to_json
from vsepp.training.data import TrainingData
from vsepp.training.history import EpochRecord, write_history

Moments = tuple[torch.Tensor, torch.Tensor, int]
"""Mean `(D_φ + D_ψ,)` and covariance of pairs, an image's feature beside a caption's state, float64; and D_φ."""
Maps = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
"""W `(dim, D_φ)` and b `(dim,)` of images' features, W `(dim, D_ψ)` and b of captions' states."""


def factor(covariance: torch.Tensor, alpha: float) -> torch.Tensor:
    """Cholesky's factor of C + α v I, where v is the mean variance: α means the same at any scale."""
    return torch.linalg.cholesky(covariance + alpha * covariance.diag().mean() * torch.eye(len(covariance)))


def fit(run: RunSpec, data: TrainingData, out: Path, state: Path, text_weights: Path | None) -> dict:
    """Fit a run on the CPU with each α, and publish the model with the best sum of recalls on validation.

    As `vsepp.training.loop.train`, but `text_weights` is the text encoder's file, and the history's one row has loss and rate 0.
    """
    started = time.monotonic()
    assert run.fit  # other runs are trained
    solve, options = components.load("fit", run.fit.name).solve, components.options("fit", run.fit)
    model = JointEmbedding(run.model, data.feature_dim, data.vocabulary_size)
    model.text.start(text_weights)
    moments = _moments(model, data)
    maps = {alpha: solve(moments, alpha, run.model.joint_dim, options) for alpha in options.alphas}
    tried = {alpha: _recalls(_put(maps[alpha], model), data) for alpha in maps}
    best = max(tried, key=lambda alpha: tried[alpha]["rsum"])
    state.mkdir(parents=True, exist_ok=True)
    save_file(_put(maps[best], model).state_dict(), state / "model.safetensors")
    seconds = time.monotonic() - started
    speed = {"seconds": seconds, "pairs_per_second": len(data.pairs) / seconds}
    write_history(state / "history.csv", [EpochRecord(1, 0.0, 0.0, **tried[best], **speed, collapsed=0)])
    (state / "config.json").write_text(to_json(run) + "\n", encoding="utf-8")
    publish({state / name: out / name for name in ("model.safetensors", "history.csv", "config.json")})
    rsums = {f"{alpha:g}": recalls["rsum"] for alpha, recalls in tried.items()}
    facts = {"best_epoch": 1, "best_rsum": tried[best]["rsum"], "epochs": 1, "device": "cpu", **speed}
    return {"alpha": best, "rsum_by_alpha": rsums, **facts}


def _moments(model: JointEmbedding, data: TrainingData) -> Moments:
    """Moments of the features of images and the mean states of captions, as the model maps them; a pair counts once."""
    assert model.caption_pooling  # as config checks
    total = torch.zeros(())
    for chosen in np.array_split(np.arange(len(data.pairs)), -(-len(data.pairs) // 1024)):
        features = data.train_inputs(chosen, 0).values.float().cpu()
        states = model.caption_pooling(*map(torch.from_numpy, data.captions.padded(data.pairs[chosen])))
        of_images = l2_normalise(features) if model.spec.normalise_features else features
        # With a column of ones, the products hold the sums.
        rows = torch.cat([of_images, states, torch.ones(len(chosen), 1)], dim=1).double()
        total = total + rows.T @ rows
    mean, second = total[-1, :-1] / total[-1, -1], total[:-1, :-1] / total[-1, -1]
    return mean, second - mean.outer(mean), data.feature_dim


def _put(maps: Maps, model: JointEmbedding) -> JointEmbedding:
    """Copy maps into the image head, and into the map of the caption's states, which commutes with their mean."""
    parameters = [*model.image_map.parameters(), *model.text.linear.parameters()]
    for parameter, value in zip(parameters, maps, strict=True):
        if parameter.shape != value.shape:
            sizes = f"got {tuple(value.shape)}, expected {tuple(parameter.shape)}"
            raise VseppError(f"a fit gives a map of another size: {sizes}; change joint_dim and text.dim")
        parameter.data.copy_(value)
    return model


def _recalls(model: JointEmbedding, data: TrainingData) -> dict[str, float]:
    inputs = data.eval_inputs, data.captions, data.validation
    return retrieval_metrics(retrieval_ranks(encode_split(model, *inputs, torch.device("cpu")))).recalls
