"""A GRU over packed captions on a CPU, where torch's own GRU spends half of a training step on zeros and sums.

The backward pass of torch's GRU sums the weights' gradient step by step, and fills a tensor of the whole batch with zeros for
each step's slice. Here a single product over all steps gives the gradient. Nothing is computed twice: each word of the batch
is projected to the gates once, and captions that begin alike share one state until they differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import embedding, linear
from torch.nn.utils.rnn import PackedSequence

_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
_tanh_backward = torch.ops.aten.tanh_backward.grad_input


def last_states(words: nn.Embedding, gru: nn.GRU, packed: PackedSequence) -> torch.Tensor:
    """State of a GRU at the last token of each caption, equal to `nn.GRU`'s state up to rounding.

    Under autocast matrix products are in the lower precision; states, gates and sums over tokens are in fp32.

    Parameters
    ----------
    words
        The word embeddings.
    gru
        One layer, one direction, with biases: its weights are used, its `forward` is not.
    packed
        Word indices of n captions, int64, on the CPU.

    Returns
    -------
    torch.Tensor
        `(n, hidden_size)`, in the order before packing.
    """
    weight_in, weight, bias_in, bias = gru.all_weights[0]
    low = weight.dtype
    if torch.is_autocast_enabled("cpu"):
        low = torch.get_autocast_dtype("cpu")
    distinct, tokens = packed.data.unique(return_inverse=True)
    of_words = linear(words(distinct), weight_in, bias_in).to(weight.dtype)
    word_of, steps = _plan(tokens, packed.batch_sizes.tolist(), len(distinct))
    states = _Recurrence.apply(of_words, word_of, weight, bias, steps, low)
    return states if packed.unsorted_indices is None else states[packed.unsorted_indices]


class _Step(NamedTuple):
    """One step of all captions that are long enough; each state belongs to one caption, or to several that begin alike."""

    states: int
    captions: int
    """Number of captions, from the longest, that have this step."""
    ending: int
    """Number of these captions that end with this step."""
    row_of: torch.Tensor | None
    """int64 `(captions,)`, the state of each caption; `None` if each has its own, in order."""
    parents: torch.Tensor | None
    """int64, the state before each state; `None` if these are the first ones of the step before, in order."""
    reads: int
    """Number of states of the step before, from the first, that are continued; 0 in the first step."""


def _plan(tokens: torch.Tensor, sizes: Sequence[int], words: int) -> tuple[torch.Tensor, list[_Step]]:
    """The word of each state, and the steps of packed captions: `tokens` are below `words`, `sizes` are captions per step."""
    steps: list[_Step] = []
    word_of: list[torch.Tensor] = []
    row_of: torch.Tensor | None = torch.zeros_like(tokens[: sizes[0]])
    for word, later in zip(tokens.split(list(sizes)), [*sizes[1:], 0], strict=True):
        parents, captions = None, len(word)
        if row_of is not None:
            parents, row_of = row_of[:captions], None
            begins, row = (parents * words + word).unique(return_inverse=True)
            # If few captions still begin alike, finding them costs more than it saves.
            if 8 * len(begins) <= 7 * captions:
                parents, word, row_of = begins // words, begins % words, row
        reads = 0 if not steps else captions if parents is None else steps[-1].states
        steps.append(_Step(len(word), captions, captions - later, row_of, parents, reads))
        word_of.append(word)
    return torch.cat(word_of), steps


class _Recurrence(torch.autograd.Function):
    """The steps of a GRU by torch's equations, its gates in the order r, z, n.

    r = σ(x_r + W_r h + b_r), z = σ(x_z + W_z h + b_z), n = tanh(x_n + r (W_n h + b_n)), h ← n + z (h − n).
    """

    @staticmethod
    def forward(
        ctx: Any,
        of_words: torch.Tensor,
        word_of: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor,
        steps: list[_Step],
        low: torch.dtype,
    ) -> torch.Tensor:
        """Last states `(captions, d)`, longest caption first.

        Parameters
        ----------
        of_words
            x `(words, 3d)`.
        word_of
            int64 `(states,)`, the row of `of_words` of each state.
        weight, bias
            W `(3d, d)` and b `(3d,)`.
        steps
            From `_plan`.
        low
            Precision of the matrix products.
        """
        d, weight = weight.shape[1], weight.to(low)
        bias_rz, bias_n = bias.split([2 * d, d])
        gates = embedding(word_of, of_words)  # x, then r, z, n
        of_state = gates.new_empty(len(word_of), d)  # W_n h + b_n
        gap = torch.empty_like(of_state)  # h − n
        before = gates.new_empty(sum(step.reads for step in steps), d, dtype=low)
        last = gates.new_empty(steps[0].captions, d)
        h = gates.new_zeros(steps[0].states, d)
        views = _by_step(steps, gates[:, : 2 * d], *gates.split(d, dim=1), of_state, gap)
        reads = before.split([step.reads for step in steps])
        for step, read, (rz, r, z, n, new_h, difference) in zip(steps, reads, views, strict=True):
            if step.reads:
                h = h[: step.reads]
                from_state = torch.mm(read.copy_(h), weight.T)
                if step.parents is not None:
                    from_state, h = from_state[step.parents], h[step.parents]
                of_rz, of_n = from_state.split([2 * d, d], dim=1)
                rz.add_(of_rz)
                torch.add(of_n, bias_n, out=new_h)
            else:
                new_h.copy_(bias_n)
            rz.add_(bias_rz).sigmoid_()
            n.addcmul_(r, new_h).tanh_()
            torch.sub(h, n, out=difference)
            torch.addcmul(n, z, difference, out=h)
            if step.ending:
                ends = slice(step.captions - step.ending, step.captions)
                last[ends] = h[ends if step.row_of is None else step.row_of[ends]]
        ctx.words, ctx.steps = len(of_words), steps
        ctx.save_for_backward(word_of, weight, gates, of_state, gap, before)
        return last

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Gradients of x, W and b from the gradient of the last states, `(captions, d)`."""
        word_of, weight, gates, of_state, gap, before = ctx.saved_tensors
        d, steps = slope.shape[1], ctx.steps
        slopes = torch.empty_like(gates)  # gradients of the gates' inputs from the state
        slopes_n = torch.empty_like(gap)  # gradients of x_n
        # The same, summed for each state that was read.
        low = gates.new_empty(len(before), 3 * d, dtype=weight.dtype)
        of_h = slope.clone(memory_format=torch.contiguous_format)  # h's gradient after a step, then before it
        views = _by_step(
            steps, *gates.split(d, dim=1), of_state, gap, slopes, *slopes.split(d, dim=1), slopes_n
        )
        reads = low.split([step.reads for step in steps])
        for step, read, of_step in reversed(list(zip(steps, reads, views, strict=True))):
            r, z, n, new_h, difference, into_gates, into_r, into_z, into_state, into_n = of_step
            later = step.captions - step.ending
            if step.row_of is not None:  # else `of_h` holds the ending captions' rows since the start
                ending = _add_up(slope[later : step.captions], step.row_of[later:], step.states)
                of_h = of_h.add_(ending) if later else ending
            h = of_h[: step.states]
            _sigmoid_backward(torch.mul(h, difference, out=into_z), z, grad_input=into_z)
            torch.addcmul(h, h, z, value=-1, out=into_n)
            _tanh_backward(into_n, n, grad_input=into_n)
            torch.mul(into_n, r, out=into_state)
            _sigmoid_backward(torch.mul(into_n, new_h, out=into_r), r, grad_input=into_r)
            if not step.reads:
                break
            h.mul_(z)
            if step.parents is not None:
                into_gates, h = (_add_up(part, step.parents, step.reads) for part in (into_gates, h))
                of_h = h
            h += torch.mm(read.copy_(into_gates), weight)
        of_weight = torch.mm(low.T, before).to(slope.dtype)
        of_bias = slopes.sum(dim=0)
        slopes[:, 2 * d :] = slopes_n
        return _add_up(slopes, word_of, ctx.words), None, of_weight, of_bias, None, None


def _by_step(steps: list[_Step], *of_states: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """For each step, the rows of its states in each tensor; the tensors have a row for each state."""
    sizes = [step.states for step in steps]
    return zip(*(rows.split(sizes) for rows in of_states), strict=True)


def _add_up(rows: torch.Tensor, index: torch.Tensor, count: int) -> torch.Tensor:
    """Sum the rows of each index, always in the same order: `(n, d)` and `(n,)` to `(count, d)`."""
    return torch.ops.aten.embedding_dense_backward(rows, index, count, -1, False)
