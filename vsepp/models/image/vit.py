"""A small vision transformer for generated scenes, which plays ViT-B/16 there.

Like ViT-B/16, its feature is the class token after the last layer normalisation. Its patches go through convolutions
first (Xiao et al., 2021); without these, some thousand images are too few for it to learn from.
"""

from __future__ import annotations

from torchvision.models.vision_transformer import ConvStemConfig, VisionTransformer

from vsepp.models.encoder import CutNetwork
from vsepp.models.image.torchvision import cut

_PATCH = 8
_STEM = (16, 32, 64)


def architectures() -> list[str]:
    """Names that `build` knows."""
    return ["vit_mini"]


def build(name: str, input_size: int, options: object = None) -> CutNetwork:
    """Make the network `name` with random weights, under torch's seed; its position embeddings fit one input size only."""
    return cut(
        VisionTransformer(
            image_size=input_size,
            patch_size=_PATCH,
            num_layers=2,
            num_heads=4,
            hidden_dim=128,
            mlp_dim=256,
            conv_stem_configs=[ConvStemConfig(width, 3, 2) for width in _STEM],
        )
    )
