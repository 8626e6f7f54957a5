"""Odd files and folders given to `vsepp evaluate`: one sentence on the error stream, status 1, nothing computed."""

import os
import time

import numpy as np
import pytest
import specs
from test_sets import embedded

from vsepp.apps.cli import main
from vsepp.base.spec import to_json


@pytest.fixture
def embeddings(tmp_path):
    rows = np.random.default_rng(0).standard_normal((20, 4)).astype(np.float32)
    embedded(rows, rows, np.arange(20)).save(tmp_path / "embeddings.npz")
    return tmp_path / "embeddings.npz"


def refused(capsys, *arguments):
    """The sentence with which a command ends."""
    assert main([str(one) for one in arguments]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("vsepp: error: ") and err.count("\n") == 1 and err.endswith("\n")
    return err


def test_results_that_cannot_be_written_are_told_before_anything_is_computed(embeddings, capsys):
    folder = embeddings.parent
    (folder / "loop").symlink_to("loop")
    (folder / "nowhere").symlink_to("/nowhere/at/all")
    links = folder / "loop", folder / "nowhere"
    for output in (
        embeddings,
        embeddings / "out",
        "/proc/out",
        "/dev/null/out",
        folder / ("x" * 300),
        *links,
    ):
        said = refused(capsys, "evaluate", embeddings, "--output", output)
        assert f"{output}: results cannot be written there: " in said and "[Errno" not in said


@pytest.mark.parametrize("name", ["a" * 255, "é" * 120])
def test_the_longest_names_of_folders_are_written_to(embeddings, tmp_path, name):
    assert main(["evaluate", str(embeddings), "--output", str(tmp_path / name)]) == 0
    assert {path.name for path in (tmp_path / name).iterdir()} == {
        "manifest.json",
        "metrics.json",
        "ranks.npz",
    }


def config(content):
    def make(folder):
        folder.mkdir()
        (folder / "config.json").write_bytes(content)

    return make


SPEC = to_json(specs.RUN)
NO_RUN = {
    "a file": (lambda folder: folder.write_text("x"), "no config.json; expected the folder of a trained run"),
    "a FIFO": (os.mkfifo, "no config.json; expected the folder of a trained run"),
    "a configuration that is a FIFO": (
        lambda folder: (folder.mkdir(), os.mkfifo(folder / "config.json")),
        "no config.json",
    ),
    "bytes": (config(b"\xff\xfe\0"), "config.json: is UTF-16 text"),
    "a list": (config(b"[]"), "RunSpec: got []; "),
    "deep": (config(b'{"a":' * 100_000), "nested hundreds of levels deep"),
    "a number for a text": (
        config(SPEC.replace('"id":"tiny"', '"id":7').encode()),
        "RunSpec.id: got 7; input should be a valid string",
    ),
    "a text for a part": (
        config(SPEC.replace('"loss":{"name":"max_of_hinges"}', '"loss":7').encode()),
        "RunSpec.loss: got 7; ",
    ),
    "a trainset of none": (
        config(SPEC.replace('"trainset":"1C"', '"trainset":"2C"').encode()),
        "RunSpec.trainset: got '2C'; input should be '1C', '10C', 'RC' or 'regions'",
    ),
    "an option that a component does not have": (
        config(SPEC.replace('"text":{', '"text":{"layer":2,').encode()),
        "config.json: option layer of text encoder",
    ),
    "no manifest": (config(SPEC.encode()), "no manifest.json; expected the folder of a trained run"),
}


@pytest.mark.parametrize("case", NO_RUN)
def test_what_is_no_run_is_said_to_be_none(tmp_path, capsys, case):
    make, said = NO_RUN[case]
    make(tmp_path / "run")
    started = time.monotonic()
    message = refused(capsys, "evaluate", "--run", tmp_path / "run", "--corpus", tmp_path)
    assert said in message and str(tmp_path / "run") in message
    assert time.monotonic() - started < 30


def test_a_message_has_a_bound(embeddings, capsys):
    said = refused(capsys, "evaluate", embeddings, "--protocol", "5K" + 2_000_000 * "no " + "!")
    assert "5Kno no" in said and "no !" in said
    assert len(said) < 6000


def test_what_a_file_says_cannot_steer_the_terminal(tmp_path, capsys):
    np.savez(tmp_path / "a.npz", **{"a\x1b[2Jb": np.ones(3)})
    assert "a\\x1b[2Jb.npy" in refused(capsys, "evaluate", tmp_path / "a.npz")
