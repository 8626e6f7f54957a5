import argparse
import struct
from collections import OrderedDict
from pathlib import Path

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

from vsepp.errors import VseppError
from vsepp.released.convert import read_checkpoint
from vsepp.released.files import read_torch, read_vocabulary

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
    body = pickler.dump(window)
    pickler.tensors[str(numbers.untyped_storage().data_ptr())] = numbers
    path.write_bytes(HEAD + body + pickler.numbers())
    assert read_torch(path).tolist() == [[5, 6], [7, 8]]


def test_byte_strings_are_utf8(tmp_path):
    content = {"texts": ["caf\u00e9", Unicode("\u4e2d")]}
    assert read_torch(write_torch(tmp_path / "a", content)) == content
    with pytest.raises(VseppError, match=r"a: not UTF-8: .*0xe9"):
        read_torch(write_torch(tmp_path / "a", {"texts": b"caf\xe9"}))


@pytest.mark.parametrize("name", ["__main__.Vocabulary", "vocab.Vocabulary"])
def test_a_vocabulary_is_read_as_its_attributes(tmp_path, name):
    found = read_vocabulary(write_pickle(tmp_path / "v.pkl", vocabulary(WORDS, name)))
    by_index = dict(enumerate(WORDS))
    by_word = {word: index for index, word in by_index.items()}
    assert found == {"idx": 7, "word2idx": by_word, "idx2word": by_index}


OTHER = "not a checkpoint of the released code"
NAMESPACE = b"cargparse\nNamespace\n"


def hostile_programs(canary):
    """By name: a program, and what is said of a file that has it in the place of the flags."""
    shell = f"touch {canary}"
    text = b"U" + bytes([len(shell)]) + shell.encode()
    python = f"open({str(canary)!r}, 'w')"
    system = call(named("__builtin__.getattr"), call(named("__builtin__.__import__"), "os"), "system")
    return {
        "os.system": (Raw(b"cos\nsystem\n" + text + b"\x85R"), "it names os.system, which"),
        "posix.system": (Raw(b"cposix\nsystem\n(" + text + b"tR"), "it names posix.system, which"),
        "eval": (call(named("builtins.eval"), python), "it names builtins.eval, which"),
        "eval of Python 2": (call(named("__builtin__.eval"), python), "it names __builtin__.eval, which"),
        "getattr": (call(system, shell), "it names __builtin__.getattr, which"),
        "torch.load": (call(named("torch.load"), str(canary)), "it names torch.load, which"),
        "a function of torch": (named("torch._utils._rebuild_parameter"), OTHER),
        "STACK_GLOBAL": (
            Raw(b"U\x02osU\x05popen\x93" + text + b"\x85R"),
            "it has the instruction STACK_GLOBAL, which",
        ),
        "INST": (Raw(b"(" + text + b"isubprocess\ncall\n"), "it names subprocess.call, which"),
        "a frame": (Raw(b"\x95" + struct.pack("<Q", 1 << 40)), "the instruction FRAME"),
        "a registered extension": (Raw(b"\x82\x01"), "the instruction EXT1"),
        "a call of the namespace": (call(named("argparse.Namespace")), OTHER),
        "a namespace made with text": (Raw(NAMESPACE + text + b"\x85\x81"), OTHER),
        "a tuple as the state": (Raw(NAMESPACE + b")\x81N}\x86b"), OTHER),
        "a missing value": (Raw(b"(NR"), "it is damaged"),
    }


@pytest.mark.parametrize("name", hostile_programs("x"))
def test_programs_are_refused_and_never_run(tmp_path, name):
    program, said = hostile_programs(tmp_path / "canary")[name]
    with pytest.raises(VseppError, match=r"evil\.pth\.tar: ") as error:
        read_checkpoint(checkpoint(tmp_path / "evil.pth.tar", opt=program))
    assert said in str(error.value)
    assert not (tmp_path / "canary").exists()


def test_a_program_in_the_place_of_a_vocabulary_or_of_the_header_is_refused(tmp_path):
    program, _ = hostile_programs(tmp_path / "canary")["os.system"]
    for read, path, said in (
        (read_vocabulary, write_pickle(tmp_path / "v", program), r"it names os\.system"),
        (read_torch, in_parts(tmp_path / "a", MAGIC, PROTOCOL, program), r"it names os\.system"),
        (read_torch, in_parts(tmp_path / "b", program, PROTOCOL, SYSTEM), r"it names os\.system"),
        (read_torch, write_torch(tmp_path / "d", vocabulary(WORDS)), r"it names __main__\.Vocabulary, which"),
        (read_vocabulary, write_pickle(tmp_path / "e", named("torch.Size")), r"it names torch\.Size"),
    ):
        with pytest.raises(VseppError, match=f"{path.name}: .*{said}"):
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
        read_vocabulary(path)
    good = read_vocabulary(write_pickle(tmp_path / "w.pkl", vocabulary(WORDS)))
    assert set(good) == {"idx", "word2idx", "idx2word"}


def test_a_newer_file_that_names_a_function_is_refused(tmp_path):
    class Evil:
        def __reduce__(self):
            return Path.touch, (tmp_path / "canary",)

    torch.save({"opt": Evil()}, tmp_path / "a.pt")
    with pytest.raises(VseppError, match=r"a\.pt: it names __builtin__\.getattr, which"):
        read_torch(tmp_path / "a.pt")
    assert not (tmp_path / "canary").exists()


NUMBERS = torch.arange(6.0)


@pytest.mark.parametrize(
    ("storage", "place"),
    [
        ({"numel": 1 << 60}, (0, (1,), (1,))),
        ({"numel": 7}, (0, (7,), (1,))),
        ({}, (0, (7,), (1,))),
        ({}, (0, (2, 2), (5, 1))),
        ({}, (0, (1 << 50,), (0,))),
        ({}, (-1, (2,), (1,))),
        ({}, (0, 6, 1)),
    ],
)
def test_sizes_that_do_not_fit_are_refused(tmp_path, storage, place):
    pickler = Pickler()
    tensor = call(named("torch._utils._rebuild_tensor"), pickler.storage(NUMBERS, **storage), *place)
    body = pickler.dump({"model": [{"a": tensor}, {}], "opt": namespace(margin=0.2)})
    pickler.tensors[str(NUMBERS.untyped_storage().data_ptr())] = NUMBERS
    (tmp_path / "a").write_bytes(HEAD + body + pickler.numbers())
    with pytest.raises(VseppError, match="/a: it is damaged"):
        read_checkpoint(tmp_path / "a")


@pytest.mark.parametrize(
    "made",
    [
        call(
            named("torch._utils._rebuild_meta_tensor_no_storage"), named("torch.float32"), (2,), (1,), False
        ),
        call(named("torch.FloatTensor"), 1 << 20),  # of memory that nobody wrote
    ],
)
def test_tensors_that_are_not_of_the_file_are_refused(tmp_path, made):
    path = checkpoint(tmp_path / "a", image={"a": made})
    with pytest.raises(VseppError, match=r"/a: it names torch\..*, which such a file may not hold"):
        read_checkpoint(path)


def test_a_file_that_was_cut_off_anywhere_is_refused(tmp_path):
    content = {"model": [OrderedDict(weights()), {}], "opt": namespace(data_name="coco", margin=0.2)}
    whole = write_torch(tmp_path / "whole", content).read_bytes()
    cut = tmp_path / "cut"
    for length in [*range(0, len(whole), 7), len(whole) - 1]:
        cut.write_bytes(whole[:length])
        with pytest.raises(VseppError, match=r"cut: .*; expected a file of the released code"):
            read_torch(cut)


@pytest.mark.parametrize("content", [b"", b"not a pickle", b"\x80\x02K\x01."])
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "a").write_bytes(content)
    for read in (read_torch, read_vocabulary):
        with pytest.raises(VseppError, match=r"a: (it is damaged|holds|.*may not hold)"):
            read(tmp_path / "a")
        with pytest.raises(VseppError, match="gone: no such file"):
            read(tmp_path / "gone")
