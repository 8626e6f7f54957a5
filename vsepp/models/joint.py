"""The joint embedding of images and captions (Section 2.2, Eqs. 1–3)."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import torch
from torch import nn

from vsepp import components
from vsepp.errors import VseppError
from vsepp.models.encoder import ImageEncoder, put_weights
from vsepp.models.inputs import taken
from vsepp.similarity import scorer
from vsepp.spec import Component, ModelSpec

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
        options = components.options("text encoder", spec.text)
        self.spec = spec
        self._scores = scorer(spec.similarity)
        head = components.options("image head", spec.image_head)
        self.feature_dim = feature_dim
        self.image_map = _head(spec).ImageHead(feature_dim, spec, head)
        self.text = components.load("text encoder", spec.text.name).TextEncoder(vocabulary_size, options)
        self.image_pooling, self.caption_pooling = (
            _pooling(spec.image_pooling),
            _pooling(spec.caption_pooling),
        )
        self.caption_map = None  # W_g
        if spec.caption_projection:
            self.caption_map = nn.Linear(options.dim, spec.joint_dim, bias=False)
            nn.init.xavier_uniform_(self.caption_map.weight)
        self.image_map.initialise()
        self.encoder = encoder

    def embed_images(
        self, images: torch.Tensor, lengths: torch.Tensor | None = None, kept: torch.Tensor | None = None
    ) -> torch.Tensor:
        """f(i), Eq. 1.

        Parameters
        ----------
        images, lengths, kept
            As in an `ImageBatch`; features of any precision. Of sets without lengths all vectors count.

        Returns
        -------
        torch.Tensor
            `(n, joint_dim)`. Not of unit length if `normalise_images` is false (VSE0).
        """
        features = images.float() if self.encoder is None else self.encoder(self.encoder.normalise(images))
        if self.spec.normalise_features:
            features = l2_normalise(features)
        if self.image_pooling is None:
            embeddings = self.image_map(features)
        else:
            if lengths is None:
                lengths = torch.full((len(features),), features.shape[1])
            elif kept is not None:
                features = taken(features, kept, lengths)
            embeddings = self.image_pooling(self.image_map(features, lengths), lengths)
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
        states = self.text(captions, lengths)
        if self.caption_pooling is not None:
            states = self.caption_pooling(states, lengths)
        return self.map_captions(states)

    def map_captions(self, states: torch.Tensor) -> torch.Tensor:
        """g(c) from the text encoder's (pooled) states `(n, D_ψ)`: mapped by W_g if there is one, then scaled to unit length."""
        embeddings = l2_normalise(states if self.caption_map is None else self.caption_map(states))
        return embeddings.abs() if self.spec.absolute else embeddings

    def scores(self, image_embeddings: torch.Tensor, caption_embeddings: torch.Tensor) -> torch.Tensor:
        """s(i, c) of every image and caption, Eq. 3: `(n, d)` and `(m, d)` to `scores[image, caption]`."""
        return self._scores(image_embeddings, caption_embeddings)

    def load_weights(self, state: dict[str, torch.Tensor], source: object) -> None:
        """Load weights into the model; those of an encoder only if both have one.

        Parameters
        ----------
        state
            As `state_dict` gives it.
        source
            Where the weights come from, for the message.

        Raises
        ------
        VseppError
            Naming what is missing, unknown or of another shape.
        """
        if not any(key.startswith(ENCODER_PREFIX) for key in state):
            own = self.state_dict()
            state = {key: value for key, value in own.items() if key.startswith(ENCODER_PREFIX)} | state
        advice = "train the run that they come from again, or start from another"
        put_weights(self, state, f"{source}: not the weights of this model ({advice})")


def _pooling(pooling: Component | None) -> nn.Module | None:
    if pooling is None:
        return None
    return components.load("pooling", pooling.name).Pooling(components.options("pooling", pooling))


def _head(spec: ModelSpec) -> ModuleType:
    return components.load("image head", spec.image_head.name)


def load_joint(
    spec: ModelSpec, weights: Path, vocabulary_size: int, encoder: ImageEncoder | None = None
) -> JointEmbedding:
    """Load a trained model; its weights give D_φ.

    Parameters
    ----------
    spec
        The model's part of the run's spec.
    weights
        `model.safetensors` of a run.
    vocabulary_size
        Number of words that it was trained with, special tokens included: of `vocabulary.json` beside the weights.
    encoder
        For a run whose encoder runs inside the model; the trained weights replace its own.

    Raises
    ------
    VseppError
        If the file is missing or holds another model.
    """
    state = read_weights(weights)
    of_head = {key.removeprefix(HEAD_PREFIX): state[key] for key in state if key.startswith(HEAD_PREFIX)}
    try:
        feature_dim = _head(spec).ImageHead.feature_dim(of_head)
    except KeyError as error:
        name = f"{HEAD_PREFIX}{error.args[0]}"
        raise VseppError(f"{weights}: holds no {name}, so it is not a joint embedding of vsepp") from None
    model = JointEmbedding(spec, feature_dim, vocabulary_size, encoder)
    model.load_weights(state, weights)
    return model.eval()


def read_weights(path: Path) -> dict[str, torch.Tensor]:
    """Tensors of a safetensors file.

    Raises
    ------
    VseppError
        If the file is missing or damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        raise VseppError(f"{path}: missing; run the training that makes it")
    try:
        return load_file(path)
    except SafetensorError as error:
        raise VseppError(f"{path}: damaged ({error}); delete it and run the training again") from error


def holds_encoder(path: Path) -> bool:
    """Whether a run's weights include an image encoder's. Errors as in `read_weights`."""
    return any(name.startswith(ENCODER_PREFIX) for name in read_weights(path))


def l2_normalise(vectors: torch.Tensor) -> torch.Tensor:
    """Scale each row to unit length, in fp32 at least; a zero row stays zero, with a finite gradient."""
    if vectors.dtype in (torch.bfloat16, torch.float16):
        vectors = vectors.float()
    length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / torch.where(length > SHORTEST, length, 1.0)
