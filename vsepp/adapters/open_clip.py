"""Models of open_clip: `ViT-B-32,laion2b_s34b_b79k` (weights by tag or file; random without), `local-dir:FOLDER`, `hf-hub:NAME`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import open_clip
import torch
from PIL import Image


class Model:
    """Embeddings of norm 1."""

    def __init__(self, model: str) -> None:
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        name, _, weights = (model, "", "") if ":" in model else model.partition(",")
        made = open_clip.create_model_and_transforms(name, weights or None, device=self.device)
        self.model, self.transform = made[0].eval(), made[2]
        self.tokenizer = open_clip.get_tokenizer(name)

    @torch.inference_mode()
    def embed_images(self, files: Sequence[Path]) -> np.ndarray:
        """`(n, d)` float32."""
        pixels = torch.stack([self.transform(Image.open(file).convert("RGB")) for file in files])
        return self.model.encode_image(pixels.to(self.device), normalize=True).cpu().numpy()

    @torch.inference_mode()
    def embed_captions(self, texts: Sequence[str]) -> np.ndarray:
        """`(n, d)` float32."""
        return self.model.encode_text(self.tokenizer(texts).to(self.device), normalize=True).cpu().numpy()
