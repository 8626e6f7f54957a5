"""Write files as Python 2 with PyTorch 0.2 to 0.4 did: pickles of protocol 2 and 0, and sequential torch files.

No pickle module is used: it would give Python 3's strings and the present torch's structure.
"""

import struct
from collections import OrderedDict
from dataclasses import dataclass, field

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
class Global:
    name: str

    @property
    def code(self):
        module, _, name = self.name.rpartition(".")
        return f"c{module}\n{name}\n".encode()


@dataclass(frozen=True)
class Call:
    function: Global
    arguments: tuple


@dataclass(frozen=True)
class New:
    """An object of a new-style class with its `__dict__`."""

    kind: Global
    values: dict


@dataclass(frozen=True)
class Persistent:
    reference: object


@dataclass
class StateDict:
    """An OrderedDict with attributes of its own, as `state_dict` gives it since 0.4."""

    values: dict
    metadata: dict = field(default_factory=lambda: {"": {"version": 1}})


def namespace(**values):
    return New(Global("argparse.Namespace"), values)


def vocabulary(words, name="__main__.Vocabulary", **changes):
    """The authors' pickle was made by vocab.py as a program, so its class is of __main__."""
    words = [word if word.startswith("<") else Unicode(word) for word in words]
    values = {
        "idx": len(words),
        "word2idx": {word: i for i, word in enumerate(words)},
        "idx2word": dict(enumerate(words)),
    }
    return New(Global(name), {**values, **changes})


class Pickler:
    """Opcodes of protocol 2, with a memo entry for every container and text as cPickle makes them."""

    def __init__(self, version="0.3", device="cuda:0"):
        self.version, self.device = version, device
        self.tensors = {}
        self.memo = {}
        self.kept = []

    def dump(self, value):
        return b"\x80\x02" + self.code(value) + b"."

    def code(self, value):
        if id(value) in self.memo:
            return (
                b"h" + bytes([self.memo[id(value)]]) if self.memo[id(value)] < 256 else self.long_get(value)
            )
        return self.fresh(value)

    def long_get(self, value):
        return b"j" + struct.pack("<I", self.memo[id(value)])

    def put(self, value):
        self.kept.append(value)  # so that no other value gets its id
        number = self.memo[id(value)] = len(self.memo)
        return b"q" + bytes([number]) if number < 256 else b"r" + struct.pack("<I", number)

    def fresh(self, value):
        match value:
            case None:
                return b"N"
            case bool():
                return b"\x88" if value else b"\x89"
            case int():
                return self.integer(value)
            case float():
                return b"G" + struct.pack(">d", value)
            case Unicode():
                text = value.encode()
                return b"X" + struct.pack("<I", len(text)) + text + self.put(value)
            case str() | bytes():
                return self.byte_string(value)
            case Raw() | Global():
                return value.code
            case tuple():
                return self.sequence(value)
            case list():
                items = b"".join(map(self.code, value))
                return b"]" + self.put(value) + b"(" + items + b"e"
            case OrderedDict():
                pairs = [[key, item] for key, item in value.items()]
                return self.code(Call(Global("collections.OrderedDict"), (pairs,)))
            case dict():
                start = b"}" + self.put(value)
                return start + b"(" + b"".join(self.code(key) + self.code(value[key]) for key in value) + b"u"
            case StateDict():
                attributes = self.code({"_metadata": OrderedDict(value.metadata)})
                return self.code(OrderedDict(value.values)) + attributes + b"b"
            case Call():
                return self.code(value.function) + self.code(value.arguments) + b"R"
            case New():
                return self.code(value.kind) + b")\x81" + self.code(value.values) + b"b"
            case Persistent():
                return self.code(value.reference) + b"Q"
            case torch.Tensor():
                return self.tensor(value)
        raise TypeError(type(value))

    def integer(self, value):
        for code, form, low, high in (
            ("K", "<B", 0, 1 << 8),
            ("M", "<H", 0, 1 << 16),
            ("J", "<i", -(1 << 31), 1 << 31),
        ):
            if low <= value < high:
                return code.encode() + struct.pack(form, value)
        raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        return b"\x8a" + bytes([len(raw)]) + raw

    def byte_string(self, value):
        raw = value.encode() if isinstance(value, str) else value
        if len(raw) < 256:
            return b"U" + bytes([len(raw)]) + raw + self.put(value)
        return b"T" + struct.pack("<i", len(raw)) + raw + self.put(value)

    def sequence(self, value):
        items = b"".join(map(self.code, value))
        if len(value) <= 3:
            return items + [b")", b"\x85", b"\x86", b"\x87"][len(value)]
        return b"(" + items + b"t"

    def tensor(self, value):
        storage = value.untyped_storage()
        self.tensors[str(storage.data_ptr())] = value
        size, stride = tuple(value.shape), value.stride()
        arguments = (self.storage(value), value.storage_offset(), size, stride)
        if self.version == "0.4":
            call = Call(Global("torch._utils._rebuild_tensor_v2"), (*arguments, False, OrderedDict()))
        else:
            call = Call(Global("torch._utils._rebuild_tensor"), arguments)
        return self.code(call)

    def storage(self, value, numel=None, view=None):
        device = "torch.cuda." if self.device.startswith("cuda") else "torch."
        kind = Global(device + STORAGES[value.dtype])
        storage = value.untyped_storage()
        count = storage.nbytes() // value.itemsize if numel is None else numel
        return Persistent(("storage", kind, str(storage.data_ptr()), self.device, count, view))

    def numbers(self):
        """The list of storages, and their numbers."""
        listed = Pickler().dump(list(self.tensors))
        for tensor in self.tensors.values():
            raw = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage()).numpy().tobytes()
            listed += struct.pack("<q", len(raw) // tensor.itemsize) + raw
        return listed


def write_torch(path, content, **options):
    """Write `content` as `torch.save` did; give the path."""
    pickler = Pickler(**options)
    head = b"".join(Pickler().dump(value) for value in (MAGIC, PROTOCOL, SYSTEM))
    body = pickler.dump(content)
    path.write_bytes(head + body + pickler.numbers())
    return path


def write_pickle(path, value):
    path.write_bytes(Pickler().dump(value))
    return path


def write_text_vocabulary(path, words, old_style=False):
    """A Vocabulary in protocol 0, of a new-style class or an old-style one."""
    head = (
        "(ivocab\nVocabulary\np0\n"
        if old_style
        else ("ccopy_reg\n_reconstructor\np0\n(cvocab\nVocabulary\np1\nc__builtin__\nobject\np2\nNtp3\nRp4\n")
    )
    lines = [head, "(dp5\nS'idx'\nI", f"{len(words)}\nsS'word2idx'\n(dp6\n"]
    lines += [f"V{word}\nI{i}\ns" for i, word in enumerate(words)]
    lines += ["sS'idx2word'\n(dp7\n", *(f"I{i}\nV{word}\ns" for i, word in enumerate(words)), "sb."]
    path.write_bytes("".join(lines).encode("raw-unicode-escape"))
    return path
