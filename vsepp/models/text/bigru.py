"""A GRU over word embeddings in both directions, the states of all words (VSE∞, BiGRU)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from vsepp.base.declared import Count
from vsepp.base.placement import upload

CITATION = "Chen et al., 2021: Learning the best pooling strategy for visual semantic embedding"
GIVES_SETS = True


@dataclass(frozen=True)
class Options:
    """Sizes of the text encoder."""

    word_dim: Count = 300
    """Size of a word embedding. Text: 300. Code: 300."""
    dim: Count = 1024
    """D_ψ, size of the GRU's state per direction. Text: 1024. Code: 1024."""


class TextEncoder(nn.Module):
    """States of all tokens, each the mean of both directions.

    Parameters
    ----------
    vocabulary_size
        Number of words, the special tokens included.
    options
        See `Options`.
    """

    def __init__(self, vocabulary_size: int, options: Options = Options()) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary_size, options.word_dim)
        self.gru = nn.GRU(options.word_dim, options.dim, batch_first=True, bidirectional=True)
        nn.init.uniform_(self.words.weight, -0.1, 0.1)

    def forward(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Token ids int64 `(n, longest)` with `lengths` `(n,)` on the CPU to states `(n, longest, dim)`; padding gets zeros."""
        # Sorted here, since torch makes the host wait for the GPU if captions are unsorted.
        lengths, order = torch.sort(lengths, descending=True, stable=True)
        words = self.words(ids.index_select(0, upload(order, ids.device)))
        packed = pack_padded_sequence(words, lengths, batch_first=True)
        # Autocast would run cuDNN's GRU in fp16 whatever precision was chosen.
        with torch.autocast("cuda", enabled=False):
            packed, _ = self.gru(packed)
        states, _ = pad_packed_sequence(packed, batch_first=True, total_length=ids.shape[1])
        states = states.unflatten(2, (2, -1)).mean(dim=2)
        return states.index_select(0, upload(torch.argsort(order), ids.device))
