"""Read the files of the released code, which are pickles, allowing only the few classes that they need.

A checkpoint names what tensors and containers are made of, and `argparse.Namespace`, the flags of a training. A vocabulary
names its own class.
"""

from __future__ import annotations

import argparse
import io
import pickle
import re
import tarfile
import warnings
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import torch
from torch.serialization import MAGIC_NUMBER, PROTOCOL_VERSION, safe_globals

from vsepp.data.plain import ZIP, load_tensors, refuse_other_names
from vsepp.errors import VseppError
from vsepp.foreign import require_file

SEQUENTIAL = pickle.dumps(MAGIC_NUMBER, 2) + pickle.dumps(PROTOCOL_VERSION, 2)
"""The beginning of files of PyTorch before 1.6; a description of the machine that wrote them follows."""
# Part of that description; the text's number in the pickle's memo is in between.
_LITTLE_ENDIAN = re.compile(rb"little_endian(q.)?\x88", re.DOTALL)
_FLAGS = ("argparse Namespace",)
# vocab.py writes them as the main program, so in its pickles the class belongs to __main__.
_VOCABULARY = ("vocab Vocabulary", "__main__ Vocabulary")
# These bytes are NaN as a floating-point number and -1 as an integer.
_UNREAD = 0xFF


def read_torch(path: Path) -> Any:
    """Read a file of `torch.save`, of PyTorch 0.1.12 to 1.5 (sequential) or of a newer one (zip), onto the CPU.

    Returns
    -------
    object
        Plain values, containers, tensors and `argparse.Namespace`.

    Raises
    ------
    VseppError
        If the file is missing, damaged, too short or names anything else.
    """
    with _opened(path) as stream:
        start = stream.read(4096)
        stream.seek(0)
        if start.startswith(ZIP):
            return _loaded(stream, path)
        if tarfile.is_tarfile(path):
            raise VseppError(f"{path}: this is an archive; unpack it and give the model_best.pth.tar inside")
        if not start.startswith(SEQUENTIAL):
            _refuse(
                path, "no file of torch.save: its magic number and protocol version are not the known ones"
            )
        if not _LITTLE_ENDIAN.search(start):  # torch does not look at it
            _refuse(path, "its header does not say that its numbers are in the usual byte order")
        return _loaded(stream, path, sequential=True)


def _loaded(stream: BinaryIO, path: Path, sequential: bool = False) -> Any:
    """Result of `torch.load`, for a file whose storages fit into it and are all read."""
    left, storages = path.stat().st_size, []

    def on_cpu(storage: Any, location: str) -> Any:  # an UntypedStorage; torch annotates a class of stubs
        nonlocal left
        left -= storage.nbytes()
        if left < 0:
            raise pickle.UnpicklingError("more numbers are announced than the file has bytes for")
        storages.append(storage)
        if sequential:  # made before it is read
            storage.fill_(_UNREAD)
        return storage

    try:
        with safe_globals([argparse.Namespace]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            content = load_tensors(stream, _FLAGS, on_cpu)
    except Exception as error:  # damaged bytes can raise anything
        # Only its reason: the full message recommends executing the file.
        known = isinstance(error.__context__, pickle.UnpicklingError)
        reason = _reason(error.__context__ if known else error)
        ours = type(error) is pickle.UnpicklingError and not known
        _refuse(path, reason if ours else f"torch.load(weights_only=True) says: {reason}")
    for storage in storages if sequential else ():
        if storage.nbytes() and torch.tensor([], dtype=torch.uint8).set_(storage).eq(_UNREAD).all():
            _refuse(path, "its list of storages is not that of its tensors")
    return content


def read_vocabulary(path: Path) -> dict[str, Any]:
    """Attributes of a pickled `Vocabulary` of the released code.

    Raises
    ------
    VseppError
        If the file is missing, damaged or holds anything else.
    """
    # A new class each time: a pickle can set attributes of what it names.
    kind = type("Vocabulary", (), {})
    with _opened(path) as stream:
        try:
            pickled = stream.read()
            refuse_other_names(io.BytesIO(pickled), _VOCABULARY)
            found = _Unpickler(pickled, kind).load()
        except Exception as error:  # damaged bytes can raise anything
            _refuse(path, f"a damaged or hostile pickle: {_reason(error)}")
    if not isinstance(found, kind):
        _refuse(path, f"it holds a {type(found).__name__}, expected a pickled Vocabulary")
    return vars(found)


class _Unpickler(pickle._Unpickler):
    """The unpickler in Python: with the one in C, a number in a file of ten bytes can take gigabytes."""

    def __init__(self, pickled: bytes, vocabulary: type) -> None:
        super().__init__(io.BytesIO(pickled), encoding="utf-8")
        self._vocabulary = vocabulary

    def find_class(self, module: str, name: str) -> type:
        """The class of vocabularies, and nothing else."""
        if f"{module} {name}" in _VOCABULARY:
            return self._vocabulary
        raise pickle.UnpicklingError(f"it names {module}.{name}, which such a file may not hold")


def _reason(error: BaseException | None) -> str:
    """What torch or the unpickler says of a file, in its first sentence; Python's own errors say nothing of it."""
    if not isinstance(error, pickle.UnpicklingError | RuntimeError | ValueError) or isinstance(
        error, RecursionError
    ):
        return "its bytes are damaged"
    said = str(error).strip().partition("\n")[0]
    for after in (". Please", ". This is"):
        said = said.partition(after)[0]
    return said[:300] if " object at 0x" not in said else "its bytes are damaged"


def _opened(path: Path) -> BinaryIO:
    require_file(path, "a file that the authors released; fetch it, or give its path")
    return path.open("rb")


def _refuse(path: Path, what: str) -> NoReturn:
    raise VseppError(
        f"{path}: refused: {what}. Nothing in it was executed. Expected a file of the released code as its authors "
        "published it: fetch it again and compare its SHA-256"
    )
