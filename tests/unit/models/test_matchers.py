"""The fusion of X-VLM against torch's own modules."""

import pytest
import torch
from specs import MODEL, change

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
def batch():
    """Four images and captions, padded by zeros, as a matcher takes them."""
    generator = torch.Generator().manual_seed(1)
    images, states = (torch.randn(4, *shape, generator=generator) for shape in ((4, IMAGE), (5, STATE)))
    of_images, of_states = inside(LENGTHS["image"], 4), inside(LENGTHS["caption"], 5)
    return images * of_images[:, :, None], of_images, states * of_states[:, :, None], of_states


def test_padding_and_its_values_change_next_to_nothing(matcher, batch):
    expected = matcher(*batch)
    images, of_images, states, of_states = batch
    noise = images + 1e3 * ~of_images[:, :, None], of_images, states + 1e3 * ~of_states[:, :, None], of_states
    wider = [torch.cat([part, torch.zeros_like(part)], dim=1) for part in batch]
    for padded in (noise, wider):
        torch.testing.assert_close(matcher(*padded), expected, rtol=0, atol=1e-6)


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
