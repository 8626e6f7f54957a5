"""Memory of a device that an encoder needs, reckoned on the CPU: what data must leave free there."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import nn

from vsepp.data.out_of_memory import gib, memory_there, out_of_memory_explained
from vsepp.data.placement import Placement
from vsepp.features.frozen import encode_batch
from vsepp.models.encoder import ImageEncoder, build_encoder
from vsepp.spec import EncoderSpec

# A layer's output, its input, and what a convolution's workspace may take beside them.
_AT_ONCE = 4
_GPU = torch.device("cuda")


def pass_bytes(encoder: ImageEncoder, device: torch.device = _GPU) -> int:
    """Bytes of a frozen pass: weights, and the largest layer's activations a few times over."""
    crops = encode_batch(encoder.spec.input_size, device)
    return _weights(encoder) + _AT_ONCE * crops * max(_outputs(encoder), default=0)


def step_bytes(encoder: ImageEncoder, crops: int) -> int:
    """Bytes of a step that trains the encoder on so many crops.

    Weights, gradients and Adam's two moments; the float32 output of every layer, kept for the way back; and on that
    way the largest layer's gradients. An upper bound: what is computed in place, or in bf16, takes less.
    """
    outputs = _outputs(encoder)
    return 4 * _weights(encoder) + crops * (sum(outputs) + _AT_ONCE * max(outputs, default=0))


def estimated(spec: EncoderSpec, reckon: Callable[[ImageEncoder], int]) -> str:
    """An estimate in words, from an encoder of the spec made for it on the CPU: what there is may fill a GPU."""
    try:
        return gib(reckon(build_encoder(replace(spec, compile="off"))))
    except (MemoryError, RuntimeError):
        return "more than can be reckoned in the memory that is left"


@contextmanager
def pass_explained(what: str, spec: EncoderSpec, placement: Placement, *, writers: int = 1) -> Iterator[None]:
    """Turn a refusal of memory in a frozen pass into an error that says what to lower; other failures pass.

    Parameters
    ----------
    what
        Which pass, in a few words.
    spec
        The encoder's.
    placement
        Of the image store, with the device.
    writers
        Processes that share the pass.

    Raises
    ------
    VseppError
        Where the host or the GPU has no memory left.
    """

    def explanation() -> str:
        device = placement.device
        needed = estimated(spec, lambda encoder: pass_bytes(encoder, device))
        advice = [
            f"take a smaller encoder than {spec.architecture} or a smaller input_size than {spec.input_size}"
        ]
        if writers > 1:
            advice.insert(0, f"lower resources.tape_writers (--writers), now {writers}")
        return (
            f"The encoder sees {encode_batch(spec.input_size, device)} crops at a time, for which it needs about {needed}; "
            f"{memory_there(device)}. {placement.what_to_lower(*advice)}. What is written is kept: the same "
            "command goes on from it"
        )

    with out_of_memory_explained(what, placement.device, explanation):
        yield


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
