"""Manifests record what an artefact was made from, and a mix-up is refused."""

import threading

import pytest
from processes import wait_until

from vsepp.base.digests import file_digest
from vsepp.base.errors import VseppError
from vsepp.base.manifest import (
    Manifest,
    ancestors_of,
    artefact_digest,
    read_manifest,
    recorded,
    require_intact,
    write_manifest,
)
from vsepp.base.publish import state_folder


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
    assert manifest["start_cpu_seconds"] > 0
    assert manifest["cpu_seconds"] >= 0
    assert {"commit", "dirty"} == set(manifest["git"])


def test_the_digest_of_an_artefact_is_the_recorded_one(tmp_path):
    make(tmp_path / "out", "result")
    manifest = read_manifest(tmp_path / "out")
    manifest["outputs"]["file.txt"] = "recorded"
    write_manifest(tmp_path / "out", manifest)
    assert artefact_digest(tmp_path / "out" / "file.txt") == "recorded"


@pytest.mark.parametrize(
    "key", [key for key in Manifest.model_fields if key not in ("start_cpu_seconds", "cpu_seconds", "digest")]
)
def test_each_key_of_a_manifest_is_there_and_of_its_type(tmp_path, key):
    make(tmp_path / "out", "result")
    written = read_manifest(tmp_path / "out")
    without = {name: value for name, value in written.items() if name != key}
    for changed in (without, {**without, key: [[]]}):
        write_manifest(tmp_path / "out", changed)
        with pytest.raises(VseppError, match=rf"out/manifest\.json: {key}"):
            read_manifest(tmp_path / "out")


@pytest.mark.parametrize("name", ["../../evil", "", "a\0b", "manifest.json"])
def test_names_of_outputs_are_bare_names(tmp_path, name):
    make(tmp_path / "out", "result")
    manifest = read_manifest(tmp_path / "out")
    write_manifest(tmp_path / "out", {**manifest, "outputs": {name: "d"}})
    with pytest.raises(VseppError, match=r"out/manifest\.json: outputs"):
        read_manifest(tmp_path / "out")


def test_ancestors_under_dotted_roles_are_read(tmp_path):
    make(tmp_path / "out", "result")
    make(tmp_path / "next", "result", out=tmp_path / "out")
    manifest = read_manifest(tmp_path / "next")
    (ancestor,) = manifest["ancestors"]
    write_manifest(tmp_path / "next", {**manifest, "ancestors": {"out": ancestor}})
    assert ancestors_of(read_manifest(tmp_path / "next")) == [ancestor]
    write_manifest(tmp_path / "next", {**manifest, "ancestors": [{**ancestor, "digest": 7}]})
    with pytest.raises(VseppError, match=r"ancestors\.0\.digest: got 7"):
        read_manifest(tmp_path / "next")


def test_seconds_in_a_history_make_no_other_model_but_are_verified(tmp_path):
    for seconds in ("1.5", "2.5"):
        (tmp_path / seconds).mkdir()
        with recorded(tmp_path / seconds, "train", spec={}, inputs={}):
            (tmp_path / seconds / "model.safetensors").write_text("weights")
            (tmp_path / seconds / "history.csv").write_text(seconds)
    assert artefact_digest(tmp_path / "1.5") == artefact_digest(tmp_path / "2.5")
    (tmp_path / "1.5" / "history.csv").write_text("0.5")
    with pytest.raises(VseppError, match=r"history\.csv"):
        require_intact(tmp_path / "1.5")
    assert require_intact(tmp_path / "1.5", "model.safetensors")["step"] == "train"
    (tmp_path / "1.5" / "model.safetensors").unlink()
    with pytest.raises(VseppError, match=r"model\.safetensors"):
        require_intact(tmp_path / "1.5", "model.safetensors")


def test_unfinished_work_of_other_parameters_or_code_is_kept_and_told_with_what_differs(tmp_path, caplog):
    def begin(output="run", margin=0.2, code="c1"):
        with (
            pytest.raises(RuntimeError),
            state_folder(tmp_path / output, spec={"loss": {"margin": margin}}, code=code) as state,
        ):
            (state / "half").touch()
            raise RuntimeError

    begin()
    begin(output="another-run", margin=0.9)
    begin()
    assert caplog.text == "", "its own work and that of other outputs is nothing to speak of"
    begin(margin=0.3, code="c2")
    assert "code: c1 there, c2 now; spec.loss.margin: 0.2 there, 0.3 now" in caplog.text
    assert len(caplog.records) == 1
    with state_folder(tmp_path / "run", spec={"loss": {"margin": 0.2}}, code="c1") as state:
        assert (state / "half").is_file(), "of use again where they are changed back"


def test_a_second_process_says_that_it_waits_and_has_the_folder_next(tmp_path, caplog):
    def second():
        with state_folder(tmp_path / "out", spec={}) as state:
            order.append((state / "half").exists())

    order, thread = [], threading.Thread(target=second)
    with state_folder(tmp_path / "out", spec={}) as state:
        (state / "half").touch()
        thread.start()
        wait_until(lambda: caplog.records)
        assert order == []
    thread.join()
    assert order == [False], "the first one had finished, and nothing of it is left"
    assert "out: " in caplog.text


def test_an_input_that_is_edited_meanwhile_is_not_vouched_for(tmp_path):
    read, folder = tmp_path / "read.json", tmp_path / "made"
    read.write_text("as it was read")
    folder.mkdir()
    before = file_digest(read)
    with recorded(folder, "step", spec={}, inputs={"raw": read}):
        read.write_text("as it was edited")
    assert read_manifest(folder)["inputs"] == {"raw": before}
