"""JSON, YAML and other texts that people and programs write: each oddity is said in one sentence."""

import os

import pytest

from vsepp.base.errors import VseppError
from vsepp.base.files import bytes_of, json_of, require_folder, shortly, text_of, yaml_of


@pytest.mark.parametrize(
    ("read", "text", "named"),
    [
        (json_of, "[1, }", "line 1, column 5"),
        (json_of, "[" * 100_000, "deep"),
        (json_of, '[{"a": 1, "b": 2, "a": 3}]', "'a'"),
        (json_of, "9" * 5000, "JSON"),
        (yaml_of, "a: [1", "line"),
        (yaml_of, "a: 2020-13-45", "dates"),
        (yaml_of, "!!python/name:os.system", "constructor"),
        (yaml_of, "a: 1\nb: 2\na: 3", "'a' .* lines 1 and 3"),
    ],
)
def test_odd_json_and_yaml_are_refused(read, text, named):
    with pytest.raises(VseppError, match=f"^file: .*{named}"):
        read(text, "file")


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
    for path, named in (
        (tmp_path / "fifo", "FIFO"),
        (tmp_path, "folder"),
        (tmp_path / "none", "no such file"),
        (tmp_path / "none\0", "NUL"),
        (tmp_path / "large", f"{93 << 30:,} bytes"),
    ):
        with pytest.raises(VseppError, match=named):
            bytes_of(path, "a text")
    (tmp_path / "latin").write_bytes(b"a\ncaf\xe9")
    with pytest.raises(VseppError, match="latin: not UTF-8: line 2, byte 4"):
        text_of(tmp_path / "latin", "a text")


def test_what_is_no_folder_is_said_by_what_it_is(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "page").write_bytes(b"<html>")
    for name, kind in {"fifo": "FIFO", "page": "HTML", "none": "no such"}.items():
        with pytest.raises(VseppError, match=f"{tmp_path}/{name}: .*{kind}"):
            require_folder(tmp_path / name, "a folder")
    assert require_folder(tmp_path, "a folder") == tmp_path


def test_any_value_is_said_shortly():
    deep = []
    for _ in range(5000):
        deep = [deep]
    for value in (deep, {"a": "b" * 10_000}, [1 << 100_000], list(range(10_000))):
        assert len(shortly(value)) < 300
    assert shortly({"a": [1, None]}) == "{'a': [1, None]}"
