"""The GRU of a text encoder, by hand and, on a CPU, against torch's own: values and gradients."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rounding import assert_near
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from vsepp.base import components
from vsepp.base.errors import VseppError
from vsepp.base.spec import Component
from vsepp.models.text.gru import Options, TextEncoder

WORDS, WORD_DIM, DIM = 12, 5, 7
RAGGED = [3, 1, 9, 2, 2, 9, 1, 4]


def captions_of(lengths, seed=0):
    """Random words from few, so that some occur often and captions begin alike."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(WORDS // 3, (len(lengths), max(lengths) + 1), generator=generator)
    return ids, torch.tensor(lengths)


def encoder_of(dtype=torch.float64, dim=DIM):
    torch.manual_seed(0)
    return TextEncoder(WORDS, Options(WORD_DIM, dim)).to(dtype)


def torchs_own(encoder, ids, lengths):
    packed = pack_padded_sequence(ids.T, lengths, enforce_sorted=False)
    words = PackedSequence(
        encoder.words(packed.data), packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices
    )
    return encoder.gru(words)[1][0]


def states_and_gradients(encoder, encode, ids, lengths):
    encoder.zero_grad()
    states = encode(ids, lengths)
    weights = torch.randn(states.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    (states * weights.to(states)).sum().backward()
    return [states.detach(), *(parameter.grad for parameter in encoder.parameters())]


def assert_torchs_own(encoder, ids, lengths, bound):
    ours = states_and_gradients(encoder, encoder, ids, lengths)
    expected = states_and_gradients(encoder, lambda *batch: torchs_own(encoder, *batch), ids, lengths)
    assert expected[1].abs().max() > 1e-2
    for value, reference in zip(ours, expected, strict=True):
        assert_near(value.flatten(), reference.flatten(), bound)


def test_word_embeddings_start_uniform_between_minus_and_plus_a_tenth():
    torch.manual_seed(0)
    weights = TextEncoder(2000, Options(50, 4)).words.weight
    assert weights.abs().max() <= 0.1
    assert weights.std().item() == pytest.approx(0.2 / 12**0.5, rel=0.02)


@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=8), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_states_and_gradients_are_those_of_torchs_gru_for_captions_of_any_lengths(lengths, seed):
    assert_torchs_own(encoder_of(), *captions_of(lengths, seed), 1e-10)


def test_in_bf16_states_and_gradients_are_fp32_and_as_close_as_that_precision_allows():
    encoder, batch = encoder_of(torch.float32, 64), captions_of(RAGGED * 8)
    exact = [tensor.clone() for tensor in states_and_gradients(encoder, encoder, *batch)]

    def in_bf16(ids, lengths):
        with torch.autocast("cpu", torch.bfloat16):
            return encoder(ids, lengths)

    rounded = states_and_gradients(encoder, in_bf16, *batch)
    for value, expected in zip(rounded, exact, strict=True):
        assert value.dtype == torch.float32 and not torch.equal(value, expected)
        assert (value - expected).norm() < 0.01 * expected.norm()


def test_weights_have_the_names_and_first_values_of_torchs_gru():
    torch.manual_seed(5)
    encoder = TextEncoder(WORDS, Options(WORD_DIM, DIM))
    torch.manual_seed(5)
    nn.Embedding(WORDS, WORD_DIM)
    stock = nn.GRU(WORD_DIM, DIM)
    assert encoder.gru.state_dict().keys() == stock.state_dict().keys()
    assert all(torch.equal(value, encoder.gru.state_dict()[key]) for key, value in stock.state_dict().items())


@pytest.mark.parametrize(
    ("component", "key"),
    [(Component("transformer"), "'transformer'.*gru"), (Component("gru", {"dim": 0}), "dim .*got 0")],
)
def test_unknown_text_encoders_and_sizes_are_refused(component, key):
    with pytest.raises(VseppError, match=key):
        components.options("text encoder", component)
