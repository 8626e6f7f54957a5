"""Networks that `torch.compile` translates, with errors that say what to change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from vsepp.errors import VseppError
from vsepp.runtime.memory import is_out_of_memory
from vsepp.spec import EncoderSpec


def compile_network(network: nn.Module, spec: EncoderSpec) -> None:
    """Let `torch.compile` translate a network when it is first called; its parameters keep their names.

    Each shape of batch is translated for itself. A shape that stands for all would come to be with the second one
    that is seen, so that the last bits of a training would depend on where it was taken up again.

    Parameters
    ----------
    network
        Changed in place.
    spec
        Its `compile` is not `off`.
    """
    mode = "reduce-overhead" if spec.compile == "cuda_graphs" else "default"
    network.compile(mode=mode, dynamic=False)


@contextmanager
def explained(spec: EncoderSpec, device: torch.device) -> Iterator[None]:
    """Call a compiled network within: a failure to compile says what to do.

    Parameters
    ----------
    spec
        Its `compile` is not `off`.
    device
        Where the network computes.

    Raises
    ------
    VseppError
        For CUDA graphs on another device than a GPU, and where compiling fails, as without a compiler. A lack of memory
        passes as it is.
    """
    from torch._dynamo.exc import TorchDynamoException

    if spec.compile == "cuda_graphs":
        if device.type != "cuda":
            raise VseppError(
                f"encoder {spec.name!r}: compile is 'cuda_graphs', but it computes on {device.type}, expected a GPU; "
                "set compile: default or compile: off in the preset's encoders"
            )
        torch.compiler.cudagraph_mark_step_begin()
    try:
        yield
    except TorchDynamoException as error:
        if is_out_of_memory(error):  # told as any other lack of memory, by who knows what else takes it
            raise
        said = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise VseppError(
            f"encoder {spec.name!r}: compile is {spec.compile!r}, but {spec.architecture} could not be compiled on "
            f"{device.type}: {said}. It needs a C++ compiler (g++, or the one that the variable CXX names); install "
            "one, or set compile: off in the preset's encoders"
        ) from error
