"""Files of the released code, as Python 2 and old versions of torch wrote them: read, and no program in them run."""

import argparse
import json
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
from vsepp.models.released import read_checkpoint, read_vocabulary

WORDS = ["<pad>", "<start>", "<end>", "<unk>", "a", "café", "\u4e2d"]


def checkpoint(path, opt):
    """A whole checkpoint with these flags."""
    return write_torch(path, {"model": [{}, {}], "opt": opt})


def assert_same(values, state):
    assert list(values) == list(state)
    for key, value in state.items():
        assert torch.equal(values[key], value) and values[key].dtype == value.dtype


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
    released = read_checkpoint(write_torch(tmp_path / "a.pth.tar", content, version=version, device=device))
    assert (released.progress["epoch"], released.opt) == (3, flags)
    assert_same(released.image, state)
    assert all(value.is_contiguous() and value.device.type == "cpu" for value in released.image.values())


@pytest.mark.parametrize("zipped", [False, True])
def test_files_of_the_present_torch_are_read(tmp_path, zipped):
    flags = argparse.Namespace(measure="order", margin=0.05)
    content = {"model": [OrderedDict(weights()), {}], "opt": flags}
    torch.save(content, tmp_path / "a.pt", _use_new_zipfile_serialization=zipped)
    released = read_checkpoint(tmp_path / "a.pt")
    assert released.opt == vars(flags)
    assert_same(released.image, weights())


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
    texts = ["caf\u00e9", Unicode("\u4e2d")]
    assert read_checkpoint(checkpoint(tmp_path / "a", namespace(texts=texts))).opt == {"texts": texts}
    with pytest.raises(VseppError, match=r"b: .*0xe9"):
        read_checkpoint(checkpoint(tmp_path / "b", namespace(texts=b"caf\xe9")))


@pytest.mark.parametrize(
    "number",
    [np.float64(1.5), torch.tensor(1.5), np.array(1.5, ">f8")[()]],
    ids=lambda number: str(type(number)),
)
def test_numbers_of_numpy_and_of_torch_are_numbers(tmp_path, number):
    content = {"model": [{"fc.weight": torch.ones(2, 3)}, {}], "best_rsum": number, "Eiters": np.int64(7)}
    flags = argparse.Namespace(margin=number, on=np.bool_(True))
    torch.save({**content, "opt": flags}, tmp_path / "m.pth.tar")
    released = read_checkpoint(tmp_path / "m.pth.tar")
    assert (released.progress["best_rsum"], released.progress["Eiters"]) == (1.5, 7)
    assert released.opt == {"margin": 1.5, "on": True} and type(released.opt["on"]) is bool


@pytest.mark.parametrize("name", ["__main__.Vocabulary", "vocab.Vocabulary"])
def test_a_vocabulary_is_read_as_its_words(tmp_path, name):
    assert read_vocabulary(write_pickle(tmp_path / "v.pkl", vocabulary(WORDS, name))).words == tuple(WORDS)


@pytest.mark.parametrize("start", ["", "\n", "\ufeff"])
def test_a_vocabulary_of_json_is_read(tmp_path, start):
    rows = {word: row for row, word in enumerate(WORDS)}
    values = {"word2idx": rows, "idx2word": {str(row): word for word, row in rows.items()}, "idx": len(rows)}
    (tmp_path / "vocab.json").write_text(start + json.dumps(values))
    assert read_vocabulary(tmp_path / "vocab.json").words == tuple(WORDS)


# Programs


def hostile_programs(canary):
    """By name: a program in the place of the flags."""
    shell = f"touch {canary}"
    text = b"U" + bytes([len(shell)]) + shell.encode()
    system = call(named("__builtin__.getattr"), call(named("__builtin__.__import__"), "os"), "system")
    return {
        "os.system": Raw(b"cos\nsystem\n" + text + b"\x85R"),
        "eval": call(named("builtins.eval"), f"open({str(canary)!r}, 'w')"),
        "getattr": call(system, shell),
        "torch.load": call(named("torch.load"), str(canary)),
        "a function of torch": named("torch._utils._rebuild_parameter"),
        "STACK_GLOBAL": Raw(b"U\x02osU\x05popen\x93" + text + b"\x85R"),
        "INST": Raw(b"(" + text + b"isubprocess\ncall\n"),
        "a registered extension": Raw(b"\x82\x01"),
        "a namespace made with text": Raw(b"cargparse\nNamespace\n" + text + b"\x85\x81"),
        "attributes of a class": Raw(b"cvocab\nVocabulary\n}U\x04textK\x01sb"),
        "a class called with a number": Raw(b"cvocab\nVocabulary\nK\x01\x85R"),
        "names of a module": Raw(b"cvocab\n__builtins__\n"),
    }


@pytest.mark.parametrize("name", hostile_programs("x"))
def test_programs_are_refused_and_never_run(tmp_path, name):
    program = hostile_programs(tmp_path / "canary")[name]
    with pytest.raises(VseppError, match=r"evil\.pth\.tar: "):
        read_checkpoint(checkpoint(tmp_path / "evil.pth.tar", program))
    with pytest.raises(VseppError, match=r"evil\.pkl: "):
        read_vocabulary(write_pickle(tmp_path / "evil.pkl", program))
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize("row", range(3))
def test_a_program_in_the_header_is_refused(tmp_path, row):
    header = [MAGIC, PROTOCOL, SYSTEM]
    header[row] = hostile_programs(tmp_path / "canary")["os.system"]
    path = tmp_path / "a.pth.tar"
    path.write_bytes(b"".join(Pickler().dump(value) for value in header))
    with pytest.raises(VseppError, match=r"a\.pth\.tar: "):
        read_checkpoint(path)
    assert not (tmp_path / "canary").exists()


def test_a_newer_file_that_names_a_function_is_refused(tmp_path):
    class Evil:
        def __reduce__(self):
            return Path.touch, (tmp_path / "canary",)

    torch.save({"opt": Evil()}, tmp_path / "a.pt")
    with pytest.raises(VseppError, match=r"a\.pt: .*getattr"):
        read_checkpoint(tmp_path / "a.pt")
    assert not (tmp_path / "canary").exists()


# Files of something else


def test_a_file_that_was_cut_off_anywhere_is_refused(tmp_path):
    content = {"model": [OrderedDict(weights()), {}], "opt": namespace(data_name="coco", margin=0.2)}
    whole = write_torch(tmp_path / "whole", content).read_bytes()
    for length in [*range(0, len(whole), 7), len(whole) - 1]:
        (tmp_path / "cut").write_bytes(whole[:length])
        with pytest.raises(VseppError, match="cut: "):
            read_checkpoint(tmp_path / "cut")


@pytest.mark.parametrize("content", [None, b"", b"not a pickle", b"\x80\x02K\x01."])
@pytest.mark.parametrize("read", [read_checkpoint, read_vocabulary])
def test_a_file_of_something_else_is_named(tmp_path, read, content):
    if content is not None:
        (tmp_path / "a.pkl").write_bytes(content)
    with pytest.raises(VseppError, match=r"a\.pkl: "):
        read(tmp_path / "a.pkl")


LOOP = []
LOOP.append(LOOP)
# Flags or weights → what the message names.
VALUES = {
    "a tensor as a flag": ({"opt": {"x": torch.ones(3)}}, "opt.x"),
    "bytes inside a flag": ({"opt": {"x": {"y": [b"z"]}}}, r"opt.x.y is a bytes"),
    "a path as a flag": ({"opt": {"x": Path("x")}}, "pathlib"),
    "a flag that holds itself": ({"opt": {"x": LOOP}}, "nested"),
    "weights without a name": ({"weights": {1: torch.ones(2)}}, "model.1.1"),
    "weights without numbers": ({"weights": {"w": torch.ones(2, device="meta")}}, "model.1.'w'"),
    "sparse weights": ({"weights": {"w": torch.eye(2).to_sparse()}}, "model.1.'w'"),
    "weights beyond any memory": ({"weights": {"w": torch.ones(1).expand(10**12)}}, "model.1.'w'"),
}


@pytest.mark.parametrize("case", VALUES)
def test_values_of_other_types_are_named_and_take_no_memory(tmp_path, case):
    values, message = VALUES[case]
    flags = argparse.Namespace(**values.get("opt", {"x": 1}))
    torch.save({"model": [{}, values.get("weights", {})], "opt": flags}, tmp_path / "m.pth.tar")
    with pytest.raises(VseppError, match=rf"m\.pth\.tar: .*{message}"):
        read_checkpoint(tmp_path / "m.pth.tar")


@pytest.mark.parametrize(
    "values",
    [
        ["<pad>", "<start>"],
        {"word2idx": {"<pad>": 0}, "idx2word": ["<pad>"]},
        {"word2idx": {"<pad>": 0}, "idx2word": {"x": "a"}},
        {"word2idx": {"a": 0}, "idx2word": {"0": "<pad>"}},
    ],
)
def test_a_vocabulary_of_json_of_another_form_is_named(tmp_path, values):
    (tmp_path / "vocab.json").write_text(json.dumps(values))
    with pytest.raises(VseppError, match=r"vocab\.json: "):
        read_vocabulary(tmp_path / "vocab.json")
