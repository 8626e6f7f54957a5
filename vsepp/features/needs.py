"""Memory of a device that an encoder needs, reckoned on the CPU: what data must leave free there."""

from __future__ import annotations

import copy

import torch
from torch import nn

from vsepp.features.frozen import encode_batch
from vsepp.models.encoders import ImageEncoder

# A layer's output, its input, and what a convolution's workspace may take beside them.
_AT_ONCE = 4


def pass_bytes(encoder: ImageEncoder) -> int:
    """Bytes of a frozen pass: weights, and the largest layer's activations a few times over."""
    crops = encode_batch(encoder.spec.input_size, torch.device("cuda"))
    return _weights(encoder) + _AT_ONCE * crops * max(_outputs(encoder), default=0)


def step_bytes(encoder: ImageEncoder, crops: int) -> int:
    """Bytes of a step that trains the encoder on so many crops.

    Weights, gradients and Adam's two moments; the float32 output of every layer, kept for the way back; and on that
    way the largest layer's gradients. An upper bound: what is computed in place, or in bf16, takes less.
    """
    outputs = _outputs(encoder)
    return 4 * _weights(encoder) + crops * (sum(outputs) + _AT_ONCE * max(outputs, default=0))


def _weights(encoder: ImageEncoder) -> int:
    return sum(value.nbytes for value in encoder.state_dict().values())


def _outputs(encoder: ImageEncoder) -> list[int]:
    """Bytes of every layer's output for one crop, from a run on the CPU."""
    # The network alone, and a copy: neither compiled nor put into another mode.
    twin = copy.deepcopy(encoder.network).to("cpu").eval()
    sizes: list[int] = []

    def note(layer: nn.Module, given: object, output: object) -> None:
        if isinstance(output, torch.Tensor):
            sizes.append(output.nbytes)

    for layer in twin.modules():
        if not list(layer.children()):
            layer.register_forward_hook(note)
    side = encoder.spec.input_size
    with torch.no_grad():
        twin(torch.zeros(1, 3, side, side))
    return sizes
