"""A GRU over word embeddings (Section 3), as in Kiros et al. (2014)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from vsepp.base.declared import Count
from vsepp.base.placement import upload
from vsepp.models.text.packed_gru import last_states

CITATION = "Kiros, Salakhutdinov and Zemel, 2014: Unifying visual-semantic embeddings with multimodal neural language models"


@dataclass(frozen=True)
class Options:
    """Sizes of the text encoder."""

    word_dim: Count = 300
    """Size of a word embedding."""
    dim: Count = 1024
    """D_ψ, size of the GRU's state."""


class TextEncoder(nn.Module):
    """ψ(c; θ_ψ) of Eq. 2: the GRU's state at `<end>`, the last token of a caption.

    On a GPU it is computed in fp32 even under autocast; `vsepp.models.precision` decides whether its products may be
    in TF32.

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
        self.gru = nn.GRU(options.word_dim, options.dim)
        nn.init.uniform_(self.words.weight, -0.1, 0.1)

    def forward(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Encode captions.

        Parameters
        ----------
        ids
            int64 `(n, longest)`, from `<start>` to `<end>`; anything after `<end>` is ignored.
        lengths
            int64 `(n,)` on the CPU, number of tokens of each caption.

        Returns
        -------
        torch.Tensor
            `(n, dim)`, in the order of the captions.
        """
        # Packing leaves out the padding, so that the GRU does not process it and each caption ends at its `<end>`.
        # Sorted here, since torch makes the host wait for the GPU if captions are unsorted.
        lengths, order = torch.sort(lengths, descending=True)
        order = upload(order, ids.device)
        packed = PackedSequence(*pack_padded_sequence(ids.T.index_select(1, order), lengths)[:2], order)
        if packed.data.device.type == "cpu":
            return last_states(self.words, self.gru, packed)
        words = PackedSequence(
            self.words(packed.data), packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices
        )
        # Autocast would run cuDNN's GRU in fp16 whatever precision was chosen, and copy its weights each time.
        with torch.autocast("cuda", enabled=False):
            _, state = self.gru(words)
        return state[0]
