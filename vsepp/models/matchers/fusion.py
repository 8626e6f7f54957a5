"""X-VLM's fusion: a caption's states attend to each other and to the image's vectors, and the first one says whether they match."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from vsepp.base.declared import Count, Fraction, PositiveFloat
from vsepp.base.errors import VseppError
from vsepp.models.transformer import Layer, initialise

CITATION = (
    "Zeng, Zhang and Li, 2022: Multi-grained vision language pre-training: aligning texts with visual concepts; "
    "Li, Selvaraju, Gotmare et al., 2021: Align before fuse"
)


@dataclass(frozen=True)
class Options:
    """Sizes, and how it is trained and used; the defaults are X-VLM's on COCO."""

    layers: Count = 6
    """Layers of self-attention and cross-attention."""
    heads: Count = 12
    """Attention heads of a layer, a divisor of the text encoder's `dim`."""
    intermediate: Count = 3072
    """Size of the inner state of a layer's two-layer network."""
    dropout: Fraction = 0.1
    """Dropout in training, of states and of attention."""
    k: Count = 256
    """How many captions of an image, and images of a caption, are re-ranked. Text, code of X-VLM: 256 on COCO, 128 on Flickr30K."""
    weight: PositiveFloat = 1.0
    """Weight of the matching loss, 2n times its mean for n pairs, beside the loss of the embeddings. Code of X-VLM: 1, of two means."""
    temperature: PositiveFloat | None = 0.07
    """Scores are divided by it before negatives are drawn in proportion to their softmax; null: by the temperature that the loss of the
    embeddings trains. Code of X-VLM: the trained temperature of its contrastive loss, which starts a pre-training at .07."""
    drawn_from: Count | None = None
    """Pairs, one after another, among which the negatives of each are drawn; null: the batch. Code of X-VLM: the 20 of a process."""
    before_maps: bool = False
    """The layers attend to images' vectors before the image head, as in X-VLM, instead of the head's output."""


class Matcher(nn.Module):
    """Layers of BERT with cross-attention to the image's vectors, with the vectors' mean in front.

    Parameters
    ----------
    image_dim
        Size of an image's vector.
    caption_dim
        Size of a token's state, and of a layer's state.
    options
        See `Options`.

    Raises
    ------
    VseppError
        If the number of heads does not divide `caption_dim`.
    """

    def __init__(self, image_dim: int, caption_dim: int, options: Options = Options()) -> None:
        super().__init__()
        if caption_dim % options.heads:
            raise VseppError(
                f"matcher fusion: got {options.heads} heads; expected a divisor of the text encoder's dim, {caption_dim}"
            )
        sizes = caption_dim, options.heads, options.intermediate, options.dropout
        self.layer = nn.ModuleList(Layer(*sizes, source=image_dim) for _ in range(options.layers))
        self.head = nn.Sequential(
            nn.Linear(caption_dim, 2 * caption_dim),
            nn.LayerNorm(2 * caption_dim),
            nn.GELU(),
            nn.Linear(2 * caption_dim, 2),
        )
        self.layer.apply(initialise)

    def forward(
        self, images: torch.Tensor, image_mask: torch.Tensor, states: torch.Tensor, state_mask: torch.Tensor
    ) -> torch.Tensor:
        """Logits `(n, 2)`; arguments as `vsepp.models.matchers` says."""
        mask = image_mask[:, :, None]
        mean = images.masked_fill(~mask, 0.0).sum(dim=1, keepdim=True) / mask.sum(dim=1, keepdim=True)
        images = torch.cat([mean, images], dim=1)
        image_mask = torch.cat([image_mask[:, :1], image_mask], dim=1)  # a set has a first vector
        for layer in self.layer:
            last = layer is self.layer[-1]
            states = layer(states, state_mask, images, image_mask, first=last)
        return self.head(states[:, 0])
