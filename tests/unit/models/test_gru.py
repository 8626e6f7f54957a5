"""The GRU of a text encoder, by hand and, on a CPU, against torch's own: values and gradients."""

import pytest
import torch
from closeness import assert_near
from hypothesis import given, settings
from hypothesis import strategies as st
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
    found = states_and_gradients(encoder, encoder, ids, lengths)
    expected = states_and_gradients(encoder, lambda *batch: torchs_own(encoder, *batch), ids, lengths)
    assert expected[1].abs().max() > 1e-2
    for one, other in zip(found, expected, strict=True):
        assert_near(one.flatten(), other.flatten(), bound)


def gru_by_hand(encoder, ids):
    """State after the last of `ids`: Cho et al. (2014), with the gates in torch's order."""
    weights = dict(encoder.gru.named_parameters())
    state = torch.zeros(encoder.gru.hidden_size)
    for word in ids:
        from_word = weights["weight_ih_l0"] @ encoder.words.weight[word] + weights["bias_ih_l0"]
        from_state = weights["weight_hh_l0"] @ state + weights["bias_hh_l0"]
        (xr, xz, xn), (hr, hz, hn) = from_word.chunk(3), from_state.chunk(3)
        reset, update = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
        state = (1 - update) * torch.tanh(xn + reset * hn) + update * state
    return state


def test_a_caption_is_the_state_at_its_last_token_whatever_its_place_and_padding():
    encoder = encoder_of(torch.float32)
    captions = [[1, 9, 2], [1, 5, 6, 7, 2], [1, 2], [1, 8, 8, 2]]
    ids = torch.full((4, 6), 3)  # padded with a word that would be noticed
    for row, caption in enumerate(captions):
        ids[row, : len(caption)] = torch.tensor(caption)
    found = encoder(ids, torch.tensor([len(caption) for caption in captions]))
    assert_near(found, torch.stack([gru_by_hand(encoder, caption) for caption in captions]), 1e-5)


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
    for one, other in zip(rounded, exact, strict=True):
        assert one.dtype == torch.float32 and not torch.equal(one, other)
        assert (one - other).norm() < 0.01 * other.norm()


def test_states_without_a_gradient_are_those_of_a_training_step():
    encoder, batch = encoder_of(), captions_of(RAGGED)
    with torch.inference_mode():
        assert torch.equal(encoder(*batch), encoder(*batch))
        states = encoder(*batch)
    assert torch.equal(states, encoder(*batch).detach())


def test_weights_have_the_names_and_first_values_of_torchs_gru():
    torch.manual_seed(5)
    encoder = TextEncoder(WORDS, Options(WORD_DIM, DIM))
    torch.manual_seed(5)
    nn.Embedding(WORDS, WORD_DIM)
    stock = nn.GRU(WORD_DIM, DIM)
    assert encoder.gru.state_dict().keys() == stock.state_dict().keys()
    assert all(torch.equal(value, encoder.gru.state_dict()[key]) for key, value in stock.state_dict().items())


@pytest.mark.gpu
def test_a_gpu_gives_the_states_of_a_cpu(cuda):
    encoder, (ids, lengths) = encoder_of(torch.float32, 64), captions_of(RAGGED)
    expected = encoder(ids, lengths)
    assert_near(encoder.cuda()(ids.cuda(), lengths), expected, 1e-4)


@pytest.mark.parametrize(
    ("component", "said"),
    [
        (Component("transformer"), "no text encoder is named 'transformer'; there are .*gru"),
        (
            Component("gru", {"dim": 0}),
            "option dim of text encoder gru: got 0; input should be greater than or equal to 1",
        ),
        (Component("gru", {"word_dim": -1}), "word_dim of text encoder gru: got -1; input should be"),
    ],
)
def test_unknown_text_encoders_and_sizes_are_refused(component, said):
    with pytest.raises(VseppError, match=said):
        components.options("text encoder", component)
