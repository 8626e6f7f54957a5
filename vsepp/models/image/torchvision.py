"""Any classification model of torchvision, cut at its penultimate layer.

VGG19 gives FC7: 4096 numbers after the ReLU. The dropout that follows stays in the cut network and is active only in
training mode, as in the released code. ResNet152 gives 2048 globally pooled numbers, ViT-B/16 the class token after the
last layer normalisation (768). Torchvision's GoogLeNet and Inception rescale their input themselves; that is off here, so
their spec's mean and std are .5.
"""

from __future__ import annotations

import urllib.error
from typing import Any

from torch import nn

from vsepp.base.errors import VseppError
from vsepp.models.encoder import CutNetwork

PUBLISHED = "torchvision"
CITATION = (
    "Simonyan and Zisserman, 2015: Very deep convolutional networks for large-scale image recognition (VGG); "
    "He, Zhang, Ren and Sun, 2016: Deep residual learning for image recognition (ResNet); weights of torchvision"
)
_AUXILIARY = ("aux1.", "aux2.", "AuxLogits.")


def architectures() -> list[str]:
    """Names that `build` knows: all classification models of the installed torchvision."""
    import torchvision

    return torchvision.models.list_models(module=torchvision.models)


def build(name: str, input_size: int, options: object = None) -> CutNetwork:
    """Make the network `name` for inputs of `input_size` pixels, without options; random weights under torch's seed."""
    import torchvision

    arguments = _arguments(name, input_size)
    if "aux_logits" in arguments:
        arguments["init_weights"] = True
    return cut(torchvision.models.get_model(name, weights=None, **arguments))


def published(name: str, weights: str, input_size: int, options: object = None) -> CutNetwork:
    """Make the network `name` with the weights that torchvision publishes, downloaded once.

    Parameters
    ----------
    name
        A name of torchvision.
    weights
        `torchvision/<entry of its weights enumeration>`: `torchvision/IMAGENET1K_V1`, `torchvision/DEFAULT`.
    input_size
        Pixels.
    options
        None: the family has no options.

    Raises
    ------
    VseppError
        If there is no such entry, or the download fails.
    """
    import torchvision

    _, _, entry = weights.partition("/")
    entries = torchvision.models.get_model_weights(name).__members__
    if entry not in entries:
        raise VseppError(
            f"encoder torchvision/{name}: no weights {weights!r}; torchvision has "
            f"{', '.join(f'torchvision/{known}' for known in entries)}"
        )
    try:
        model = torchvision.models.get_model(name, weights=entries[entry], **_arguments(name, input_size))
    except (urllib.error.URLError, OSError) as error:
        raise VseppError(
            f"encoder torchvision/{name}: could not download {entries[entry].url}: {error}. Fetch that file "
            "on another machine and name it as the encoder's weights, 'file/<name>', or put it into torch's cache "
            "(TORCH_HOME/hub/checkpoints)"
        ) from error
    except ValueError as error:
        raise VseppError(f"encoder torchvision/{name}: {weights} at {input_size} pixels: {error}") from error
    return cut(model)


def _arguments(name: str, input_size: int) -> dict[str, Any]:
    if name.startswith("vit_"):
        # Its position embeddings are for one size only.
        return {"image_size": input_size}
    if name in ("googlenet", "inception_v3"):
        return {"aux_logits": False}
    return {}


def cut(model: nn.Module) -> CutNetwork:
    """Replace the classifier by the identity: the last linear layer or, without one, the last convolution.

    The feature's size is the number of inputs of the removed layer (SqueezeNet's classifier is a convolution;
    the pooling after it stays).
    """
    if hasattr(model, "transform_input"):
        model.transform_input = False  # type: ignore[assignment]  # a flag
    layers = list(model.named_modules())
    name, layer = next(
        named for kind in (nn.Linear, nn.Conv2d) for named in reversed(layers) if isinstance(named[1], kind)
    )
    dim = layer.in_features if isinstance(layer, nn.Linear) else layer.in_channels
    model.set_submodule(name, nn.Identity())
    return CutNetwork(model, int(dim), (f"{name}.", *_AUXILIARY))
