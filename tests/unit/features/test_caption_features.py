"""States of captions under a frozen BERT equal the states of one caption at a time, in the tokens' order."""

import dataclasses

import numpy as np
import pytest
import specs
import torch
from specs import change

from vsepp.base.errors import VseppError
from vsepp.base.spec import Component
from vsepp.data.captions import Tokens
from vsepp.features import captions
from vsepp.features.captions import CaptionStates, write_caption_states
from vsepp.models.joint import JointEmbedding
from vsepp.models.text.bert import Options, TextEncoder
from vsepp.models.text.inputs import frozen_part

CPU = torch.device("cpu")
SIZES = {"layers": 1, "hidden": 8, "heads": 2, "intermediate": 16, "positions": 16}
FROZEN = {"weights": "file/bert.pt", "frozen": True, **SIZES}


@pytest.fixture
def tokens():
    rng = np.random.default_rng(0)
    return Tokens.from_lists([[1, *rng.integers(4, 30, rng.integers(1, 9)), 2] for _ in range(50)])


def encoder(**options):
    torch.manual_seed(0)
    return TextEncoder(30, Options(**{**FROZEN, "dim": 6, **options})).eval()


def written(tokens, out, state):
    out.mkdir(exist_ok=True)
    write_caption_states(encoder(), 8, tokens, out, state, device=CPU)
    return out / captions.FILE


def test_states_are_those_of_one_caption_at_a_time(tokens, tmp_path, monkeypatch):
    monkeypatch.setattr(captions, "BATCH", 8)
    monkeypatch.setattr(captions, "CHUNK", 16)
    written(tokens, tmp_path, tmp_path / "state")
    states, text = CaptionStates.open(tmp_path, tokens), encoder()
    rows = np.array([7, 3, 49])
    values, lengths = states.eval(rows)
    for row, caption, length in zip(rows, values, lengths, strict=True):
        ids = torch.from_numpy(tokens.eval([row])[0])
        alone = text.states(ids, torch.tensor([length]))[0].detach().numpy()
        np.testing.assert_allclose(caption[:length], alone, atol=1e-6)
        assert (caption[length:] == 0).all()


def test_a_model_embeds_states_as_it_embeds_the_tokens(tokens, tmp_path):
    written(tokens, tmp_path, tmp_path / "state")
    text = Component("bert", {**FROZEN, "dim": specs.MODEL.joint_dim})
    spec = change(specs.MODEL, text=text, caption_pooling=Component("gpo"))
    torch.manual_seed(0)
    model = JointEmbedding(spec, 5, 30)
    model.text.bert.load_state_dict(encoder().bert.state_dict())
    rows = np.arange(9)
    ids, lengths = tokens.eval(rows)
    states, _ = CaptionStates.open(tmp_path, tokens).eval(rows)
    lengths = torch.from_numpy(lengths)
    # In training mode too, since a frozen BERT has no dropout.
    of_ids = model.train().embed_captions(torch.from_numpy(ids), lengths)
    of_states = model.embed_captions(torch.from_numpy(states), lengths)
    torch.testing.assert_close(of_states, of_ids, rtol=0, atol=1e-6)
    of_states.sum().backward()
    assert all(parameter.grad is None for parameter in model.text.bert.parameters())
    assert model.text.linear.weight.grad is not None


def test_states_of_other_tokens_are_refused(tokens, tmp_path):
    written(tokens, tmp_path, tmp_path / "state")
    fewer = dataclasses.replace(tokens, ids=tokens.ids[:-1])
    with pytest.raises(VseppError, match=r"states\.npy.*float32"):
        CaptionStates.open(tmp_path, fewer)


def test_layers_on_top_do_not_decide_the_states():
    text = Component("bert", {**FROZEN, "dim": 6, "dropout": 0.3})
    assert frozen_part(text) == Component("bert", {"weights": "file/bert.pt", **SIZES})
    assert frozen_part(Component("bert", SIZES)) is None
    with pytest.raises(ValueError, match="frozen: got true"):
        Options(weights="random", frozen=True)
