"""Write files as Python 2 with PyTorch 0.2 to 0.4 did: pickles of protocol 2, and sequential torch files."""

import io
import pickle
import struct
from collections import OrderedDict
from dataclasses import dataclass
from typing import ClassVar

import torch

MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
SYSTEM = {
    "protocol_version": PROTOCOL,
    "little_endian": True,
    "type_sizes": {"short": 2, "int": 4, "long": 4},
}
STORAGES = {
    torch.float32: "FloatStorage",
    torch.float64: "DoubleStorage",
    torch.float16: "HalfStorage",
    torch.int64: "LongStorage",
}


class Unicode(str):
    """Python 2's `unicode`; a plain str is written as its `str`, bytes."""


@dataclass(frozen=True)
class Raw:
    """Opcodes as they are."""

    code: bytes


@dataclass(frozen=True)
class Program:
    """Values and opcodes, one after the other."""

    parts: tuple


def named(name):
    """What a module has under a name."""
    module, _, name = name.rpartition(".")
    return Raw(f"c{module}\n{name}\n".encode())


def call(function, *arguments):
    return Program((function, arguments, Raw(b"R")))


def instance(kind, values):
    """An object of a new-style class with its `__dict__`."""
    return Program((kind, Raw(b")\x81"), values, Raw(b"b")))


def persistent(*reference):
    return Program((reference, Raw(b"Q")))


def state_dict(values):
    """An OrderedDict with attributes of its own, as `state_dict` gives it since 0.4."""
    attributes = {"_metadata": OrderedDict({"": {"version": 1}})}
    return Program((OrderedDict(values), attributes, Raw(b"b")))


def namespace(**values):
    return instance(named("argparse.Namespace"), values)


def vocabulary(words, name="__main__.Vocabulary", **changes):
    """The authors' pickle was made by vocab.py as a program, so its class is of __main__."""
    words = [word if word.startswith("<") else Unicode(word) for word in words]
    values = {
        "idx": len(words),
        "word2idx": {word: i for i, word in enumerate(words)},
        "idx2word": dict(enumerate(words)),
    }
    return instance(named(name), {**values, **changes})


class Pickler(pickle._Pickler):
    """Python 3's pickler in Python, with what Python 2 and the old PyTorch wrote otherwise."""

    def __init__(self, version="0.3", device="cuda:0"):
        self.written = io.BytesIO()
        super().__init__(self.written, protocol=2)
        self.version, self.device = version, device
        self.tensors = {}

    def dump(self, value):
        """The pickle of a value."""
        super().dump(value)
        return self.written.getvalue()

    def save_text(self, value):
        raw = value.encode() if isinstance(value, str) else value
        head = b"U" + bytes([len(raw)]) if len(raw) < 256 else b"T" + struct.pack("<i", len(raw))
        self.write(head + raw)
        self.memoize(value)

    def save_program(self, value):
        for part in value.parts:
            self.save(part)

    def save_ordered(self, value):
        self.save(call(named("collections.OrderedDict"), [[key, item] for key, item in value.items()]))

    def save_tensor(self, value):
        self.tensors[str(value.untyped_storage().data_ptr())] = value
        view = (self.storage(value), value.storage_offset(), tuple(value.shape), value.stride())
        if self.version == "0.4":
            self.save(call(named("torch._utils._rebuild_tensor_v2"), *view, False, OrderedDict()))
        else:
            self.save(call(named("torch._utils._rebuild_tensor"), *view))

    dispatch: ClassVar = {
        **pickle._Pickler.dispatch,
        str: save_text,
        bytes: save_text,
        Unicode: pickle._Pickler.save_str,
        Raw: lambda self, value: self.write(value.code),
        Program: save_program,
        OrderedDict: save_ordered,
        torch.Tensor: save_tensor,
    }

    def storage(self, value, numel=None, view=None):
        """What stands for the numbers of a tensor, or claims to be more or fewer of them."""
        device = "torch.cuda." if self.device.startswith("cuda") else "torch."
        storage = value.untyped_storage()
        count = storage.nbytes() // value.itemsize if numel is None else numel
        kind = named(device + STORAGES[value.dtype])
        return persistent("storage", kind, str(storage.data_ptr()), self.device, count, view)

    def numbers(self):
        """The list of storages, and their numbers."""
        listed = Pickler().dump(list(self.tensors))
        for tensor in self.tensors.values():
            raw = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage()).numpy().tobytes()
            listed += struct.pack("<q", len(raw) // tensor.itemsize) + raw
        return listed


HEAD = b"".join(Pickler().dump(value) for value in (MAGIC, PROTOCOL, SYSTEM))


def write_torch(path, content, **options):
    """Write `content` as `torch.save` did; give the path."""
    pickler = Pickler(**options)
    body = pickler.dump(content)
    path.write_bytes(HEAD + body + pickler.numbers())
    return path


PROGRESS = {"epoch": 27, "best_rsum": 401.5, "Eiters": 12345}


def image_state(feature, dim, seed=1):
    """Weights of the image side, drawn at random, under the names of the released code."""
    torch.manual_seed(seed)
    return {f"fc.{key}": value.detach() for key, value in torch.nn.Linear(feature, dim).state_dict().items()}


def text_state(words, word_dim, dim, seed=0):
    """Weights of the caption side, likewise."""
    torch.manual_seed(seed)
    gru, embedding = torch.nn.GRU(word_dim, dim), torch.nn.Embedding(words, word_dim)
    state = {"embed.weight": embedding.weight.detach()}
    return state | {f"rnn.{key}": value.detach() for key, value in gru.state_dict().items()}


def write_released(path, image, text, flags, **options):
    """Write a checkpoint of the released code; give the path."""
    content = {**PROGRESS, "model": [state_dict(image), state_dict(text)], "opt": namespace(**flags)}
    return write_torch(path, content, **options)


def write_pickle(path, value):
    path.write_bytes(Pickler().dump(value))
    return path
