"""BERT, with a linear map of each token's last state, as in VSE∞.

Its parameters have the names of the published files, so that the files load by name and shape. The weights `minilm` are
all-MiniLM-L6-v2. Its training data held captions of COCO and of Flickr30K, which may include captions of Flickr8k: a model that
starts from these weights has seen captions of test images.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
from pydantic import Field
from torch import nn

from vsepp.base.declared import Count, Fraction
from vsepp.base.digests import file_digest
from vsepp.base.errors import VseppError
from vsepp.data.captions import minilm_file
from vsepp.models import weights
from vsepp.models.sets import padding_of
from vsepp.models.transformer import EPSILON, Layer, initialise

CITATION = "Devlin, Chang, Lee and Toutanova, 2019: BERT: Pre-training of deep bidirectional transformers for language understanding"
TOKENS = "wordpieces"
GIVES_SETS = True
# The name `minilm` means this file, so a run's spec says which weights it starts from.
_MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


@dataclass(frozen=True)
class Options:
    """Weights and sizes of the text encoder; the default sizes are BERT-base's."""

    weights: Annotated[str, Field(pattern=r"^(random|minilm|file(/\w[\w.+-]*)+)$")] = "random"
    """What a training starts from. random: drawn, on the words of the corpus. minilm: all-MiniLM-L6-v2 (6 layers, hidden 384,
    intermediate 1536), trained on captions of COCO and Flickr30K, among others. file/<name>: an entry of `sources`, or a file in the
    folder `archives`; its vocabulary vocab.txt lies beside it. minilm and a file take pieces of words."""
    dim: Count = 1024
    """Size of a token's state after the linear map."""
    linear: bool = True
    """A linear map of each token's last state, as in VSE∞; without it `dim` is `hidden`, as in X-VLM."""
    layers: Count = 12
    """Layers of self-attention; of a file with more of them, the first ones."""
    hidden: Count = 768
    """Size of a token's state before the linear map."""
    heads: Count = 12
    """Attention heads of a layer."""
    intermediate: Count = 3072
    """Size of the inner state of a layer's two-layer network."""
    positions: Count = 512
    """Most tokens of a caption."""
    dropout: Fraction = 0.1
    """Dropout in training, of states and of attention."""
    frozen: bool = False
    """BERT keeps the weights that it starts from, and its states of all captions are computed once; only the linear map is trained."""

    def __post_init__(self) -> None:
        """Refuse heads that do not divide `hidden`, another `dim` without the linear map, frozen drawn weights, and sizes that `minilm` does not have."""
        if self.hidden % self.heads:
            raise ValueError(f"heads: got {self.heads}; expected a divisor of hidden, {self.hidden}")
        if not self.linear and self.dim != self.hidden:
            raise ValueError(f"dim: got {self.dim}; without a linear map it is hidden, {self.hidden}")
        if self.frozen and self.weights == "random":
            raise ValueError("frozen: got true with drawn weights; expected weights minilm or file/<name>")
        minilm = {"layers": 6, "hidden": 384, "heads": 12, "intermediate": 1536, "positions": 512}
        for option, size in minilm.items():
            if self.weights == "minilm" and (got := getattr(self, option)) != size:
                raise ValueError(f"{option}: got {got}; weights minilm have {size}")


class TextEncoder(nn.Module):
    """States of all tokens of a caption: BERT's last layer, then a linear map.

    Parameters
    ----------
    vocabulary_size
        Number of words or pieces of words, the special tokens included.
    options
        See `Options`. Weights are drawn here, whatever `weights` is; `start` reads others.
    """

    def __init__(self, vocabulary_size: int, options: Options = Options()) -> None:
        super().__init__()
        self._options = options
        self.bert = _Bert(vocabulary_size, options)
        self.linear = nn.Linear(options.hidden, options.dim) if options.linear else nn.Identity()
        self.bert.apply(initialise)
        if options.frozen:
            self.bert.requires_grad_(False).eval()

    def train(self, mode: bool = True) -> TextEncoder:
        """Set the mode of the trained part; a frozen BERT stays in evaluation mode."""
        super().train(mode)
        if self._options.frozen:
            self.bert.eval()
        return self

    def start(self, file: Path | None) -> None:
        """Take the weights that `Options.weights` names, for the first step of a training.

        Parameters
        ----------
        file
            The file of `file/<name>`: a BERT as published, with or without its pooler and heads.

        Raises
        ------
        VseppError
            If the file is missing, damaged or holds a BERT of another size, or a package is not installed.
        """
        source, _, name = self._options.weights.partition("/")
        if source == "random":
            return
        if source == "minilm":
            file = minilm_file("model.safetensors")
            if (digest := file_digest(file)) != _MINILM_SHA256:
                raise VseppError(f"{file}: has SHA-256 {digest}, expected {_MINILM_SHA256}; install it again")
        if file is None:
            raise VseppError(f"text encoder bert: its weights are the file {name!r}, but no path was given")
        owner = "this BERT; its options and the vocabulary must have the sizes of the file"
        published = _published(weights.read(file, name), self._options.layers)
        weights.put(self.bert, published, file, owner)

    def forward(self, captions: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Encode captions.

        Parameters
        ----------
        captions
            Token ids int64 `(n, longest)`, or BERT's states of them `(n, longest, hidden)`, as `states` gives them.
        lengths
            int64 `(n,)` on the CPU, number of tokens of each caption.

        Returns
        -------
        torch.Tensor
            `(n, longest, dim)`; states after a caption's end have no meaning.
        """
        if captions.is_floating_point():
            return self.linear(captions.to(self.bert.embeddings.LayerNorm.weight.dtype))
        return self.linear(self.states(captions, lengths))

    def states(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """BERT's last states.

        Parameters
        ----------
        ids
            int64 `(n, longest)`, from `<start>` or `[CLS]` to `<end>` or `[SEP]`; no state of a caption depends on what follows.
        lengths
            int64 `(n,)` on the CPU, number of tokens of each caption.

        Returns
        -------
        torch.Tensor
            `(n, longest, hidden)`; states after a caption's end have no meaning.

        Raises
        ------
        VseppError
            If a caption has more tokens than there are positions.
        """
        longest = ids.shape[1]
        if longest > self._options.positions:
            raise VseppError(
                f"a caption has {longest} tokens; text encoder bert has {self._options.positions} positions: shorten it"
            )
        return self.bert(ids, ~padding_of(ids, lengths).squeeze(2))


class _Bert(nn.Module):
    """BERT without its pooler."""

    def __init__(self, vocabulary_size: int, options: Options) -> None:
        super().__init__()
        self.embeddings = _Embeddings(vocabulary_size, options)
        sizes = options.hidden, options.heads, options.intermediate, options.dropout
        layers = nn.ModuleList(Layer(*sizes) for _ in range(options.layers))
        self.encoder = nn.ModuleDict({"layer": layers})

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Token ids and which of them belong to a caption, `(n, longest)`, to `(n, longest, hidden)`."""
        states = self.embeddings(ids)
        for layer in self.encoder["layer"].children():
            states = layer(states, mask)
        return states


class _Embeddings(nn.Module):
    def __init__(self, vocabulary_size: int, options: Options) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(vocabulary_size, options.hidden)
        self.position_embeddings = nn.Embedding(options.positions, options.hidden)
        self.token_type_embeddings = nn.Embedding(2, options.hidden)
        self.LayerNorm = nn.LayerNorm(options.hidden, eps=EPSILON)
        self.dropout = nn.Dropout(options.dropout)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        positions = self.position_embeddings.weight[: ids.shape[1]]
        # A caption is a first sentence; there is no second one.
        first_sentence = self.token_type_embeddings.weight[0]
        return self.dropout(self.LayerNorm(self.word_embeddings(ids) + first_sentence + positions))


def _published(state: dict[str, torch.Tensor], layers: int) -> dict[str, torch.Tensor]:
    """A published file's weights by our names, of its first layers, without pooler and heads; the oldest files say gamma and beta."""
    published = {}
    for name, value in state.items():
        name = name.removeprefix("bert.")
        layer = re.match(r"encoder\.layer\.(\d+)\.", name)
        beyond = layer is not None and int(layer[1]) >= layers
        if not (beyond or name.startswith(("pooler.", "cls.")) or name.endswith("position_ids")):
            name = name.replace("LayerNorm.gamma", "LayerNorm.weight")
            published[name.replace("LayerNorm.beta", "LayerNorm.bias")] = value
    return published
