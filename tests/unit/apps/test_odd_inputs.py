"""Odd files and folders given to `vsepp evaluate`: one sentence on the error stream, status 1, nothing computed."""

import numpy as np
import pytest
import specs
from embedded_sets import embedded

from vsepp.apps.cli import main
from vsepp.base.spec import to_json


@pytest.fixture
def embeddings(tmp_path):
    rows = np.random.default_rng(0).standard_normal((20, 4)).astype(np.float32)
    embedded(rows, rows, np.arange(20)).save(tmp_path / "embeddings.npz")
    return tmp_path / "embeddings.npz"


def refused(capsys, *arguments):
    """The sentence with which a command ends."""
    assert main([str(argument) for argument in arguments]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("vsepp: error: ") and err.count("\n") == 1 and err.endswith("\n")
    return err


def test_results_that_cannot_be_written_are_told_before_anything_is_computed(embeddings, capsys):
    loop = embeddings.with_name("loop")
    loop.symlink_to("loop")
    for output in (embeddings / "out", "/proc/out", embeddings.with_name("x" * 300), loop):
        sentence = refused(capsys, "evaluate", embeddings, "--output", output)
        assert f"{output}: " in sentence and "[Errno" not in sentence


def test_a_message_has_a_bound(embeddings, capsys):
    sentence = refused(capsys, "evaluate", embeddings, "--protocol", "5K" + 2_000_000 * "no " + "!")
    assert "5Kno no" in sentence and "no !" in sentence and len(sentence) < 6000


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        (b'"id":"tiny"', b'"id":7', "config.json: RunSpec.id: got 7"),
        (b'"text":{', b'"text":{"layer":2,', "option layer of text encoder"),
        (b"{", b"{", "no manifest.json"),
    ],
)
def test_a_folder_that_is_no_run_is_named(tmp_path, capsys, old, new, named):
    (tmp_path / "config.json").write_bytes(to_json(specs.RUN).encode().replace(old, new))
    sentence = refused(capsys, "evaluate", "--run", tmp_path, "--corpus", tmp_path)
    assert named in sentence and str(tmp_path) in sentence


def test_what_a_file_says_cannot_steer_the_terminal(tmp_path, capsys):
    np.savez(tmp_path / "a.npz", **{"a\x1b[2Jb": np.ones(3)})
    assert "a\\x1b[2Jb.npy" in refused(capsys, "evaluate", tmp_path / "a.npz")
