"""Training steps written as the authors' were, or of torch's modules alone, to compare
with: part of no workflow.

Pairs come from a torch `Dataset` through a `DataLoader` with worker processes; its collate sorts captions by
their length, stacks images and pads captions one by one. The step is in fp32, on a GPU with TF32 in the GRU,
as torch has it by default: packed captions, cuDNN's GRU on a GPU, the MH loss on the score matrix,
`clip_grad_norm_`, `torch.optim.Adam`, and the loss is read by the host after every step. Captions come as
word ids, which spares the reference the tokenizer that the released code runs in its workers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn
from torch.nn.functional import normalize
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.data import Dataset

from vsepp.base import components
from vsepp.base.run_spec import ModelSpec
from vsepp.models.joint import JointEmbedding

MARGIN = 0.2
Batch = tuple[torch.Tensor, torch.Tensor, list[int]]
"""Features `(n, D_φ)`, word ids `(n, longest)` padded with 0, and lengths, longest caption first."""


class Pairs(Dataset):
    """Captions, word ids `(length,)`, with the features of their images, `(D_φ,)`."""

    def __init__(self, features: np.ndarray, captions: Sequence[np.ndarray], image_of: Sequence[int]) -> None:
        self.features, self.captions, self.image_of = features, captions, image_of

    def __len__(self) -> int:
        return len(self.captions)

    def __getitem__(self, row: int) -> tuple[torch.Tensor, torch.Tensor]:
        features = torch.tensor(self.features[self.image_of[row]])
        return features, torch.tensor(self.captions[row], dtype=torch.int64)


def collate(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> Batch:
    """A batch of pairs."""
    pairs.sort(key=lambda pair: len(pair[1]), reverse=True)
    lengths = [len(caption) for _, caption in pairs]
    ids = torch.zeros(len(pairs), max(lengths), dtype=torch.int64)
    for row, (_, caption) in enumerate(pairs):
        ids[row, : len(caption)] = caption
    return torch.stack([image for image, _ in pairs]), ids, lengths


class ReferenceModel(nn.Module):
    """The joint embedding of VSE++: dot product of normalised embeddings, weights copied from `model`."""

    def __init__(self, model: JointEmbedding) -> None:
        super().__init__()
        text, image_map = model.text, model.image_map
        self.words = nn.Embedding(*text.words.weight.shape)
        self.gru = nn.GRU(text.gru.input_size, text.gru.hidden_size, batch_first=True)
        self.image_map = nn.Linear(image_map.in_features, image_map.out_features)
        for own, theirs in ((self.words, text.words), (self.gru, text.gru), (self.image_map, image_map)):
            own.load_state_dict(theirs.state_dict())

    def forward(self, features: torch.Tensor, ids: torch.Tensor, lengths: list[int]) -> torch.Tensor:
        """`scores[image, caption]` of a batch, longest caption first."""
        image_embeddings = normalize(self.image_map(normalize(features, dim=1)), dim=1)
        _, state = self.gru(pack_padded_sequence(self.words(ids), lengths, batch_first=True))
        return image_embeddings @ normalize(state[0], dim=1).T


class Pooling(nn.Module):
    """GPO, its weights computed for every set of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(32, 32, batch_first=True, bidirectional=True)
        self.score = nn.Linear(32, 1, bias=False)

    def forward(self, values: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Sets `(n, k, d)` of `lengths` `(n,)` on the CPU to `(n, d)`."""
        count, longest = values.shape[:2]
        padding = (torch.arange(longest) >= lengths[:, None]).to(values.device)
        codes = torch.zeros(count, longest, 32, device=values.device)
        packed = pack_padded_sequence(codes, lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.gru(packed)[0], batch_first=True, total_length=longest)
        scores = self.score((states[:, :, :32] + states[:, :, 32:]) / 2).squeeze(2)
        theta = (scores.masked_fill(padding, -1e4) / 0.1).softmax(dim=1)
        descending = values.masked_fill(padding[:, :, None], -1e4).sort(dim=1, descending=True).values
        return (descending.masked_fill(padding[:, :, None], 0.0) * theta[:, :, None]).sum(dim=1)


class Towers(nn.Module):
    """VSE∞ on regions, with a BiGRU or a BERT."""

    def __init__(self, spec: ModelSpec, dim: int, words: int) -> None:
        super().__init__()
        size, options = spec.joint_dim, components.options("text encoder", spec.text)
        self.straight = nn.Linear(dim, size)
        self.inner = nn.Sequential(nn.Linear(dim, size // 2), nn.BatchNorm1d(size // 2), nn.ReLU())
        self.outer = nn.Linear(size // 2, size)
        self.image_pooling, self.caption_pooling = Pooling(), Pooling()
        self.bert = spec.text.name == "bert"
        self.words = nn.Embedding(words, options.hidden if self.bert else options.word_dim)
        if self.bert:
            hidden, inner = options.hidden, options.intermediate
            layer = nn.TransformerEncoderLayer(
                hidden, options.heads, inner, options.dropout, "gelu", batch_first=True
            )
            self.places = nn.Embedding(options.positions, hidden)
            self.text: nn.Module = nn.TransformerEncoder(layer, options.layers, enable_nested_tensor=False)
            self.map = nn.Linear(hidden, size)
        else:
            self.text = nn.GRU(options.word_dim, size, batch_first=True, bidirectional=True)

    def forward(self, features: torch.Tensor, ids: torch.Tensor, lengths: list[int]) -> torch.Tensor:
        """`scores[image, caption]` of a batch."""
        regions = features.flatten(0, 1)
        mapped = (self.straight(regions) + self.outer(self.inner(regions))).unflatten(0, features.shape[:2])
        images = self.image_pooling(mapped, torch.full((len(features),), features.shape[1]))
        of_captions = torch.tensor(lengths)
        captions = self.caption_pooling(self._states(ids, of_captions), of_captions)
        return normalize(images, dim=1) @ normalize(captions, dim=1).T

    def _states(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        longest = ids.shape[1]
        if self.bert:
            states = self.words(ids) + self.places.weight[:longest]
            padding = (torch.arange(longest) >= lengths[:, None]).to(ids.device)
            return self.map(self.text(states, src_key_padding_mask=padding))
        packed = pack_padded_sequence(self.words(ids), lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.text(packed)[0], batch_first=True, total_length=longest)
        return states.unflatten(2, (2, -1)).mean(dim=2)


def max_of_hinges(scores: torch.Tensor) -> torch.Tensor:
    """MH loss (Eq. 6) of a `(n, n)` score matrix, summed over both directions."""
    positive = scores.diag()[:, None]
    own = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    captions = (MARGIN + scores - positive).clamp(min=0).masked_fill(own, 0)
    images = (MARGIN + scores - positive.T).clamp(min=0).masked_fill(own, 0)
    return captions.max(dim=1).values.sum() + images.max(dim=0).values.sum()


def reference_step(
    model: ReferenceModel | Towers, optimiser: torch.optim.Optimizer, batch: Batch, clip_norm: float
) -> float:
    """Copy a batch to the model's device, take a step, and read its loss."""
    device = model.words.weight.device
    images, ids, lengths = batch
    loss = max_of_hinges(model(images.to(device), ids.to(device), lengths))
    optimiser.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimiser.step()
    return loss.item()
