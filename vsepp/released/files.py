"""Read the files of the released code, which are pickles, allowing only the few classes that they need.

A checkpoint names what tensors and containers are made of, and `argparse.Namespace`, the flags of a training. A vocabulary
names its own class.
"""

from __future__ import annotations

import argparse
import io
import pickle
import warnings
from pathlib import Path
from typing import Any

from torch.serialization import safe_globals

from vsepp.data.pickles import load_tensors, refuse_other_names
from vsepp.errors import VseppError
from vsepp.user_files import bytes_of, reading, require_file

EXPECTED = (
    "a file of the released code as its authors published it, unpacked. Nothing in it was executed: fetch it again and compare "
    "its SHA-256"
)
_FLAGS = ("argparse Namespace",)
# vocab.py writes them as the main program, so in its pickles the class belongs to __main__.
_VOCABULARY = ("vocab Vocabulary", "__main__ Vocabulary")


def read_torch(path: Path) -> Any:
    """Read a file of `torch.save`, of PyTorch 0.1.12 to 1.5 (sequential) or of a newer one (zip), onto the CPU.

    Returns
    -------
    object
        Plain values, containers, tensors and `argparse.Namespace`.

    Raises
    ------
    VseppError
        If the file is missing, damaged or names anything else.
    """
    require_file(path, EXPECTED)
    with (
        reading(path, EXPECTED),
        path.open("rb") as stream,
        safe_globals([argparse.Namespace]),
        warnings.catch_warnings(action="ignore"),
    ):
        return load_tensors(stream, _FLAGS)


def read_vocabulary(path: Path) -> dict[str, Any]:
    """Attributes of a pickled `Vocabulary` of the released code.

    Raises
    ------
    VseppError
        If the file is missing, damaged or holds anything else.
    """
    # A new class each time: a pickle can set attributes of what it names.
    vocabulary = type("Vocabulary", (), {})

    class Unpickler(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> type:
            return vocabulary  # all names are known to be its

    pickled = bytes_of(path, EXPECTED)
    with reading(path, EXPECTED):
        refuse_other_names(io.BytesIO(pickled), _VOCABULARY)
        content = Unpickler(io.BytesIO(pickled), encoding="utf-8").load()
    if not isinstance(content, vocabulary):
        raise VseppError(f"{path}: holds a {type(content).__name__}; expected {EXPECTED}")
    return vars(content)
