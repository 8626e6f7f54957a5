"""Training steps whose embeddings are computed in bf16, but for a GPU's GRU; see `vsepp.models.precision`."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch

from vsepp.models.joint import JointEmbedding


def in_bf16(device: torch.device, wanted: bool = True) -> AbstractContextManager:
    """Autocast to bf16 on a device, or nothing where it is not wanted."""
    return torch.autocast(device.type, torch.bfloat16, enabled=wanted)


class EmbeddingInBf16:
    """A model that embeds in bf16 and gives embeddings and scores in fp32, for `train_step`.

    Parameters
    ----------
    model
        Its weights stay in fp32.
    device
        Where it is.
    """

    def __init__(self, model: JointEmbedding, device: torch.device) -> None:
        self.scores = model.scores
        self._model = model
        self._device = device

    def embed_images(self, images: torch.Tensor) -> torch.Tensor:
        """As the model's, fp32 `(n, joint_dim)`."""
        with in_bf16(self._device):
            return self._model.embed_images(images).float()

    def embed_captions(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """As the model's, fp32 `(n, joint_dim)`."""
        with in_bf16(self._device):
            return self._model.embed_captions(ids, lengths).float()
