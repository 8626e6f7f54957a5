"""CLIP and SigLIP of transformers, versions 4 and 5, by a folder or a name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers import AutoModel, AutoProcessor


class Model:
    """Embeddings of norm 1. SigLIP was trained on captions padded to its full length, 64 tokens."""

    def __init__(self, model: str) -> None:
        self.processor = AutoProcessor.from_pretrained(model)
        self.model = (
            AutoModel.from_pretrained(model).eval().to("cuda" if torch.cuda.is_available() else "cpu")
        )
        config = self.model.config
        self.padding = "max_length" if "siglip" in config.model_type else True
        self.length = config.text_config.max_position_embeddings

    def embed_images(self, files: Sequence[Path]) -> np.ndarray:
        """`(n, d)` float32."""
        images = [Image.open(file).convert("RGB") for file in files]
        return self._rows(self.model.get_image_features, images=images)

    def embed_captions(self, texts: Sequence[str]) -> np.ndarray:
        """`(n, d)` float32."""
        options = {"padding": self.padding, "max_length": self.length, "truncation": True}
        return self._rows(self.model.get_text_features, text=list(texts), **options)

    @torch.inference_mode()
    def _rows(self, features: Any, **given: Any) -> np.ndarray:
        found = features(**self.processor(return_tensors="pt", **given).to(self.model.device))
        rows = getattr(found, "pooler_output", found)  # version 4 gives the tensor
        return torch.nn.functional.normalize(rows.float()).cpu().numpy()
