import json
import re
from pathlib import Path

import pytest
import specs
import torch
from processes import python

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


@pytest.mark.parametrize(
    ("architecture", "said"),
    [
        ("mini/vgg_maxi", "'mini/vgg_maxi'.*resnet_mini, vgg_mini"),
        ("timm/vgg19", "'timm'.*lite, mini, torchvision"),
        ("base/vgg19", "'base'.*lite, mini, torchvision"),
        ("torchvision/vgg20", "'torchvision/vgg20'.*vgg19"),
    ],
)
def test_unknown_architectures_are_refused_with_a_list_of_known_ones(architecture, said):
    with pytest.raises(VseppError, match=said):
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


def test_loading_refuses_another_architecture_and_an_incomplete_folder(tmp_path):
    save_encoder(build_encoder(spec("mini/vgg_mini")), tmp_path)
    with pytest.raises(
        VseppError, match=r"encoder\.safetensors: .*'mini/resnet_mini'.*\b0\.weight \[16, 3, 3, 3\]"
    ):
        load_encoder(spec("mini/resnet_mini"), tmp_path)
    (tmp_path / "encoder.safetensors").unlink()
    with pytest.raises(VseppError, match=r"encoder\.safetensors: no such file"):
        load_encoder(spec("mini/vgg_mini"), tmp_path)
    assert encoder_dim(tmp_path) == 128


def halved(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def without_dim(path):
    path.write_text(
        json.dumps({key: value for key, value in json.loads(path.read_text()).items() if key != "dim"})
    )


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("encoder.safetensors", halved),
        ("encoder.safetensors", lambda path: path.write_bytes(b"x" * 100)),
        ("encoder.safetensors", lambda path: path.write_bytes(b"")),
        ("encoder.safetensors", lambda path: torch.save({"0.weight": torch.ones(2)}, path)),
        ("encoder.safetensors", lambda path: path.write_bytes((1 << 40).to_bytes(8, "little") + b"{}")),
        ("encoder.json", halved),
        ("encoder.json", without_dim),
        ("encoder.json", Path.unlink),
    ],
)
def test_a_damaged_folder_is_one_sentence_that_names_the_file_and_what_to_delete(tmp_path, name, damage):
    save_encoder(build_encoder(spec("mini/vgg_mini")), tmp_path)
    damage(tmp_path / name)
    with pytest.raises(VseppError, match=rf"{re.escape(str(tmp_path / name))}: .*delete"):
        load_encoder(spec("mini/vgg_mini"), tmp_path)
        encoder_dim(tmp_path)


def test_vit_minis_feature_is_the_normalised_class_token_of_one_size_of_input():
    encoder = build_encoder(spec("vit/vit_mini", 40)).eval()
    pixels = torch.randn(3, 3, 40, 40)
    kept = []
    encoder.network.encoder.ln.register_forward_hook(lambda module, given, made: kept.append(made))
    found = encoder(pixels)
    assert found.shape == (3, 128) and kept[0].shape == (3, 1 + 5 * 5, 128)
    assert torch.equal(found, kept[0][:, 0])
    with pytest.raises(AssertionError, match="Wrong image height"):
        encoder(torch.randn(3, 3, 48, 48))


def test_loading_imports_no_compiler(tmp_path):
    code = (
        "import sys, specs; from pathlib import Path; from safetensors.torch import save_file; from torch import nn;"
        "from vsepp.models import weights; from vsepp.models.encoder import build_encoder;"
        "build = lambda shapes: nn.ModuleList([nn.Embedding(2, 3), build_encoder(specs.ENCODER)]);"
        "state = {name: values.contiguous() for name, values in build({}).state_dict().items()};"
        "save_file(state, sys.argv[1]); weights.load(Path(sys.argv[1]), build, 'these');"
        "assert 'sympy' not in sys.modules"
    )
    python(code, str(tmp_path / "weights.safetensors"))
