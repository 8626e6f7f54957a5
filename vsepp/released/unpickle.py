"""Read the files of the released code, which are pickles, without executing anything in them.

A pickle is a program: it may name any function and call it. Here its opcodes are only parsed by the standard
library (`pickletools`) and interpreted on a stack of plain values. Names are texts, looked up in a short list, and
what they stand for is built by this module: nothing is imported, no attribute is set and no code of a file runs.
"""

from __future__ import annotations

import math
import pickletools
import struct
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from vsepp.errors import VseppError
from vsepp.released.tensors import LegacyTensor, Window

LONGEST_LINE = 1 << 16
MOST_DIMENSIONS = 8

NAMESPACE, VOCABULARY = "argparse.Namespace", "vocab.Vocabulary"

BASIC_NAMES = {
    "collections.OrderedDict": "collections.OrderedDict",
    # Classes in the text protocols 0 and 1, as Python 2 and 3 spell them.
    "copy_reg._reconstructor": "copyreg._reconstructor",
    "copyreg._reconstructor": "copyreg._reconstructor",
    "__builtin__.object": "builtins.object",
    "builtins.object": "builtins.object",
}
# vocab.py is the program that writes the vocabularies, so to its pickles the class is one of __main__.
VOCABULARY_NAMES = BASIC_NAMES | {VOCABULARY: VOCABULARY, "__main__.Vocabulary": VOCABULARY}


@dataclass(frozen=True)
class Name:
    """A class or function that a pickle names."""

    name: str


@dataclass(eq=False)
class Instance:
    """What a pickle says of an object: its class and its attributes."""

    kind: str
    values: dict[str, Any]


def read_vocabulary(path: Path) -> Instance:
    """Read a pickled `Vocabulary` as its attributes.

    Raises
    ------
    VseppError
        When the file is missing, damaged or holds anything else.
    """
    with open_file(path) as stream:
        found = Unpickler(Bounded(stream, path), path, VOCABULARY_NAMES).load()
    if not (isinstance(found, Instance) and found.kind == VOCABULARY):
        refuse(path, f"it holds a {_kind(found)}, expected a pickled Vocabulary")
    return found


def refuse(path: Path, what: str) -> NoReturn:
    """Raise the error of a file that is not read."""
    raise VseppError(
        f"{path}: refused: {what}. Nothing in it was executed. Expected a file of the released code as its authors "
        "published it: fetch it again and compare its SHA-256"
    )


class Bounded:
    """A file that never reads more than it holds, so that a false length costs no memory."""

    def __init__(self, stream: BinaryIO, path: Path) -> None:
        self.stream = stream
        self.size = path.stat().st_size
        self.tell = stream.tell

    def read(self, count: int) -> bytes:
        """`count` bytes, or what is left of the file."""
        return self.stream.read(min(count, self.size - self.tell()))

    def readline(self) -> bytes:
        """A line, of at most 64 KiB."""
        return self.stream.readline(LONGEST_LINE)


class Unpickler:
    """Interpreter of one pickle.

    Parameters
    ----------
    stream
        Positioned at the pickle; left behind its last byte.
    path
        For the messages.
    names
        Name in the file → what it stands for; every other name is refused.
    storage
        Gives the part of a storage that a persistent id stands for; without it such ids are refused.
    """

    def __init__(
        self,
        stream: Bounded,
        path: Path,
        names: dict[str, str],
        storage: Callable[[Any], Window] | None = None,
    ) -> None:
        self._stream, self._path, self._names, self._storage = stream, path, names, storage
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def load(self) -> Any:
        """The value that the pickle describes.

        Raises
        ------
        VseppError
            On a damaged pickle, and on anything that is not on the list.
        """
        try:
            for opcode, argument, _ in pickletools.genops(self._stream):
                self._step(opcode.name, argument)
            return self._pop()
        except (ValueError, KeyError, IndexError, TypeError, OverflowError, struct.error) as error:
            refuse(self._path, f"a damaged or shortened pickle ({error})")

    def _step(self, name: str, argument: Any) -> None:
        if not (self._value(name, argument) or self._container(name) or self._object(name, argument)):
            refuse(self._path, f"the opcode {name}")

    def _value(self, name: str, argument: Any) -> bool:
        """Push a plain value, or move what lies on the stack; false for an opcode that does something else."""
        match name:
            case "PROTO" | "FRAME" | "STOP":
                pass
            case "NONE" | "NEWTRUE" | "NEWFALSE":
                self._stack.append({"NONE": None, "NEWTRUE": True, "NEWFALSE": False}[name])
            case "INT" | "BININT" | "BININT1" | "BININT2" | "LONG" | "LONG1" | "FLOAT" | "BINFLOAT":
                self._stack.append(argument)
            case "BINSTRING" | "SHORT_BINSTRING":
                self._stack.append(_decode(argument))
            case "STRING" | "UNICODE" | "BINUNICODE" | "SHORT_BINUNICODE":
                argument.encode("utf-8")  # half a surrogate pair could not be written again
                self._stack.append(argument)
            case "GET" | "BINGET" | "LONG_BINGET":
                self._stack.append(self._memo[argument])
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                self._memo[argument] = self._stack[-1]
            case "MEMOIZE":
                self._memo[len(self._memo)] = self._stack[-1]
            case "DUP":
                self._stack.append(self._stack[-1])
            case "POP":
                self._pop()
            case "MARK":
                self._marks.append(len(self._stack))
            case "POP_MARK":
                self._above_mark()
            case _:
                return False
        return True

    def _container(self, name: str) -> bool:
        """Build a list, a tuple or a dictionary, or add to one."""
        match name:
            case "EMPTY_LIST" | "EMPTY_TUPLE" | "EMPTY_DICT":
                self._stack.append({"EMPTY_LIST": list, "EMPTY_TUPLE": tuple, "EMPTY_DICT": dict}[name]())
            case "LIST":
                self._stack.append(self._above_mark())
            case "TUPLE":
                self._stack.append(tuple(self._above_mark()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                self._stack.append(tuple(self._popped(int(name[-1]))))
            case "DICT":
                items = self._above_mark()
                self._stack.append({})
                self._set(items)
            case "APPEND":
                self._extend(self._popped(1))
            case "APPENDS":
                self._extend(self._above_mark())
            case "SETITEM":
                self._set(self._popped(2))
            case "SETITEMS":
                self._set(self._above_mark())
            case _:
                return False
        return True

    def _object(self, name: str, argument: Any) -> bool:
        """Name something, or build one of the few objects of the list."""
        match name:
            case "GLOBAL":
                self._stack.append(self._name(argument.replace(" ", ".")))
            case "STACK_GLOBAL":
                self._stack.append(self._name(".".join(self._popped(2))))
            case "REDUCE":
                self._stack.append(self._call(*self._popped(2)))
            case "NEWOBJ":
                self._stack.append(self._instance(*self._popped(2)))
            case "INST":
                self._stack.append(
                    self._instance(self._name(argument.replace(" ", ".")), tuple(self._above_mark()))
                )
            case "OBJ":
                kind, *arguments = self._above_mark()
                self._stack.append(self._instance(kind, tuple(arguments)))
            case "BUILD":
                self._build(self._pop(), self._stack[-1])
            case "BINPERSID" if self._storage is not None:
                self._stack.append(self._storage(self._pop()))
            case _:
                return False
        return True

    def _pop(self) -> Any:
        return self._popped(1)[0]

    def _popped(self, count: int) -> list[Any]:
        if len(self._stack) - count < (self._marks[-1] if self._marks else 0):
            raise ValueError("a value is missing")
        items = self._stack[-count:]
        del self._stack[-count:]
        return items

    def _above_mark(self) -> list[Any]:
        start = self._marks.pop()
        items = self._stack[start:]
        del self._stack[start:]
        return items

    def _extend(self, items: list[Any]) -> None:
        if not isinstance(self._stack[-1], list):
            raise ValueError(f"items appended to a {_kind(self._stack[-1])}")
        self._stack[-1].extend(items)

    def _set(self, items: list[Any]) -> None:
        if not isinstance(self._stack[-1], dict):
            raise ValueError(f"items set in a {_kind(self._stack[-1])}")
        _fill(self._stack[-1], zip(items[::2], items[1::2], strict=True))

    def _name(self, name: str) -> Name:
        if name not in self._names:
            refuse(self._path, f"it names {name}, which is not on the list of what such a file may hold")
        return Name(self._names[name])

    def _build(self, state: Any, built: Any) -> None:
        if isinstance(built, OrderedDict):
            return  # attributes beside a state dict, such as its _metadata
        if not (isinstance(built, Instance) and isinstance(state, dict)):
            refuse(self._path, f"a {_kind(state)} as the state of a {_kind(built)}")
        _fill(built.values, state.items())

    def _instance(self, kind: Any, arguments: Any) -> Instance:
        if kind not in (Name(NAMESPACE), Name(VOCABULARY)) or arguments != ():
            refuse(self._path, f"an object made of {_kind(kind)} with {_kind(arguments)}")
        return Instance(kind.name, {})

    def _call(self, function: Any, arguments: Any) -> Any:
        match function, arguments:
            case Name("torch._utils._rebuild_tensor"), (Window() as window, int(offset), size, stride):
                return self._tensor(window, offset, size, stride)
            case (
                Name("torch._utils._rebuild_tensor_v2"),
                (Window() as window, int(offset), size, stride, bool(), dict()),
            ):
                return self._tensor(window, offset, size, stride)
            case Name("torch.Size"), (tuple(size) | list(size),):
                return tuple(size)
            case Name("collections.OrderedDict"), ():
                return OrderedDict()
            case Name("collections.OrderedDict"), (list(pairs),):
                return _fill(OrderedDict(), pairs)
            case Name("copyreg._reconstructor"), (kind, Name("builtins.object"), None):
                return self._instance(kind, ())
        refuse(self._path, f"a call of {_kind(function)} with {_kind(arguments)}")

    def _tensor(self, window: Window, offset: int, size: Any, stride: Any) -> LegacyTensor:
        if not (_counts(size) and _counts(stride) and len(size) == len(stride) and offset >= 0):
            refuse(self._path, "a tensor whose size, stride or offset are no counts")
        numel = math.prod(size)
        last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        # Strides of zero would let a few numbers pass for any amount of them.
        if numel > window.numel or (numel and last >= window.numel):
            refuse(
                self._path,
                f"a tensor of size {size}, stride {stride} and offset {offset}, which leaves its storage of "
                f"{window.numel} numbers",
            )
        return LegacyTensor(window, offset, size, stride)


def _decode(latin1: str) -> str:
    """Bytes of a Python 2 str as text: UTF-8 where they are UTF-8."""
    try:
        return latin1.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return latin1


def _counts(numbers: Any) -> bool:
    """Whether these are the whole numbers of a few dimensions."""
    if not (isinstance(numbers, tuple) and len(numbers) <= MOST_DIMENSIONS):
        return False
    return all(type(number) is int and 0 <= number < 1 << 63 for number in numbers)


def _fill(target: dict[Any, Any], pairs: Any) -> dict[Any, Any]:
    """Put items into a dictionary that a pickle describes; a key that comes twice is a forgery or damage."""
    for key, value in pairs:
        if type(key) not in (str, int):
            raise ValueError(f"a {_kind(key)} as the key of a dictionary")
        if key in target:
            raise ValueError(f"the key {key!r:.80} comes twice in a dictionary")
        target[key] = value
    return target


def _kind(value: Any) -> str:
    return value.name if isinstance(value, Name) else type(value).__name__


def open_file(path: Path) -> BinaryIO:
    """Open a file for reading; VseppError where it is missing."""
    if not path.is_file():
        raise VseppError(f"{path}: no such file; fetch it, or give the place where it lies")
    return path.open("rb")
