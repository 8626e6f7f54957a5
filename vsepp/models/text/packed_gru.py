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
    projected = linear(words(distinct), weight_in, bias_in).to(weight.dtype)
    state_words, steps = _plan(tokens, packed.batch_sizes.tolist(), len(distinct))
    states = _Recurrence.apply(projected, state_words, weight, bias, steps, low)
    return states if packed.unsorted_indices is None else states[packed.unsorted_indices]


class _Step(NamedTuple):
    """One step of all captions that are long enough; each state belongs to one caption, or to several that begin alike."""

    states: int
    captions: int
    """Number of captions, from the longest, that have this step."""
    ending: int
    """Number of these captions that end with this step."""
    caption_states: torch.Tensor | None
    """int64 `(captions,)`, the state of each caption; `None` if each has its own, in order."""
    parents: torch.Tensor | None
    """int64 `(states,)`, the state before each state; `None` if these are the first ones of the step before, in order."""
    reads: int
    """Number of states of the step before, from the first, that are continued; 0 in the first step."""


# Eight captions, the longest first: "a dog runs home", four times "a dog runs", "a dog sleeps", twice "a cat".
#
#     step  captions  states        state of each caption   parent of each state
#     0     8         a             0 0 0 0 0 0 0 0         0: the zeros before all captions
#     1     8         dog, cat      0 0 0 0 0 0 1 1         0 0
#     2     6         runs, sleeps  0 0 0 0 0 1             0 0
#     3     1         home          None: each has its own  0
#
# States stand in the order of parent and word. Once each caption has its own state, it keeps one in all later steps:
# a caption's parent is then the state with its own number, and `parents` is `None`.
def _plan(tokens: torch.Tensor, sizes: Sequence[int], words: int) -> tuple[torch.Tensor, list[_Step]]:
    """The word of each state, and the steps of packed captions.

    Parameters
    ----------
    tokens
        int64, the word of each caption in each step, one step after another.
    sizes
        Number of captions in each step.
    words
        All tokens are below it.
    """
    steps: list[_Step] = []
    state_words: list[torch.Tensor] = []
    caption_states: torch.Tensor | None = torch.zeros_like(tokens[: sizes[0]])
    for step_tokens, later in zip(tokens.split(list(sizes)), [*sizes[1:], 0], strict=True):
        captions, step_words, parents = len(step_tokens), step_tokens, None
        if caption_states is not None:
            parents = caption_states[:captions]
            # Captions share a state if they shared the one before and go on with the same word.
            distinct, shared = (parents * words + step_tokens).unique(return_inverse=True)
            if 8 * len(distinct) <= 7 * captions:
                parents, step_words, caption_states = distinct // words, distinct % words, shared
            else:  # so few captions still begin alike that finding them costs more than it saves
                caption_states = None
        reads = 0 if not steps else captions if parents is None else steps[-1].states
        steps.append(_Step(len(step_words), captions, captions - later, caption_states, parents, reads))
        state_words.append(step_words)
    return torch.cat(state_words), steps


class _Recurrence(torch.autograd.Function):
    """The steps of a GRU by torch's equations, its gates in the order r, z, n.

    r = σ(x_r + W_r h + b_r), z = σ(x_z + W_z h + b_z), n = tanh(x_n + r (W_n h + b_n)), h ← n + z (h − n).
    """

    @staticmethod
    def forward(
        ctx: Any,
        projected: torch.Tensor,
        state_words: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor,
        steps: list[_Step],
        low: torch.dtype,
    ) -> torch.Tensor:
        """Last states `(captions, d)`, longest caption first.

        Parameters
        ----------
        projected
            x `(words, 3d)`.
        state_words
            int64 `(states,)`, the row of `projected` of each state.
        weight, bias
            W `(3d, d)` and b `(3d,)`.
        steps
            From `_plan`.
        low
            Precision of the matrix products.
        """
        d, weight = weight.shape[1], weight.to(low)
        bias_rz, bias_n = bias.split([2 * d, d])
        gates = embedding(state_words, projected)  # x, then r, z, n
        from_state_n = gates.new_empty(len(state_words), d)  # W_n h + b_n
        gap = torch.empty_like(from_state_n)  # h − n
        before = gates.new_empty(sum(step.reads for step in steps), d, dtype=low)
        last = gates.new_empty(steps[0].captions, d)
        h = gates.new_zeros(steps[0].states, d)
        views = _by_step(steps, gates[:, : 2 * d], *gates.split(d, dim=1), from_state_n, gap)
        reads = before.split([step.reads for step in steps])
        for step, read, (rz, r, z, n, new_h, difference) in zip(steps, reads, views, strict=True):
            if step.reads:
                h = h[: step.reads]
                from_state = torch.mm(read.copy_(h), weight.T)
                if step.parents is not None:
                    from_state, h = from_state[step.parents], h[step.parents]
                state_rz, state_n = from_state.split([2 * d, d], dim=1)
                rz.add_(state_rz)
                torch.add(state_n, bias_n, out=new_h)
            else:
                new_h.copy_(bias_n)
            rz.add_(bias_rz).sigmoid_()
            n.addcmul_(r, new_h).tanh_()
            torch.sub(h, n, out=difference)
            torch.addcmul(n, z, difference, out=h)
            if step.ending:
                ends = slice(step.captions - step.ending, step.captions)
                last[ends] = h[ends if step.caption_states is None else step.caption_states[ends]]
        ctx.words, ctx.steps = len(projected), steps
        ctx.save_for_backward(state_words, weight, gates, from_state_n, gap, before)
        return last

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Gradients of x, W and b from the gradient of the last states, `(captions, d)`."""
        state_words, weight, gates, from_state_n, gap, before = ctx.saved_tensors
        d, steps = gradient.shape[1], ctx.steps
        gradients = torch.empty_like(gates)  # gradients of the gates' inputs from the state
        n_gradients = torch.empty_like(gap)  # gradients of x_n
        # The same, summed for each state that was read.
        low = gates.new_empty(len(before), 3 * d, dtype=weight.dtype)
        # h's gradient after a step, then before it.
        h_gradient = gradient.clone(memory_format=torch.contiguous_format)
        views = _by_step(
            steps,
            *gates.split(d, dim=1),
            from_state_n,
            gap,
            gradients,
            *gradients.split(d, dim=1),
            n_gradients,
        )
        reads = low.split([step.reads for step in steps])
        for step, read, of_step in reversed(list(zip(steps, reads, views, strict=True))):
            r, z, n, new_h, difference, into_gates, into_r, into_z, into_state, into_n = of_step
            later = step.captions - step.ending
            # Where each caption has its own state, `h_gradient` holds the ending captions' rows since the start.
            if step.caption_states is not None:
                ending = _add_up(gradient[later : step.captions], step.caption_states[later:], step.states)
                h_gradient = h_gradient.add_(ending) if later else ending
            h = h_gradient[: step.states]
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
                h_gradient = h
            h += torch.mm(read.copy_(into_gates), weight)
        weight_gradient = torch.mm(low.T, before).to(gradient.dtype)
        bias_gradient = gradients.sum(dim=0)
        gradients[:, 2 * d :] = n_gradients
        return _add_up(gradients, state_words, ctx.words), None, weight_gradient, bias_gradient, None, None


def _by_step(steps: list[_Step], *of_states: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """For each step, the rows of its states in each tensor; the tensors have a row for each state."""
    sizes = [step.states for step in steps]
    return zip(*(rows.split(sizes) for rows in of_states), strict=True)


def _add_up(rows: torch.Tensor, index: torch.Tensor, count: int) -> torch.Tensor:
    """Sum the rows of each index, always in the same order: `(n, d)` and `(n,)` to `(count, d)`."""
    return torch.ops.aten.embedding_dense_backward(rows, index, count, -1, False)
