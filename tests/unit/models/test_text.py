import pytest
import torch

from vsepp.components import component
from vsepp.errors import VseppError
from vsepp.models.text.gru import TextEncoder


@pytest.fixture
def encoder():
    torch.manual_seed(0)
    return TextEncoder(20, 5, 7)


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


def test_a_caption_is_the_state_at_its_last_token_whatever_its_place_and_padding(encoder):
    captions = [[1, 9, 2], [1, 5, 6, 7, 2], [1, 2], [1, 8, 8, 2]]
    ids = torch.full((4, 6), 3)  # padded with a word that would be noticed
    for row, caption in enumerate(captions):
        ids[row, : len(caption)] = torch.tensor(caption)
    found = encoder(ids, torch.tensor([len(caption) for caption in captions]))
    torch.testing.assert_close(found, torch.stack([gru_by_hand(encoder, caption) for caption in captions]))


def test_word_embeddings_start_uniform_between_minus_and_plus_a_tenth():
    torch.manual_seed(0)
    weights = TextEncoder(2000, 50, 4).words.weight
    assert weights.abs().max() <= 0.1
    assert weights.std().item() == pytest.approx(0.2 / 12**0.5, rel=0.02)


def test_words_that_do_not_occur_get_no_gradient(encoder):
    encoder(torch.tensor([[1, 4, 2], [1, 2, 9]]), torch.tensor([3, 2])).sum().backward()
    assert torch.nonzero(encoder.words.weight.grad.abs().sum(1)).flatten().tolist() == [1, 2, 4]


def test_an_unknown_text_encoder_is_refused_with_a_list():
    with pytest.raises(VseppError, match=r"no component named 'transformer'; expected one of gru"):
        component("vsepp.models.text", "transformer", "TextEncoder")
