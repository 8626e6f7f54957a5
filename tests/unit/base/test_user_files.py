"""JSON, YAML and other texts that people and programs write: each oddity is said in one sentence."""

import os

import pytest

from vsepp.base.errors import VseppError
from vsepp.base.files import bytes_of, json_of, require_folder, shortly, text_of, yaml_of


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1, }", "not valid JSON: Expecting value at line 1, column 5"),
        ("[" * 100_000, "nested hundreds of levels deep"),
        ("9" * 5000, "it is damaged; expected valid JSON"),
        ('[{"a": 1, "b": 2, "a": 3}]', "the key 'a' is there twice"),
    ],
)
def test_odd_json_is_refused(text, said):
    with pytest.raises(VseppError, match=rf"^f\.json: .*{said}"):
        json_of(text, "f.json")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [1", "did not find expected ',' or ']' in line"),
        ("a: 2020-13-45", "expected valid YAML, whose dates, numbers, keys and tags have a meaning"),
        ("!!python/name:os.system", "could not determine a constructor"),
        ("a: 1\nb: 2\na: 3", "'a' is given twice, in lines 1 and 3; keep one"),
        ("a\n---\nb", "found another document"),
    ],
)
def test_odd_yaml_is_refused(text, said):
    with pytest.raises(VseppError) as caught:
        yaml_of(text, "f.yaml")
    assert str(caught.value).startswith("f.yaml: ") and said in str(caught.value)


def test_yaml_is_what_it_says():
    assert yaml_of("a: &x {b: 1}\nc: {<<: *x, d: [0x10, 1e3, null]}", "f") == {
        "a": {"b": 1},
        "c": {"b": 1, "d": [16, 1000.0, None]},
    }
    assert yaml_of("", "f") is None


def test_what_is_no_file_or_too_large_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with (tmp_path / "large").open("wb") as stream:
        stream.truncate(93 << 30)
    for path, said in (
        (tmp_path / "fifo", "a FIFO, not a file; expected a text"),
        (tmp_path, "a folder, not a file"),
        (tmp_path / "none", "no such file; expected a text"),
        (tmp_path / "none\0", "a path cannot hold NUL; expected a text"),
        (tmp_path / "large", f"has {93 << 30:,} bytes; expected a text, of at most"),
    ):
        with pytest.raises(VseppError) as caught:
            bytes_of(path, "a text")
        assert said in str(caught.value)
    with pytest.raises(VseppError, match="fifo: is a FIFO, not a folder"):
        require_folder(tmp_path / "fifo", "a folder of pictures")
    (tmp_path / "latin").write_bytes(b"a\ncaf\xe9")
    with pytest.raises(VseppError, match="latin: not UTF-8: line 2, byte 4: 0xe9 after 'caf'"):
        text_of(tmp_path / "latin", "a text")


def test_what_is_no_folder_is_said_by_what_it_is(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "page").write_bytes(b"<html>")
    (tmp_path / "empty").write_bytes(b"")
    for name, said in {"fifo": "FIFO", "page": "HTML", "empty": "empty", "none": "no such"}.items():
        with pytest.raises(VseppError, match=rf"{tmp_path}/{name}: .*{said}"):
            require_folder(tmp_path / name, "a folder")
    assert require_folder(tmp_path, "a folder") == tmp_path


def test_any_value_is_said_shortly():
    deep = []
    for _ in range(5000):
        deep = [deep]
    for value in (deep, "x" * 10_000, {"a": "b" * 10_000}, 1 << 100_000, [1 << 100_000], list(range(10_000))):
        assert len(shortly(value)) < 300
    assert shortly({"a": [1, None]}) == "{'a': [1, None]}"
