"""The joint embedding of images and captions (Section 2.2, Eqs. 1–3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from vsepp.base import components
from vsepp.base.errors import VseppError
from vsepp.base.run_spec import ModelSpec, RunSpec
from vsepp.models import weights
from vsepp.models.encoder import ImageEncoder, build_encoder
from vsepp.models.sets import ImageBatch, Sets, take_vectors
from vsepp.models.similarity.common import Similarity

# A shorter vector has no meaningful direction.
SHORTEST = 1e-8
ENCODER_PREFIX, HEAD_PREFIX = "encoder.", "image_map."


class JointEmbedding(nn.Module):
    """f(i) and g(c): maps of an image's feature and of a caption's state into one space.

    Parameters
    ----------
    spec
        Text encoder, sizes, projections, normalisations and similarity.
    feature_dim
        D_φ, size of the CNN's feature.
    vocabulary_size
        Number of words that the text encoder knows, special tokens included.
    encoder
        The image encoder, if it runs inside the model (fine-tuned, or its statistics change); without it the
        model takes precomputed features.

    Raises
    ------
    VseppError
        On an unknown component or option.
    """

    def __init__(
        self, spec: ModelSpec, feature_dim: int, vocabulary_size: int, encoder: ImageEncoder | None = None
    ) -> None:
        super().__init__()
        self.spec = spec
        self.similarity = Similarity(spec.similarity)
        self.feature_dim = feature_dim
        self.image_map = components.make("image head", spec.image_head, feature_dim, spec)
        self.text = components.make("text encoder", spec.text, vocabulary_size)
        self.image_pooling, self.caption_pooling = (
            None if pooling is None else components.make("pooling", pooling)
            for pooling in (spec.image_pooling, spec.caption_pooling)
        )
        text_dim = components.options("text encoder", spec.text).dim
        self.caption_map = None  # W_g
        if spec.caption_projection:
            self.caption_map = nn.Linear(text_dim, spec.joint_dim, bias=spec.caption_bias)
            nn.init.xavier_uniform_(self.caption_map.weight)
            if spec.caption_bias:
                nn.init.zeros_(self.caption_map.bias)
        self.image_map.initialise()
        self.matcher: nn.Module | None = None
        self.matcher_options: Any = None
        if spec.matcher is not None:  # drawn last, so that it changes no other first weight
            self.matcher_options = components.options("matcher", spec.matcher)
            image_dim = feature_dim if self.matcher_options.before_maps else spec.joint_dim
            self.matcher = components.make("matcher", spec.matcher, image_dim, text_dim)
        self.encoder = encoder

    def embed_images(self, images: ImageBatch) -> torch.Tensor:
        """f(i), Eq. 1, in the precision of the weights, of images whose features have any; in sets without lengths all vectors count.

        Returns
        -------
        torch.Tensor
            `(n, joint_dim)`. Not of unit length if `normalise_images` is false (VSE0).
        """
        vectors, lengths, _ = self.image_vectors(images)
        return self.pool_images(vectors, lengths)

    def image_vectors(self, images: ImageBatch) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor]:
        """The image head's output: `(n, D)`, or sets `(n, k, D)` with their lengths; and the sets that a matcher takes."""
        values, lengths = images.values, images.lengths
        if self.encoder is None:
            features = values.to(next(self.parameters()).dtype)
        else:
            features = self.encoder(self.encoder.normalise(values))
        if self.spec.normalise_features:
            features = l2_normalise(features)
        if self.image_pooling is None:
            vectors = self.image_map(features)
            return vectors, None, vectors
        if lengths is None:
            lengths = torch.full((len(features),), features.shape[1])
        elif images.kept is not None:
            features = take_vectors(features, images.kept, lengths)
        vectors = self.image_map(features, lengths)
        before = self.matcher is not None and self.matcher_options.before_maps
        return vectors, lengths, features if before else vectors

    def pool_images(self, vectors: torch.Tensor, lengths: torch.Tensor | None) -> torch.Tensor:
        """f(i) from `image_vectors`: pooled if there is a pooling, then scaled to unit length where the spec says so."""
        embeddings = vectors if self.image_pooling is None else self.image_pooling(vectors, lengths)
        if self.spec.normalise_images:
            embeddings = l2_normalise(embeddings)
        return embeddings.abs() if self.spec.absolute else embeddings

    def embed_captions(self, captions: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """g(c), Eq. 2, always of unit length.

        Parameters
        ----------
        captions
            int64 `(n, longest)`, word indices; or states of a frozen text encoder, as it takes them.
        lengths
            int64 `(n,)` on the CPU, tokens of each caption.

        Returns
        -------
        torch.Tensor
            `(n, joint_dim)`.
        """
        return self.pool_captions(self.text(captions, lengths), lengths)

    def pool_captions(self, states: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """g(c) from the text encoder's states `(n, D_ψ)`, or sets of states `(n, longest, D_ψ)`: pooled if there is a pooling,
        mapped by W_g if there is one, then scaled to unit length."""
        if self.caption_pooling is not None:
            states = self.caption_pooling(states, lengths)
        embeddings = l2_normalise(states if self.caption_map is None else self.caption_map(states))
        return embeddings.abs() if self.spec.absolute else embeddings

    def scores(self, images: torch.Tensor, captions: torch.Tensor) -> torch.Tensor:
        """s(i, c) of every image and caption, Eq. 3: `(n, d)` and `(m, d)` to `scores[image, caption]`."""
        return self.similarity.matrix(images, captions)

    def match(self, images: Sets, captions: Sets) -> torch.Tensor:
        """Logits `(n, 2)` of "no match" and "match" of n images with a caption each, by the matcher."""
        assert self.matcher is not None  # asked of models that have one
        return self.matcher(*images, *captions)

    def load_weights(self, state: dict[str, torch.Tensor], source: object) -> None:
        """Load weights into the model; its encoder keeps its own weights if `state` has no encoder's.

        Parameters
        ----------
        state
            As `state_dict` gives it.
        source
            Where the weights come from, for the message.

        Raises
        ------
        VseppError
            Naming the parameters that are missing, unknown or of another shape.
        """
        if not any(key.startswith(ENCODER_PREFIX) for key in state):
            own = self.state_dict()
            state = {key: value for key, value in own.items() if key.startswith(ENCODER_PREFIX)} | state
        advice = "train the run that they come from again, or start from another"
        weights.put(self, state, source, f"this model ({advice})")


def load_joint(run: RunSpec, path: Path, vocabulary_size: int) -> JointEmbedding:
    """Load a trained model, with its image encoder where that runs inside the model; its weights give D_φ.

    Parameters
    ----------
    run
        The run's spec.
    path
        `model.safetensors` of the run.
    vocabulary_size
        Number of words that the model was trained with, special tokens included; `vocabulary.json` beside the weights lists them.

    Raises
    ------
    VseppError
        If the file is missing or holds another model.
    """
    head = components.load("image head", run.model.image_head.name).ImageHead

    def build(shapes: weights.Shapes) -> JointEmbedding:
        head_shapes = {
            key.removeprefix(HEAD_PREFIX): shape
            for key, shape in shapes.items()
            if key.startswith(HEAD_PREFIX)
        }
        try:
            feature_dim = head.feature_dim(head_shapes)
        except KeyError as error:
            name = f"{HEAD_PREFIX}{error.args[0]}"
            raise VseppError(f"{path}: holds no {name}, so it is not a joint embedding of vsepp") from None
        encoder = build_encoder(run.encoder, grid=run.grid) if run.live_encoder else None
        return JointEmbedding(run.model, feature_dim, vocabulary_size, encoder)

    return weights.load(path, build, "this model (train the run again)").eval()


def l2_normalise(vectors: torch.Tensor) -> torch.Tensor:
    """Scale each row to unit length, in fp32 at least; a zero row stays zero, with a finite gradient."""
    if vectors.dtype in (torch.bfloat16, torch.float16):
        vectors = vectors.float()
    length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / torch.where(length > SHORTEST, length, 1.0)
