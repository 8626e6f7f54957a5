import argparse
import struct
import time
from collections import OrderedDict

import pytest
import torch
from legacy_files import (
    MAGIC,
    PROTOCOL,
    SYSTEM,
    Call,
    Global,
    Persistent,
    Pickler,
    Raw,
    StateDict,
    Unicode,
    namespace,
    vocabulary,
    write_pickle,
    write_text_vocabulary,
    write_torch,
)

from vsepp.errors import VseppError
from vsepp.released.tensors import LegacyTensor
from vsepp.released.torchfile import read_torch
from vsepp.released.unpickle import read_vocabulary

WORDS = ["<pad>", "<start>", "<end>", "<unk>", "a", "café", "\u4e2d"]


def values(content):
    """Tensors read, everything else as it is."""
    if isinstance(content, LegacyTensor):
        return content.read()
    if isinstance(content, dict):
        return {key: values(value) for key, value in content.items()}
    return [values(value) for value in content] if isinstance(content, list) else content


def weights():
    flat = torch.arange(30.0)
    return {
        # cuDNN lays the weights of a GRU into one storage, one after the other.
        "first": flat[:12].view(3, 4),
        "second": flat[12:18],
        "transposed": flat[18:30].view(3, 4).t(),
        "long": torch.tensor([2**40, -1]),
        "half": torch.tensor([0.5, -2.0], dtype=torch.float16),
        "double": torch.tensor(1.5, dtype=torch.float64),
        "empty": torch.zeros(0, 3),
    }


@pytest.mark.parametrize("version", ["0.3", "0.4"])
@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_tensors_of_old_files_are_read_wherever_they_lay(tmp_path, version, device):
    state = weights()
    model = StateDict(state) if version == "0.4" else OrderedDict(state)
    path = write_torch(tmp_path / "a.pth.tar", {"model": model, "epoch": 3}, version=version, device=device)
    content = read_torch(path)
    assert content["epoch"] == 3
    found = values(content["model"])
    assert list(found) == list(state)
    for key, value in state.items():
        assert torch.equal(found[key], value) and found[key].dtype == value.dtype
        assert found[key].is_contiguous()


def test_torch_reads_the_files_of_these_tests_the_same(tmp_path):
    content = {"model": OrderedDict(weights()), "opt": namespace(margin=0.2, data_name="coco", n=[1, 2])}
    path = write_torch(tmp_path / "a.pth.tar", content, version="0.4")
    with torch.serialization.safe_globals([argparse.Namespace]):
        theirs = torch.load(path, map_location="cpu", weights_only=True)
    ours = read_torch(path)
    assert vars(theirs["opt"]) == ours["opt"].values == {"margin": 0.2, "data_name": "coco", "n": [1, 2]}
    assert all(torch.equal(value, ours["model"][key].read()) for key, value in theirs["model"].items())


@pytest.mark.parametrize("zipped", [False, True])
def test_files_of_the_present_torch_are_read(tmp_path, zipped):
    content = {"model": OrderedDict(weights()), "opt": argparse.Namespace(measure="order", margin=0.05)}
    torch.save(content, tmp_path / "a.pt", _use_new_zipfile_serialization=zipped)
    found = read_torch(tmp_path / "a.pt")
    assert found["opt"].values == {"measure": "order", "margin": 0.05}
    for key, value in values(found["model"]).items():
        assert torch.equal(value, content["model"][key])


def test_views_of_storages_are_windows_into_them(tmp_path):
    numbers = torch.arange(10.0)
    pickler = Pickler()
    window = Call(
        Global("torch._utils._rebuild_tensor"),
        (pickler.storage(numbers, view=("v", 4, 5)), 1, (2, 2), (2, 1)),
    )
    path = tmp_path / "a.pth.tar"
    head = b"".join(Pickler().dump(value) for value in (MAGIC, PROTOCOL, SYSTEM))
    body = pickler.dump(window)
    pickler.tensors[str(numbers.untyped_storage().data_ptr())] = numbers
    path.write_bytes(head + body + pickler.numbers())
    assert read_torch(path).read().tolist() == [[5, 6], [7, 8]]


def test_byte_strings_are_utf8_or_else_latin1(tmp_path):
    content = {"texts": ["caf\u00e9", b"caf\xe9", b"x" * 300, Unicode("\u4e2d")]}
    found = read_torch(write_torch(tmp_path / "a", content))
    assert found["texts"] == ["café", "café", "x" * 300, "\u4e2d"]


@pytest.mark.parametrize("name", ["__main__.Vocabulary", "vocab.Vocabulary"])
def test_a_vocabulary_is_read_as_its_attributes(tmp_path, name):
    found = read_vocabulary(write_pickle(tmp_path / "v.pkl", vocabulary(WORDS, name)))
    assert found.values["idx2word"] == dict(enumerate(WORDS))
    assert found.values["word2idx"]["café"] == 5
    assert found.values["idx"] == 7


@pytest.mark.parametrize("old_style", [False, True])
def test_a_vocabulary_in_protocol_0_is_read(tmp_path, old_style):
    found = read_vocabulary(write_text_vocabulary(tmp_path / "v.pkl", WORDS, old_style))
    assert found.values["word2idx"] == {word: i for i, word in enumerate(WORDS)}
    assert found.values["idx"] == 7


def hostile_programs(canary):
    shell = f"touch {canary}"
    text = b"U" + bytes([len(shell)]) + shell.encode()
    python = f"open({str(canary)!r}, 'w')"
    return {
        "os.system": Raw(b"cos\nsystem\n" + text + b"\x85R"),
        "posix.system": Raw(b"cposix\nsystem\n(" + text + b"tR"),
        "builtins.eval": Call(Global("builtins.eval"), (python,)),
        "__builtin__.eval": Call(Global("__builtin__.eval"), (python,)),
        "__builtin__.getattr": Call(
            Call(Global("__builtin__.getattr"), (Call(Global("__builtin__.__import__"), ("os",)), "system")),
            (shell,),
        ),
        "torch.load": Call(Global("torch.load"), (str(canary),)),
        "torch.serialization.load": Call(Global("torch.serialization.load"), (str(canary),)),
        "torch._utils._rebuild_parameter": Global("torch._utils._rebuild_parameter"),
        "collections.OrderedDict.fromkeys": Global("collections.OrderedDict.fromkeys"),
        "os.popen": Raw(b"U\x02osU\x05popen\x93" + text + b"\x85R"),
        "subprocess.call": Raw(b"(" + text + b"isubprocess\ncall\n"),
        "subprocess.check_call": Raw(b"(csubprocess\ncheck_call\n" + text + b"o"),
        "a call of str": Raw(b"U\x09os.system" + text + b"\x85R"),
        "a call of argparse.Namespace": Call(Global("argparse.Namespace"), ()),
        "made of collections.OrderedDict": Raw(b"ccollections\nOrderedDict\n)\x81"),
        "made of argparse.Namespace with": Raw(b"cargparse\nNamespace\n" + text + b"\x85\x81"),
        "tuple as the state": Raw(b"cargparse\nNamespace\n)\x81N}\x86b"),
        "dict as the state of a argparse.Namespace": Raw(b"cargparse\nNamespace\n}b"),
        "the opcode EXT1": Raw(b"\x82\x01"),
        "the opcode PERSID": Raw(b"Pstorage\n"),
        "the opcode BYTEARRAY8": Raw(b"\x96" + struct.pack("<Q", 0)),
        "the opcode NEWOBJ_EX": Raw(b"cargparse\nNamespace\n)}\x92"),
        "that is no storage": Persistent(("module", Global("argparse.Namespace"), "a.py", "source")),
        "the key 'a' comes twice": Raw(b"}(U\x01aNU\x01aNu"),
        "a tuple as the key": Raw(b"}(K\x01\x85Nu"),
        "items set in a list": Raw(b"](NNu"),
        "items appended to a dict": Raw(b"}(Ne"),
        "a value is missing": Raw(b"(NR"),
        "damaged or shortened pickle": Raw(b"h\xf0"),
    }


@pytest.mark.parametrize("said", hostile_programs("x"))
def test_programs_are_refused_by_name_and_never_run(tmp_path, said):
    canary = tmp_path / "canary"
    path = write_torch(tmp_path / "evil.pth.tar", {"model": [], "opt": hostile_programs(canary)[said]})
    with pytest.raises(VseppError, match=r"evil\.pth\.tar: refused: .*Nothing in it was executed") as error:
        read_torch(path)
    assert said in str(error.value)
    assert not canary.exists()


def test_a_program_in_the_place_of_a_vocabulary_or_of_the_header_is_refused(tmp_path):
    canary = tmp_path / "canary"
    program = hostile_programs(canary)["os.system"]
    write_pickle(tmp_path / "v.pkl", program)
    with pytest.raises(VseppError, match=r"it names os\.system"):
        read_vocabulary(tmp_path / "v.pkl")
    with pytest.raises(VseppError, match=r"it names os\.system"):
        read_torch(tmp_path / "v.pkl")
    for place in (1, 2):
        parts = [MAGIC, PROTOCOL, SYSTEM]
        parts[place] = program
        (tmp_path / "h").write_bytes(b"".join(Pickler().dump(part) for part in parts))
        with pytest.raises(VseppError, match=r"it names os\.system"):
            read_torch(tmp_path / "h")
    write_torch(tmp_path / "c", {"opt": vocabulary(WORDS)})
    with pytest.raises(VseppError, match=r"it names __main__\.Vocabulary"):
        read_torch(tmp_path / "c")
    write_pickle(tmp_path / "t", Call(Global("torch.Size"), ((1, 2),)))
    with pytest.raises(VseppError, match=r"it names torch\.Size"):
        read_vocabulary(tmp_path / "t")
    assert not canary.exists()


def test_a_newer_file_that_names_a_function_is_refused_by_torch(tmp_path):
    canary = tmp_path / "canary"

    class Evil:
        def __reduce__(self):
            return eval, (f"open({str(canary)!r}, 'w')",)

    torch.save({"opt": Evil()}, tmp_path / "a.pt")
    with pytest.raises(VseppError, match=r"a\.pt: refused: torch\.load\(weights_only=True\) says: .*eval"):
        read_torch(tmp_path / "a.pt")
    assert not canary.exists()


NUMBERS = torch.arange(6.0)


@pytest.mark.parametrize(
    ("storage", "place", "said"),
    [
        ({"numel": 1 << 60}, (0, (1,), (1,)), "a storage of 1152921504606846976 numbers in a file of"),
        ({"numel": -1}, (0, (1,), (1,)), "a storage of -1 numbers"),
        ({"numel": 5}, (0, (5,), (1,)), "a storage of 5 numbers is announced with 6"),
        ({"numel": 7}, (0, (7,), (1,)), "a storage of 7 numbers is announced with 6"),
        ({"view": ("v", 4, 3)}, (0, (3,), (1,)), "a view that leaves its storage of 6"),
        ({"view": ("v", -1, 3)}, (0, (3,), (1,)), "a view that leaves its storage of 6"),
        ({"view": ("v", 5, -3)}, (0, (3,), (1,)), "a view that leaves its storage of 6"),
        ({"view": ("v", 2, 2)}, (0, (3,), (1,)), "leaves its storage of 2 numbers"),
        ({}, (0, (7,), (1,)), "size (7,), stride (1,) and offset 0, which leaves its storage of 6 numbers"),
        ({}, (1, (2, 3), (3, 1)), "leaves its storage"),
        ({}, (0, (2, 2), (5, 1)), "leaves its storage"),
        ({}, (0, (1 << 40,), (0,)), "leaves its storage"),
        ({}, (0, (-1,), (1,)), "no counts"),
        ({}, (0, (2,), (-1,)), "no counts"),
        ({}, (-1, (2,), (1,)), "no counts"),
        ({}, (0, (2, 3), (1,)), "no counts"),
        ({}, (0, (1,) * 9, (1,) * 9), "no counts"),
        ({}, (0, 6, 1), "no counts"),
        ({}, (0, ("6",), (1,)), "no counts"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(tmp_path, storage, place, said):
    pickler = Pickler()
    tensor = Call(Global("torch._utils._rebuild_tensor"), (pickler.storage(NUMBERS, **storage), *place))
    head = b"".join(Pickler().dump(value) for value in (MAGIC, PROTOCOL, SYSTEM))
    body = pickler.dump({"model": tensor})
    pickler.tensors[str(NUMBERS.untyped_storage().data_ptr())] = NUMBERS
    (tmp_path / "a").write_bytes(head + body + pickler.numbers())
    with pytest.raises(VseppError, match="a: refused: ") as error:
        read_torch(tmp_path / "a")
    assert said in str(error.value)


def test_a_storage_of_two_types_and_a_list_of_others_are_refused(tmp_path):
    pickler = Pickler()
    first, second = pickler.storage(NUMBERS), pickler.storage(NUMBERS, numel=3)
    head = b"".join(Pickler().dump(value) for value in (MAGIC, PROTOCOL, SYSTEM))
    (tmp_path / "a").write_bytes(head + pickler.dump([first, second]) + Pickler().dump([]))
    with pytest.raises(VseppError, match="comes with two types or sizes"):
        read_torch(tmp_path / "a")
    for keys in ([], ["other"], None, [7]):
        (tmp_path / "b").write_bytes(head + Pickler().dump([first]) + Pickler().dump(keys))
        with pytest.raises(VseppError, match="its list of storages is not that of its tensors"):
            read_torch(tmp_path / "b")


def test_a_file_that_was_cut_off_anywhere_is_refused(tmp_path):
    content = {"model": [OrderedDict(weights()), {}], "opt": namespace(data_name="coco", margin=0.2)}
    whole = write_torch(tmp_path / "whole", content).read_bytes()
    cut = tmp_path / "cut"
    for length in range(0, len(whole), 7):
        cut.write_bytes(whole[:length])
        with pytest.raises(VseppError, match="cut: "):
            read_torch(cut)
    cut.write_bytes(whole[:-1])
    with pytest.raises(VseppError, match="the file is damaged or was cut off"):
        read_torch(cut)


def test_self_references_and_false_lengths_cost_neither_time_nor_memory(tmp_path):
    started = time.monotonic()
    # 40 lists, each holding the one before twice: 2^40 items for whoever walks or prints them.
    nested = b"]q\x00" + b"".join(
        b"](h" + bytes([n]) + b"h" + bytes([n]) + b"eq" + bytes([n + 1]) for n in range(40)
    )
    loop = b"]q\x00h\x00a"
    for place, said in ((0, "its magic number is not"), (1, "its protocol version is not")):
        for program in (nested, loop):
            parts = [MAGIC, PROTOCOL, SYSTEM]
            parts[place] = Raw(program)
            (tmp_path / "a").write_bytes(b"".join(Pickler().dump(part) for part in parts))
            with pytest.raises(VseppError, match=said):
                read_torch(tmp_path / "a")
    long_text = Raw(b"T" + struct.pack("<i", (1 << 31) - 1) + b"short")
    with pytest.raises(VseppError, match="damaged or shortened"):
        read_torch(write_torch(tmp_path / "a", long_text))
    with pytest.raises(VseppError, match="damaged or shortened"):
        read_torch(write_torch(tmp_path / "a", Raw(b"I" + b"9" * 60000 + b"\n")))
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("content", [b"", b"not a pickle", b"\x80\x02K\x01."])
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "a").write_bytes(content)
    for read in (read_torch, read_vocabulary):
        with pytest.raises(VseppError, match="a: refused: "):
            read(tmp_path / "a")
        with pytest.raises(VseppError, match="gone: no such file"):
            read(tmp_path / "gone")


def test_an_archive_is_told_apart(tmp_path):
    import tarfile

    write_torch(tmp_path / "model_best.pth.tar", {})
    with tarfile.open(tmp_path / "runs.tar", "w") as archive:
        archive.add(tmp_path / "model_best.pth.tar", "model_best.pth.tar")
    with pytest.raises(VseppError, match=r"runs\.tar: it is an archive; unpack it"):
        read_torch(tmp_path / "runs.tar")


def test_numbers_of_another_byte_order_are_refused(tmp_path):
    parts = [MAGIC, PROTOCOL, {**SYSTEM, "little_endian": False}, {}, []]
    (tmp_path / "a").write_bytes(b"".join(Pickler().dump(part) for part in parts))
    with pytest.raises(VseppError, match="another byte order"):
        read_torch(tmp_path / "a")
