"""Manifests record what an artefact was made from, and a mix-up is refused."""

import pytest

from vsepp.errors import VseppError
from vsepp.provenance.digests import file_digest
from vsepp.provenance.manifest import (
    artefact_digest,
    read_manifest,
    recorded,
    require_input,
    write_manifest,
    write_text,
)
from vsepp.provenance.publish import publish, state_folder


def make(folder, text, **inputs):
    folder.mkdir(exist_ok=True)
    with recorded(folder, "step", spec={"a": 1}, inputs=inputs, code="c", seed=7) as facts:
        (folder / "file.txt").write_text(text)
        facts["count"] = 3


def test_a_manifest_records_inputs_outputs_seed_and_cost(tmp_path):
    raw = tmp_path / "raw.txt"
    raw.write_text("raw")
    make(tmp_path / "out", "result", raw=raw)
    manifest = read_manifest(tmp_path / "out" / "file.txt")
    assert manifest["inputs"] == {"raw": file_digest(raw)}
    assert manifest["outputs"] == {"file.txt": file_digest(tmp_path / "out" / "file.txt")}
    assert (manifest["seed"], manifest["code_digest"], manifest["facts"]) == (7, "c", {"count": 3})
    assert manifest["peak_memory_bytes"] > 1e6
    assert manifest["wall_seconds"] >= 0
    assert {"commit", "dirty"} == set(manifest["git"])


def test_no_manifest_is_written_when_the_step_fails(tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(RuntimeError), recorded(tmp_path / "out", "step", spec={}, inputs={}):
        raise RuntimeError
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_an_artefact_made_from_another_input_is_refused(tmp_path):
    make(tmp_path / "run", "weights")
    make(tmp_path / "embeddings", "vectors", run=tmp_path / "run")
    require_input(tmp_path / "embeddings", "run", tmp_path / "run")
    make(tmp_path / "run", "other weights")
    with pytest.raises(VseppError, match=r"made from another run than .*run: expected digest"):
        require_input(tmp_path / "embeddings", "run", tmp_path / "run")


def test_a_missing_manifest_is_named(tmp_path):
    with pytest.raises(VseppError, match=r"manifest\.json: missing"):
        read_manifest(tmp_path)


def test_the_digest_of_an_artefact_is_the_recorded_one(tmp_path):
    make(tmp_path / "out", "result")
    manifest = read_manifest(tmp_path / "out")
    manifest["outputs"]["file.txt"] = "recorded"
    write_manifest(tmp_path / "out", manifest)
    assert artefact_digest(tmp_path / "out" / "file.txt") == "recorded"


def test_state_survives_a_failure_and_goes_after_success(tmp_path):
    with pytest.raises(RuntimeError), state_folder(tmp_path / "out", "job", {"a": 1}) as state:
        (state / "half").write_text("done")
        raise RuntimeError
    with state_folder(tmp_path / "out", "job", {"a": 1}) as again:
        assert (again / "half").read_text() == "done"
    assert not again.exists()
    with state_folder(tmp_path / "out", "job", {"a": 2}) as other:
        assert other != again


def test_publish_moves_files_into_place(tmp_path):
    (tmp_path / "new").write_text("new")
    (tmp_path / "old").write_text("old")
    publish({tmp_path / "new": tmp_path / "old"})
    assert (tmp_path / "old").read_text() == "new"


def test_written_text_leaves_no_partial_file(tmp_path):
    write_text(tmp_path / "deep" / "file.txt", "text")
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["file.txt"]
