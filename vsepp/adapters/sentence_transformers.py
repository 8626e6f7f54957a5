"""Models of sentence-transformers that embed pictures too, such as clip-ViT-B-32, by a folder or a name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from sentence_transformers import SentenceTransformer


class Model:
    """Embeddings of norm 1."""

    def __init__(self, model: str) -> None:
        self.model = SentenceTransformer(model)

    def embed_images(self, files: Sequence[Path]) -> np.ndarray:
        """`(n, d)` float32."""
        return self.embed_captions([Image.open(file).convert("RGB") for file in files])

    def embed_captions(self, texts: Sequence[Any]) -> np.ndarray:
        """`(n, d)` float32."""
        return self.model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)
