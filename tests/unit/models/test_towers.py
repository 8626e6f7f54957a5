"""The region head and the BiGRU against torch's modules, one set at a time; grids of encoders."""

import copy

import pytest
import specs
import torch
from specs import change
from torch import nn

from vsepp.base.errors import VseppError
from vsepp.base.spec import Component
from vsepp.models.encoder import build_encoder
from vsepp.models.heads.regions import ImageHead, Options
from vsepp.models.text import bigru

LENGTHS = torch.tensor([4, 1, 3])
MODEL = change(specs.MODEL, joint_dim=8, image_pooling=Component("mean"))


def head(**options):
    torch.manual_seed(0)
    image_head = ImageHead(5, MODEL, Options(**options))
    image_head.initialise()
    return image_head


def regions():
    values = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(1))
    return values.masked_fill((torch.arange(4) >= LENGTHS[:, None])[:, :, None], 0.0)


def by_modules(image_head, values):
    """The same of `(m, D_φ)`, from torch's modules in a row."""
    parts = image_head.inner, image_head.norm, nn.ReLU(), image_head.outer
    inner = nn.Sequential(*map(copy.deepcopy, parts))
    return image_head.straight(values) + inner.train(image_head.training)(values)


def test_the_region_head_is_a_map_beside_one_of_two_layers():
    image_head, values = head(), regions()
    for mode in (image_head.train(), image_head.eval()):
        expected = by_modules(mode, values.flatten(0, 1)).unflatten(0, (3, 4))
        torch.testing.assert_close(mode(values, LENGTHS), expected, rtol=0, atol=1e-6)


def test_padding_counts_for_batch_normalisation_where_it_should_and_never_in_evaluation():
    inside = torch.arange(4) < LENGTHS[:, None]
    values = regions()
    wider = torch.cat([values, torch.zeros(3, 2, 5)], dim=1)
    counted, left_out = head(), head(norm_pads=False)
    expected = by_modules(left_out, values[inside])
    torch.testing.assert_close(left_out(values, LENGTHS)[inside], expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(left_out(wider, LENGTHS)[:, :4], left_out(values, LENGTHS), rtol=0, atol=1e-6)
    assert (counted(wider, LENGTHS)[:, :4][inside] - counted(values, LENGTHS)[inside]).abs().max() > 0.01
    counted.eval()
    torch.testing.assert_close(counted(wider, LENGTHS)[:, :4], counted(values, LENGTHS), rtol=0, atol=1e-6)


@pytest.mark.parametrize("norm_pads", [True, False])
def test_parts_of_a_batch_are_normalised_apart_and_the_first_one_moves_the_running_statistics(norm_pads):
    divided, alone = head(norm_parts=2, norm_pads=norm_pads), head(norm_pads=norm_pads)
    values = regions()
    mapped = divided(values, LENGTHS)
    for rows in (slice(0, 2), slice(2, 3)):
        torch.testing.assert_close(mapped[rows], alone(values[rows], LENGTHS[rows]))
        if rows.start == 0:
            for name, value in alone.norm.state_dict().items():
                torch.testing.assert_close(divided.norm.state_dict()[name], value)


def test_the_region_head_has_the_size_of_the_released_one():
    image_head = ImageHead(2048, change(MODEL, joint_dim=1024), Options())
    assert sum(parameter.numel() for parameter in image_head.parameters()) == 3_673_600


def test_the_bigru_is_the_mean_of_both_directions_of_one_caption_at_a_time():
    torch.manual_seed(0)
    text = bigru.TextEncoder(20, bigru.Options(word_dim=6, dim=8))
    ids = torch.randint(0, 20, (3, 4), generator=torch.Generator().manual_seed(0))
    states = text(ids, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        forward, backward = text.gru(text.words(ids[row : row + 1, :length]))[0][0].split(8, dim=1)
        torch.testing.assert_close(states[row, :length], (forward + backward) / 2, rtol=0, atol=1e-6)
        assert (states[row, length:] == 0).all()


@pytest.mark.parametrize(
    ("architecture", "size", "cells"),
    [("mini/resnet_mini", 40, 9), ("torchvision/resnet18", 64, 4), ("lite/efficientnet_lite0", 64, 4)],
)
def test_the_mean_of_an_encoders_grid_is_its_feature(architecture, size, cells):
    if architecture.startswith("lite"):
        pytest.importorskip("efficientnet_lite_pytorch")
    spec = change(specs.ENCODER, architecture=architecture, input_size=size)
    torch.manual_seed(0)
    pooled = build_encoder(spec).eval()
    grid = build_encoder(spec, grid=True).eval()
    grid.network.load_state_dict(pooled.network.state_dict())
    pixels = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        vectors = grid(pixels)
        assert vectors.shape == (2, cells, pooled.dim) and grid.vectors() == cells and pooled.vectors() == 1
        torch.testing.assert_close(vectors.mean(dim=1), pooled(pixels), rtol=0, atol=1e-5)


def test_a_network_without_a_global_average_gives_no_grid():
    with pytest.raises(VseppError, match="mini/vgg_mini has no "):
        build_encoder(change(specs.ENCODER, architecture="mini/vgg_mini"), grid=True)
