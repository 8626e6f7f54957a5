"""Compiled networks: equal features and names of weights, and errors that say what to do."""

import pytest
import specs
import torch
from closeness import assert_near
from processes import python
from torch import nn

from vsepp.errors import VseppError
from vsepp.models.encoder import CutNetwork, ImageEncoder
from vsepp.runtime.memory import out_of_memory_explained


def make(compile: str) -> ImageEncoder:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return ImageEncoder(specs.change(specs.ENCODER, compile=compile), CutNetwork(network, 4)).eval()


def crops(count: int) -> torch.Tensor:
    return torch.randint(0, 256, (count, 8, 8, 3), dtype=torch.uint8, generator=torch.manual_seed(1))


def features(encoder: ImageEncoder, images: torch.Tensor) -> torch.Tensor:
    return encoder(encoder.normalise(images))


@pytest.mark.whole
def test_a_compiled_network_gives_the_same_features_and_gradients_under_the_same_names():
    plain, compiled = make("off"), make("default")
    with torch.inference_mode():
        expected, found = features(plain, crops(6)), features(compiled, crops(6))
        assert torch.equal(features(compiled, crops(6)), found)
    assert_near(found, expected, 1e-5)
    assert list(compiled.state_dict()) == list(plain.state_dict())
    for encoder in (plain, compiled):
        features(encoder, crops(6)).square().sum().backward()
    gradients = [encoder.network[0].weight.grad.flatten() for encoder in (compiled, plain)]
    assert_near(*gradients, 1e-5)


def test_without_a_compiler_the_error_says_what_to_install_or_set():
    from torch._inductor import config

    with (
        config.patch({"cpp.cxx": ("no-such-compiler",), "force_disable_caches": True}),
        pytest.raises(VseppError, match=r"mini/vgg_mini could not be compiled on cpu.*g\+\+.*compile: off"),
    ):
        features(make("default"), crops(5))


def test_a_lack_of_memory_while_compiling_is_told_as_one():
    from torch._dynamo.exc import BackendCompilerFailed

    class Refusing(nn.Module):
        def forward(self, pixels):
            raise BackendCompilerFailed("inductor", torch.OutOfMemoryError("CUDA out of memory"), None)

    encoder = make("default")
    encoder.network = Refusing()
    with (
        pytest.raises(VseppError, match=r"features: out of memory on cpu \(.*Memory.*\); ") as caught,
        out_of_memory_explained("features"),
    ):
        features(encoder, crops(2))
    assert "could not be compiled" not in str(caught.value)


def test_the_compiler_is_not_imported_by_a_step_where_it_is_off():
    code = (
        "import sys, specs, torch; from vsepp.models.encoder import build_encoder; from vsepp.training.optimisers.adam import Optimiser;"
        "encoder = build_encoder(specs.ENCODER); weights = list(encoder.parameters()); adam = Optimiser(enumerate(weights), 0.1);"
        "encoder(torch.zeros(1, 3, 24, 24)).sum().backward(); torch.nn.utils.clip_grad_norm_(weights, 1.0);"
        "adam.step(); adam.zero_grad();"
        "assert not [name for name in sys.modules if name.startswith(('torch._dynamo', 'torch._inductor'))]"
    )
    python(code)
