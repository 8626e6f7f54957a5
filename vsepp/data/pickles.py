"""Read pickles that others published, of which every name stands in a list of plain values.

A pickle is a program: it can name any function and call it. So its names are compared with the list before anything is made
of it, and then the strictest unpickler there is makes it. Nothing else in the package unpickles what others wrote.
"""

from __future__ import annotations

import pickletools
import zipfile
from collections.abc import Collection
from typing import Any, BinaryIO

import torch

from vsepp.errors import VseppError

_ZIP = b"PK\x03\x04"
_STORAGES = ("Bool", "Byte", "Char", "Short", "Int", "Long", "Half", "BFloat16", "Float", "Double")
TENSORS = frozenset(
    {
        "collections OrderedDict",
        "torch._utils _rebuild_parameter",
        "torch._utils _rebuild_tensor",
        "torch._utils _rebuild_tensor_v2",
        *(f"{module} {kind}Storage" for module in ("torch", "torch.cuda") for kind in _STORAGES),
    }
)
"""Module and name of all that a dictionary of tensors is made of."""
_LATEST_PROTOCOL = 2  # the one of Python 2, and of `torch.save` to this day
# Pickles in a file of PyTorch before 1.6: magic number, protocol, machine, content, list of storages.
_PICKLES_IN_A_ROW = 5


def load_tensors(stream: BinaryIO, also: Collection[str] = ()) -> Any:
    """Content of a file of `torch.save`, on the CPU: tensors, containers, and plain values of classes that are named.

    Parameters
    ----------
    stream
        At the beginning of the file.
    also
        Names to allow beside those of tensors, as `module name`. `torch.load` must know them as well.

    Raises
    ------
    VseppError
        If it names anything else. Damaged bytes can raise any exception.
    """
    allowed = TENSORS | set(also)
    is_zip = stream.read(len(_ZIP)) == _ZIP
    stream.seek(0)
    if is_zip:
        with zipfile.ZipFile(stream) as archive:
            (content,) = (entry for entry in archive.infolist() if entry.filename.endswith("data.pkl"))
            with archive.open(content) as pickled:
                refuse_other_names(pickled, allowed)
    else:
        for _ in range(_PICKLES_IN_A_ROW):
            refuse_other_names(stream, allowed)
    stream.seek(0)
    return torch.load(stream, map_location="cpu", weights_only=True)


def refuse_other_names(stream: Any, allowed: Collection[str]) -> None:
    """Read one pickle without making anything of it.

    Parameters
    ----------
    stream
        At the beginning of the pickle, afterwards at its end.
    allowed
        What it may name, as `module name`.

    Raises
    ------
    VseppError
        If it names anything else, or is of a protocol that the files of the field do not have. Damaged bytes can raise any
        exception.
    """
    for code, argument, _ in pickletools.genops(stream):
        if code.name in ("GLOBAL", "INST") and argument not in allowed:
            name = str(argument).replace(" ", ".")
            raise VseppError(f"it names {name:.100}, which such a file may not hold")
        if code.proto > _LATEST_PROTOCOL or code.name.startswith("EXT"):
            raise VseppError(f"it has the instruction {code.name}, which such a file may not hold")
