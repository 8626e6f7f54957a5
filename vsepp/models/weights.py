"""Weights of networks: read from a file, and put into a module. Every file of weights is read here."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.overrides import TorchFunctionMode
from torch.serialization import safe_globals

from vsepp.base.digests import file_digest
from vsepp.base.errors import VseppError
from vsepp.base.files import reading, require_file, shortly

EXPECTED = (
    "weights (parameter name → tensor); delete the file, then run the step that makes it or fetch it again"
)
# How torch says what it does not load.
_UNSAFE = re.compile(r"GLOBAL ([\w.]+)")
# Torchvision names a file after the first digits of its SHA-256: vgg19-dcbb9e9d.pth.
_NAMED_AFTER_SUM = re.compile(r"-([0-9a-f]{8,64})\.pth$")
# A network is made whole and then cut; what is cut off has fewer parameters than this.
_CUT_OFF = 1000

Network = TypeVar("Network", bound=nn.Module)
Shapes = Mapping[str, torch.Tensor]
"""Name of a parameter → tensor without memory, of its shape."""


def read(path: Path, name: str = "") -> dict[str, torch.Tensor]:
    """Read a state dict onto the CPU: a `.safetensors` file, or any other name for a file of `torch.save`.

    Parameters
    ----------
    path
        The file.
    name
        What it is called where it comes from. A name such as `vgg19-dcbb9e9d.pth`, this one or the path's, promises a checksum.

    Raises
    ------
    VseppError
        If the file is missing, does not have the checksum that a name promises, is damaged or holds anything else.
    """
    require_file(path, EXPECTED)
    for promise in filter(None, map(_NAMED_AFTER_SUM.search, (name, path.name))):
        if not (digest := file_digest(path)).startswith(promise[1]):
            raise VseppError(
                f"{path}: its SHA-256 is {digest}, expected one that starts with {promise[1]}, as the name {promise.string} "
                "says; it is damaged or a different file: fetch it again. If the digits are not a checksum, rename it"
            )
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        with reading(path, EXPECTED, kinds=("safetensors",)):
            return load_file(path)
    state = unpickle(path, EXPECTED)
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise VseppError(
            f"{path}: holds {shortly(state)}; expected {EXPECTED}. Save model.state_dict() alone"
        )
    return state


def load(path: Path, build: Callable[[Shapes], Network], owner: str, prefix: str = "") -> Network:
    """A module with the weights of a file. Sizes are compared before memory is taken for either: first only the file's header is read.

    Parameters
    ----------
    path
        A `.safetensors` file.
    build
        Makes the module, given what the header says.
    owner
        Whose weights they should be, for the message.
    prefix
        What the module's names begin with, and the file's do not.

    Raises
    ------
    VseppError
        If the file is no such file, or naming the parameters that are missing, unknown or of another shape.
    """
    from safetensors import safe_open

    require_file(path, EXPECTED)
    with reading(path, EXPECTED, kinds=("safetensors",)), safe_open(path, "pt") as stream:
        shapes = {
            prefix + name: torch.empty(stream.get_slice(name).get_shape(), device="meta")
            for name in list(stream.keys())
        }
    try:
        with _Undrawn(), torch.device("meta"), _at_most(2 * len(shapes) + _CUT_OFF):
            sizes = build(shapes)
    except (RuntimeError, OverflowError, MemoryError, TypeError) as error:
        raise VseppError(
            f"{path}: not the weights of {owner}: no memory holds its sizes ({str(error).partition(chr(10))[0]})"
        ) from error
    if problems := misfits(sizes, shapes):
        raise VseppError(f"{path}: not the weights of {owner}: {problems}")
    with _Undrawn():
        module = build(shapes)
    module.load_state_dict({prefix + name: values for name, values in read(path).items()})
    return module


class _Undrawn(TorchFunctionMode):
    """Draws no initial weights: a file replaces all of them. Drawing VGG19's takes longer than reading them, and for weights without memory
    torch would import its compiler.
    """

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        if function in _DRAWING or getattr(function, "__module__", None) == nn.init.__name__:
            return [*args, *named.values()][0]
        return function(*args, **named)


_DRAWING = (torch.Tensor.normal_, torch.Tensor.uniform_)


@contextmanager
def _at_most(parameters: int) -> Iterator[None]:
    """Stop the making of a module that has more parameters: a number of layers can be as large as a size."""
    numbers = count(1)

    def counted(module: nn.Module, name: str, parameter: nn.Parameter) -> None:
        if next(numbers) > parameters:
            raise OverflowError(f"more than {parameters:,} parameters")

    hook = register_module_parameter_registration_hook(counted)
    try:
        yield
    finally:
        hook.remove()


def unpickle(path: Path, expected: str, classes: Sequence[Any] = ()) -> Any:
    """Read a file of `torch.save` onto the CPU, without executing any pickle.

    Parameters
    ----------
    path
        The file, of PyTorch 0.1.12 to 1.5 (sequential) or newer (zip).
    expected
        What it should hold, for the message.
    classes
        What the file may name beside tensors and containers: classes, or pairs of what stands in for a name and the name.

    Raises
    ------
    VseppError
        If the file is missing, damaged or names anything else.
    """
    require_file(path, expected)
    with reading(path, expected), safe_globals(list(classes)):
        try:
            return torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # torch's own, of the pickle module
            if not (named := _UNSAFE.search(str(error))):
                raise
            raise VseppError(
                f"it names {named[1]}, which such a file may not hold; expected {expected}"
            ) from error


def misfits(module: nn.Module, state: Mapping[str, torch.Tensor]) -> str:
    """Parameters of a state dict that are missing, unknown or of another shape than the module's; empty if it fits."""
    own = module.state_dict()
    kinds = {
        "missing": [name for name in own if name not in state],
        "unknown": [name for name in state if name not in own],
        "of another shape": [
            f"{name} {list(state[name].shape)} for {list(own[name].shape)}"
            for name in own
            if name in state and state[name].shape != own[name].shape
        ],
    }
    return "; ".join(
        f"{kind}: {textwrap.shorten(', '.join(names), 200, placeholder=' and more')}"
        for kind, names in kinds.items()
        if names
    )


def put(module: nn.Module, state: Mapping[str, torch.Tensor], source: object, owner: str) -> None:
    """Load a state dict into a module.

    Parameters
    ----------
    module, state
        The module, and values of all its parameters and buffers. Files of PyTorch before 0.4.1 lack the counters of batch normalisation,
        which nothing here reads: these are set to zero.
    source, owner
        Where the weights come from, and whose they should be, for the message.

    Raises
    ------
    VseppError
        Naming the parameters that are missing, unknown or of another shape.
    """
    counters = {
        name: torch.zeros_like(value)
        for name, value in module.state_dict().items()
        if name.endswith("num_batches_tracked")
    }
    state = counters | dict(state)
    if problems := misfits(module, state):
        raise VseppError(f"{source}: not the weights of {owner}: {problems}")
    module.load_state_dict(state)
