import argparse
import json
import struct
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch
from legacy_files import (
    HEAD,
    MAGIC,
    PROTOCOL,
    SYSTEM,
    Pickler,
    Raw,
    Unicode,
    call,
    named,
    namespace,
    state_dict,
    vocabulary,
    write_pickle,
    write_torch,
)

from vsepp.base.errors import VseppError
from vsepp.models.released import read_checkpoint, read_words

WORDS = ["<pad>", "<start>", "<end>", "<unk>", "a", "café", "\u4e2d"]


def checkpoint(path, *, image=None, opt=None):
    """A whole checkpoint but for what is given."""
    content = {"model": [image or {}, {}], "opt": namespace(margin=0.2) if opt is None else opt}
    return write_torch(path, content)


def in_parts(path, *parts):
    """A sequential file of these pickles, one after the other."""
    path.write_bytes(b"".join(Pickler().dump(part) for part in parts))
    return path


def assert_same(found, state):
    assert list(found) == list(state)
    for key, value in state.items():
        assert torch.equal(found[key], value) and found[key].dtype == value.dtype


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
    state, flags = weights(), {"margin": 0.2, "data_name": "coco", "n": [1, 2]}
    model = state_dict(state) if version == "0.4" else OrderedDict(state)
    content = {"model": [model, OrderedDict()], "opt": namespace(**flags), "epoch": 3}
    found = read_checkpoint(write_torch(tmp_path / "a.pth.tar", content, version=version, device=device))
    assert (found.progress["epoch"], found.opt) == (3, flags)
    assert_same(found.image, state)
    assert all(value.is_contiguous() and value.device.type == "cpu" for value in found.image.values())


@pytest.mark.parametrize("zipped", [False, True])
def test_files_of_the_present_torch_are_read(tmp_path, zipped):
    flags = argparse.Namespace(measure="order", margin=0.05)
    content = {"model": [OrderedDict(weights()), {}], "opt": flags}
    torch.save(content, tmp_path / "a.pt", _use_new_zipfile_serialization=zipped)
    found = read_checkpoint(tmp_path / "a.pt")
    assert found.opt == vars(flags)
    assert_same(found.image, weights())


def test_views_of_storages_are_windows_into_them(tmp_path):
    numbers = torch.arange(10.0)
    pickler = Pickler()
    storage = pickler.storage(numbers, view=("v", 4, 5))
    window = call(named("torch._utils._rebuild_tensor"), storage, 1, (2, 2), (2, 1))
    path = tmp_path / "a.pth.tar"
    body = pickler.dump({"model": [{"w": window}, {}], "opt": namespace(margin=0.2)})
    pickler.tensors[str(numbers.untyped_storage().data_ptr())] = numbers
    path.write_bytes(HEAD + body + pickler.numbers())
    assert read_checkpoint(path).image["w"].tolist() == [[5, 6], [7, 8]]


def test_byte_strings_are_utf8(tmp_path):
    found = read_checkpoint(checkpoint(tmp_path / "a", opt=namespace(texts=["caf\u00e9", Unicode("\u4e2d")])))
    assert found.opt == {"texts": ["caf\u00e9", "\u4e2d"]}
    with pytest.raises(VseppError, match=r"b: not UTF-8: .*0xe9"):
        read_checkpoint(checkpoint(tmp_path / "b", opt=namespace(texts=b"caf\xe9")))


@pytest.mark.parametrize("name", ["__main__.Vocabulary", "vocab.Vocabulary"])
def test_a_vocabulary_is_read_as_its_words(tmp_path, name):
    assert read_words(write_pickle(tmp_path / "v.pkl", vocabulary(WORDS, name))) == tuple(WORDS)


OTHER = "not a checkpoint of the released code"
NAMESPACE = b"cargparse\nNamespace\n"


def hostile_programs(canary):
    """By name: a program in the place of the flags."""
    shell = f"touch {canary}"
    text = b"U" + bytes([len(shell)]) + shell.encode()
    python = f"open({str(canary)!r}, 'w')"
    system = call(named("__builtin__.getattr"), call(named("__builtin__.__import__"), "os"), "system")
    return {
        "os.system": Raw(b"cos\nsystem\n" + text + b"\x85R"),
        "eval": call(named("builtins.eval"), python),
        "getattr": call(system, shell),
        "torch.load": call(named("torch.load"), str(canary)),
        "a function of torch": named("torch._utils._rebuild_parameter"),
        "STACK_GLOBAL": Raw(b"U\x02osU\x05popen\x93" + text + b"\x85R"),
        "INST": Raw(b"(" + text + b"isubprocess\ncall\n"),
        "a frame": Raw(b"\x95" + struct.pack("<Q", 1 << 40)),
        "a registered extension": Raw(b"\x82\x01"),
        "a call of the namespace": call(named("argparse.Namespace")),
        "a namespace made with text": Raw(NAMESPACE + text + b"\x85\x81"),
        "a tuple as the state": Raw(NAMESPACE + b")\x81N}\x86b"),
        "a missing value": Raw(b"(NR"),
    }


@pytest.mark.parametrize("name", hostile_programs("x"))
def test_programs_are_refused_and_never_run(tmp_path, name):
    program = hostile_programs(tmp_path / "canary")[name]
    with pytest.raises(VseppError, match=r"evil\.pth\.tar: "):
        read_checkpoint(checkpoint(tmp_path / "evil.pth.tar", opt=program))
    with pytest.raises(VseppError, match=r"evil\.pkl: "):
        read_words(write_pickle(tmp_path / "evil.pkl", program))
    assert not (tmp_path / "canary").exists()


def test_a_program_in_the_header_and_classes_of_the_other_file_are_refused(tmp_path):
    program = hostile_programs(tmp_path / "canary")["os.system"]
    for read, path in (
        (read_checkpoint, in_parts(tmp_path / "a", MAGIC, PROTOCOL, program)),
        (read_checkpoint, in_parts(tmp_path / "b", program, PROTOCOL, SYSTEM)),
        (read_checkpoint, write_torch(tmp_path / "d", vocabulary(WORDS))),
        (read_words, write_pickle(tmp_path / "e", named("torch.Size"))),
    ):
        with pytest.raises(VseppError, match=rf"{path.name}: .*(it is damaged|it names [\w.]+, which)"):
            read(path)
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize(
    "program",
    [
        b"cvocab\nVocabulary\n}U\x04textK\x01sb",  # attributes of the class
        b"cvocab\nVocabulary\nK\x01\x85R",  # called with what it does not take
        b"cvocab\n__builtins__\n",
    ],
)
def test_a_vocabulary_may_name_its_class_and_do_nothing_else_with_it(tmp_path, program):
    path = write_pickle(tmp_path / "v.pkl", Raw(program))
    with pytest.raises(VseppError, match=r"v\.pkl: "):
        read_words(path)
    assert read_words(write_pickle(tmp_path / "w.pkl", vocabulary(WORDS))) == tuple(WORDS)


def test_a_newer_file_that_names_a_function_is_refused(tmp_path):
    class Evil:
        def __reduce__(self):
            return Path.touch, (tmp_path / "canary",)

    torch.save({"opt": Evil()}, tmp_path / "a.pt")
    with pytest.raises(
        VseppError, match=r"a\.pt: it names getattr, which .*expected .* Nothing in it was executed"
    ):
        read_checkpoint(tmp_path / "a.pt")
    assert not (tmp_path / "canary").exists()


def test_a_file_that_was_cut_off_anywhere_is_refused(tmp_path):
    content = {"model": [OrderedDict(weights()), {}], "opt": namespace(data_name="coco", margin=0.2)}
    whole = write_torch(tmp_path / "whole", content).read_bytes()
    cut = tmp_path / "cut"
    for length in [*range(0, len(whole), 7), len(whole) - 1]:
        cut.write_bytes(whole[:length])
        with pytest.raises(VseppError, match=r"cut: .*; expected a file of the released code"):
            read_checkpoint(cut)


@pytest.mark.parametrize("content", [b"", b"not a pickle", b"\x80\x02K\x01."])
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "a").write_bytes(content)
    for read in (read_checkpoint, read_words):
        with pytest.raises(VseppError, match=r"a: (it is damaged|holds|is empty)"):
            read(tmp_path / "a")
        with pytest.raises(VseppError, match="gone: no such file"):
            read(tmp_path / "gone")


@pytest.mark.parametrize(
    "number", [np.float64(1.5), np.float32(1.5), torch.tensor(1.5), np.array(1.5, ">f8")[()]], ids=repr
)
def test_numbers_of_numpy_and_of_torch_are_numbers(tmp_path, number):
    content = {"model": [{"fc.weight": torch.ones(2, 3)}, {}], "best_rsum": number, "Eiters": np.int64(7)}
    torch.save(
        {**content, "opt": argparse.Namespace(margin=number, on=np.bool_(True))}, tmp_path / "m.pth.tar"
    )
    found = read_checkpoint(tmp_path / "m.pth.tar")
    assert (found.progress["best_rsum"], found.progress["Eiters"]) == (1.5, 7)
    assert found.opt == {"margin": 1.5, "on": True} and type(found.opt["on"]) is bool


LOOP = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (np.ones(3), "numpy.*_reconstruct"),
        (np.datetime64("2020-01-01"), "NumPy.*M8"),
        (torch.ones(3), "opt.x.*3"),
        ({1}, "opt.x is a set"),
        (argparse.Namespace(y=1), "opt.x is a Namespace"),
        ({"y": [b"z"]}, r"opt.x.y is a bytes"),
        (Path("x"), "pathlib"),
        (LOOP, "nested"),
    ],
)
def test_what_is_no_number_is_named(tmp_path, value, named):
    content = {"model": [{"fc.weight": torch.ones(2, 3)}, {}], "opt": argparse.Namespace(x=value)}
    torch.save(content, tmp_path / "m.pth.tar")
    with pytest.raises(VseppError, match=rf"m\.pth\.tar: .*{named}"):
        read_checkpoint(tmp_path / "m.pth.tar")


@pytest.mark.parametrize(
    "weights",
    [
        {"w": [1.0]},
        {1: torch.ones(2)},
        {"w": {"w": torch.ones(2)}},
        {"w": torch.ones(2, device="meta")},
        {"w": torch.eye(2).to_sparse()},
        {"w": torch.ones(1).expand(10**12)},
    ],
    ids=repr,
)
def test_weights_that_are_none_are_named_and_take_no_memory(tmp_path, weights):
    torch.save({"model": [{}, weights], "opt": argparse.Namespace(x=1)}, tmp_path / "m.pth.tar")
    (name,) = weights
    with pytest.raises(VseppError, match=rf"m\.pth\.tar: model\.1\.{name!r} is a "):
        read_checkpoint(tmp_path / "m.pth.tar")


@pytest.mark.parametrize("before", ["", " ", "\n", "\ufeff"])
def test_a_vocabulary_of_json_is_read(tmp_path, before):
    words = ["<pad>", "<start>", "<end>", "<unk>", "a"]
    rows = {word: row for row, word in enumerate(words)}
    values = {"word2idx": rows, "idx2word": {str(row): word for word, row in rows.items()}, "idx": 5}
    (tmp_path / "vocab.json").write_text(before + json.dumps(values))
    assert read_words(tmp_path / "vocab.json") == tuple(words)


@pytest.mark.parametrize(
    "change",
    [
        {"idx2word": ["<pad>"]},
        {"idx2word": {"0": 7}},
        {"idx2word": {"x": "a"}},
        {"idx2word": None},
        {"word2idx": []},
        {"word2idx": {"a": 0}},
        {"idx2word": {}},
    ],
)
def test_a_vocabulary_of_json_of_other_types_is_refused(tmp_path, change):
    values = {"word2idx": {"<pad>": 0}, "idx2word": {"0": "<pad>"}, **change}
    (tmp_path / "vocab.json").write_text(json.dumps(values))
    with pytest.raises(VseppError, match=r"vocab\.json: "):
        read_words(tmp_path / "vocab.json")


@pytest.mark.parametrize("values", [["<pad>", "<start>"], {"<pad>": 0, "<start>": 1}])
def test_a_vocabulary_of_json_in_another_form_is_named_by_what_it_holds(tmp_path, values):
    (tmp_path / "vocab.json").write_text(json.dumps(values))
    with pytest.raises(
        VseppError, match=r"vocab\.json: holds .*<pad>.*expected .*word2idx.*idx2word"
    ) as caught:
        read_words(tmp_path / "vocab.json")
    assert "damaged" not in str(caught.value) and "executed" not in str(caught.value)
