"""The fusion of X-VLM against torch's own modules."""

import dataclasses

import pytest
import torch
from specs import MODEL, change

from vsepp.base.errors import VseppError
from vsepp.base.spec import Component
from vsepp.models.joint import JointEmbedding
from vsepp.models.matchers.fusion import Matcher, Options

IMAGE, STATE = 6, 8
OPTIONS = Options(layers=2, heads=2, intermediate=12)
LENGTHS = {"image": torch.tensor([3, 1, 4, 2]), "caption": torch.tensor([5, 2, 3, 4])}


def inside(lengths, longest):
    return torch.arange(longest) < lengths[:, None]


@pytest.fixture
def matcher():
    torch.manual_seed(0)
    return Matcher(IMAGE, STATE, OPTIONS).eval()


@pytest.fixture
def given():
    """Four images and captions, padded by zeros, as a matcher takes them."""
    generator = torch.Generator().manual_seed(1)
    images, states = (torch.randn(4, *shape, generator=generator) for shape in ((4, IMAGE), (5, STATE)))
    of_images, of_states = inside(LENGTHS["image"], 4), inside(LENGTHS["caption"], 5)
    return images * of_images[:, :, None], of_images, states * of_states[:, :, None], of_states


def attended(attention, states, source):
    """One caption's states after attention to one image, or to themselves, by torch's module; the sum is normalised."""
    own, size = attention["self"], STATE
    theirs = torch.nn.MultiheadAttention(
        size, OPTIONS.heads, batch_first=True, kdim=source.shape[1], vdim=source.shape[1]
    )
    with torch.no_grad():
        if theirs._qkv_same_embed_dim:
            theirs.in_proj_weight.copy_(torch.cat([own.query.weight, own.key.weight, own.value.weight]))
        else:
            for name in ("query", "key", "value"):
                getattr(theirs, f"{name[0]}_proj_weight").copy_(getattr(own, name).weight)
        theirs.in_proj_bias.copy_(torch.cat([own.query.bias, own.key.bias, own.value.bias]))
        theirs.out_proj.load_state_dict(attention["output"].dense.state_dict())
    found, _ = theirs(states[None], source[None], source[None])
    return attention["output"].LayerNorm(found[0] + states)


def test_the_fusion_equals_torchs_modules_pair_by_pair(matcher, given):
    images, _, states, _ = given
    for row, found in enumerate(matcher(*given)):
        image = images[row, : LENGTHS["image"][row]]
        tokens = torch.cat([image.mean(dim=0, keepdim=True), image])
        state = states[row, : LENGTHS["caption"][row]]
        for layer in matcher.layer:
            state = attended(layer.attention, state, state)
            state = attended(layer.crossattention, state, tokens)
            inner = torch.nn.functional.gelu(layer.intermediate["dense"](state))
            state = layer.output.LayerNorm(layer.output.dense(inner) + state)
        torch.testing.assert_close(found, matcher.head(state[0]), rtol=0, atol=1e-6)


def test_padding_and_its_values_change_next_to_nothing(matcher, given):
    expected = matcher(*given)
    images, of_images, states, of_states = given
    noise = images + 1e3 * ~of_images[:, :, None], of_images, states + 1e3 * ~of_states[:, :, None], of_states
    wider = [torch.cat([part, torch.zeros_like(part)], dim=1) for part in given]
    for padded in (noise, wider):
        torch.testing.assert_close(matcher(*padded), expected, rtol=0, atol=1e-6)


def test_the_order_of_regions_changes_next_to_nothing_and_that_of_words_does(matcher, given):
    images, of_images, states, of_states = given
    order = torch.tensor([1, 0, 3, 2])
    found = matcher(images[:, order], of_images[:, order], states, of_states)
    torch.testing.assert_close(found, matcher(*given), rtol=0, atol=1e-6)
    turned = matcher(images, of_images, states.roll(1, 1), of_states.roll(1, 1))
    assert (turned - matcher(*given)).abs().max() > 1e-3


@pytest.mark.parametrize("lacking", ["image_pooling", "caption_pooling"])
def test_a_model_without_a_pooling_has_no_matcher(lacking):
    mean, small = Component("mean"), {"layers": 1, "heads": 2, "intermediate": 8}
    parts = {"text": Component("bigru", {"word_dim": 4, "dim": 8}), "matcher": Component("fusion", small)}
    spec = change(MODEL, **{**parts, "image_pooling": mean, "caption_pooling": mean, lacking: None})
    with pytest.raises(VseppError, match=f"^{lacking}: .*'fusion'"):
        JointEmbedding(spec, IMAGE, 9)


def test_heads_that_do_not_divide_the_states_are_refused():
    with pytest.raises(VseppError, match=r"got 3 heads; expected a divisor of the text encoder's dim, 8"):
        Matcher(IMAGE, STATE, dataclasses.replace(OPTIONS, heads=3))


def test_a_model_starts_with_the_same_weights_with_a_matcher_as_without():
    pooled = change(
        MODEL,
        text=Component("bigru", {"word_dim": 4, "dim": 6}),
        image_pooling=Component("gpo"),
        caption_pooling=Component("gpo"),
    )
    fusion = Component("fusion", {"layers": 1, "heads": 2, "intermediate": 8})
    states = []
    for spec in (pooled, change(pooled, matcher=fusion)):
        torch.manual_seed(0)
        states.append(JointEmbedding(spec, 5, 9).state_dict())
    plain, matched = states
    assert {name for name in matched if name.startswith("matcher.")} == matched.keys() - plain.keys()
    assert all(torch.equal(value, matched[name]) for name, value in plain.items())
