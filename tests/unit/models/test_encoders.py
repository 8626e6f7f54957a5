"""Encoders of images: their feature, their input, and the files that keep them."""

import json

import pytest
import specs
import torch

from vsepp.base.errors import VseppError
from vsepp.models.encoder import build_encoder, encoder_dim, load_encoder, save_encoder


def spec(architecture, size=40):
    return specs.change(
        specs.ENCODER, architecture=architecture, input_size=size, mean=(0.5, 0.4, 0.3), std=(0.25, 0.2, 0.1)
    )


def encode(encoder, size):
    crops = torch.randint(0, 256, (2, size, size, 3), dtype=torch.uint8)
    with torch.inference_mode():
        return encoder.eval()(encoder.normalise(crops))


@pytest.mark.parametrize("architecture", ["mini/vgg_mini", "mini/resnet_mini"])
@pytest.mark.parametrize("size", [24, 40, 57])
def test_mini_encoders_take_any_size_from_24_pixels(architecture, size):
    encoder = build_encoder(spec(architecture, size))
    features = encode(encoder, size)
    assert features.shape == (2, 128) == (2, encoder.dim)
    assert (features >= 0).all()
    assert (features > 0).any()


def test_normalise_scales_each_channel():
    encoder = build_encoder(spec("mini/vgg_mini", 24))
    crops = torch.zeros(2, 24, 24, 3, dtype=torch.uint8)
    crops[0, 5, 7] = torch.tensor([255, 102, 51], dtype=torch.uint8)
    pixels = encoder.normalise(crops)
    assert pixels.shape == (2, 3, 24, 24)
    torch.testing.assert_close(pixels[0, :, 5, 7], torch.tensor([2.0, 0.0, -1.0]))
    torch.testing.assert_close(pixels[1, :, 0, 0], torch.tensor([-2.0, -2.0, -3.0]))
    assert (crops[1] == 0).all()


@pytest.mark.parametrize("architecture", ["timm/vgg19", "torchvision/vgg20"])
def test_an_unknown_architecture_is_named(architecture):
    with pytest.raises(VseppError, match=r"'.*(timm|vgg20)'"):
        build_encoder(spec(architecture))


@pytest.mark.parametrize("architecture", ["mini/vgg_mini", "mini/resnet_mini"])
def test_a_saved_encoder_gives_the_same_features(tmp_path, architecture):
    torch.manual_seed(5)
    encoder = build_encoder(spec(architecture)).train()
    # Statistics of batch normalisation are weights too.
    encoder(torch.randn(8, 3, 40, 40))
    save_encoder(encoder, tmp_path / "encoder")
    description = json.loads((tmp_path / "encoder" / "encoder.json").read_text())
    assert description["dim"] == 128
    assert description["architecture"] == architecture
    loaded = load_encoder(spec(architecture), tmp_path / "encoder")
    pixels = torch.randn(4, 3, 40, 40)
    assert torch.equal(loaded.eval()(pixels), encoder.eval()(pixels))


def test_the_weights_of_another_architecture_are_refused(tmp_path):
    save_encoder(build_encoder(spec("mini/vgg_mini")), tmp_path)
    with pytest.raises(VseppError, match=r"encoder\.safetensors: .*\b0\.weight \[16, 3, 3, 3\]"):
        load_encoder(spec("mini/resnet_mini"), tmp_path)


@pytest.mark.parametrize("name", ["encoder.safetensors", "encoder.json"])
def test_a_damaged_file_is_named(tmp_path, name):
    save_encoder(build_encoder(spec("mini/vgg_mini")), tmp_path)
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(VseppError, match=rf"{name}: .*delete"):
        load_encoder(spec("mini/vgg_mini"), tmp_path)
        encoder_dim(tmp_path)


def test_vit_minis_feature_is_the_normalised_class_token_of_one_size_of_input():
    encoder = build_encoder(spec("vit/vit_mini", 40)).eval()
    pixels = torch.randn(3, 3, 40, 40)
    tokens = []
    encoder.network.encoder.ln.register_forward_hook(lambda module, inputs, outputs: tokens.append(outputs))
    features = encoder(pixels)
    assert features.shape == (3, 128) and tokens[0].shape == (3, 1 + 5 * 5, 128)
    assert torch.equal(features, tokens[0][:, 0])
    with pytest.raises(AssertionError, match="Wrong image height"):
        encoder(torch.randn(3, 3, 48, 48))
