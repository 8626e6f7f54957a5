"""Layers of a Transformer encoder as in BERT, with the parameter names of its published files."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import gelu, scaled_dot_product_attention

EPSILON = 1e-12
"""ε of BERT's layer normalisations."""


class Layer(nn.Module):
    """Self-attention, attention to a source where there is one, and a two-layer network; each is added to its input and normalised.

    Parameters
    ----------
    size
        Size of a state.
    heads
        Attention heads, a divisor of `size`.
    intermediate
        Size of the inner state of the two-layer network.
    dropout
        Dropout in training, of states and of attention.
    source
        Size of a vector of the source; `None`: a layer of BERT, without a source.
    """

    def __init__(
        self, size: int, heads: int, intermediate: int, dropout: float, source: int | None = None
    ) -> None:
        super().__init__()

        def attention(source: int) -> nn.ModuleDict:
            output = Added(size, size, dropout)
            return nn.ModuleDict({"self": Attention(size, source, heads, dropout), "output": output})

        self.attention = attention(size)
        self.crossattention = None if source is None else attention(source)
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(size, intermediate)})
        self.output = Added(intermediate, size, dropout)

    def forward(
        self,
        states: torch.Tensor,
        mask: torch.Tensor,
        source: torch.Tensor | None = None,
        source_mask: torch.Tensor | None = None,
        *,
        first: bool = False,
    ) -> torch.Tensor:
        """States `(n, l, size)` to as many, or to the first of them alone, `(n, 1, size)`.

        Parameters
        ----------
        states, mask
            States of n sequences, and which states are attended to, bool `(n, l)`.
        source, source_mask
            The same for the source: vectors `(n, k, source)`, and bool `(n, k)`.
        first
            Compute the first state alone: for a last layer, if nothing reads its other states.
        """
        queries = states[:, :1] if first else states
        states = self.attention["output"](self.attention["self"](queries, states, mask), queries)
        if self.crossattention is not None:
            attended = self.crossattention["self"](states, source, source_mask)
            states = self.crossattention["output"](attended, states)
        return self.output(gelu(self.intermediate["dense"](states)), states)


class Attention(nn.Module):
    """Attention of states to the vectors of a source, with several heads."""

    def __init__(self, size: int, source: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.query = nn.Linear(size, size)
        self.key, self.value = nn.Linear(source, size), nn.Linear(source, size)
        self._heads, self._dropout = heads, dropout

    def forward(self, states: torch.Tensor, source: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """States `(n, l, size)`, vectors `(n, k, source)` and which vectors are attended to, bool `(n, k)`, to `(n, l, size)`."""
        mapped = (self.query(states), self.key(source), self.value(source))
        query, key, value = (values.unflatten(-1, (self._heads, -1)).transpose(1, 2) for values in mapped)
        dropout = self._dropout if self.training else 0.0
        mask = mask[:, None, None, :]
        attended = scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)
        return attended.transpose(1, 2).flatten(2)


class Added(nn.Module):
    """A linear map that is added to the states, which are then normalised."""

    def __init__(self, inner: int, size: int, dropout: float) -> None:
        super().__init__()
        self.dense = nn.Linear(inner, size)
        self.LayerNorm = nn.LayerNorm(size, eps=EPSILON)
        self.dropout = nn.Dropout(dropout)

    def forward(self, inner: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        """The inner states `(n, l, inner)` and the states that they are added to `(n, l, size)`."""
        return self.LayerNorm(self.dropout(self.dense(inner)) + states)


def initialise(module: nn.Module) -> None:
    """BERT's first weights, for `Module.apply`: N(0, 0.02²), biases 0."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)
