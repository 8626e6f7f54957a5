"""What `verify` holds against an artefact, and what it does not."""

import json
import os

import pytest

from vsepp.provenance.known import KnownDigests
from vsepp.provenance.manifest import read_manifest, recorded, write_manifest
from vsepp.provenance.verify import Expected, verify

SPEC = {"margin": 0.2, "splits": ("train", "val")}


def make(folder, text="weights", spec=SPEC, code="code", **inputs):
    folder.mkdir(exist_ok=True, parents=True)
    with recorded(folder, "train", spec=spec, inputs=inputs, code=code):
        (folder / "model").write_text(text)
        (folder / "history").write_text("history of " + text)
    return folder


@pytest.fixture
def parts(tmp_path):
    """A corpus made from a raw file, and a run made from the corpus."""
    raw = tmp_path / "raw.json"
    raw.write_text("captions")
    corpus = make(tmp_path / "corpus", "tables", {"reader": "coco", "files": {"raw": str(raw)}}, captions=raw)
    run = make(tmp_path / "run", corpus=corpus)
    return {"raw": raw, "corpus": corpus, "run": run, "known": KnownDigests(tmp_path / "known.json")}


def of_run(parts, **changes):
    values = {
        "folder": parts["run"],
        "phase": "models",
        "target": parts["run"] / "model",
        "spec": SPEC,
        "code": "code",
        "inputs": {"corpus": parts["corpus"]},
    }
    return verify(Expected(**{**values, **changes}), parts["known"])


def of_corpus(parts, **changes):
    values = {
        "folder": parts["corpus"],
        "phase": "corpus",
        "target": parts["corpus"] / "model",
        "spec": {"reader": "coco", "files": {"raw": str(parts["raw"])}},
        "code": "code",
        "raw": {"captions": parts["raw"]},
        "elsewhere": ("files",),
    }
    return verify(Expected(**{**values, **changes}), parts["known"])


def test_what_is_as_expected_verifies(parts):
    assert of_run(parts) is None
    assert of_corpus(parts) is None


def test_a_differing_value_is_named_with_both_values(parts):
    found = of_run(parts, spec={**SPEC, "margin": 0.3})
    assert "its margin is 0.2, expected 0.3 by params/" in str(found)
    assert f"--forcerun {parts['run'] / 'model'}" in found.mend


def test_several_differing_values_are_counted_and_named(parts):
    assert "(3 keys differ: margin, new, splits)" in str(of_run(parts, spec={"margin": 0.3, "new": 1}))


def test_a_difference_deep_inside_is_shown_without_what_is_around_it(parts):
    make(
        parts["run"],
        spec={"models": [{"name": "a", "loss": {"margin": 0.2}}, {"name": "b"}]},
        corpus=parts["corpus"],
    )
    wanted = {"models": ({"name": "a", "loss": {"margin": 0.3}}, {"name": "b"})}
    assert "its models.0.loss.margin is 0.2, expected 0.3 by params/" in str(of_run(parts, spec=wanted))
    assert "its models is [" in str(of_run(parts, spec={"models": []})), (
        "lists of other lengths are shown whole"
    )


def test_a_spec_of_none_is_not_compared(parts):
    assert of_run(parts, spec=None) is None


def test_other_code_is_refused(parts):
    assert "made by other code" in str(of_run(parts, code="other"))


def test_an_input_that_was_made_again_differently_is_refused(parts):
    make(parts["corpus"], "other tables")
    assert f"made from another corpus than {parts['corpus']}" in str(of_run(parts))


def test_an_input_that_was_made_again_equally_is_the_same(parts):
    make(parts["corpus"], "tables", captions=parts["raw"])
    assert of_run(parts) is None


def test_an_input_that_the_manifest_does_not_name_is_refused(parts):
    assert "names no tokens" in str(of_run(parts, inputs={"corpus": parts["corpus"], "tokens": parts["raw"]}))


def test_an_input_that_the_manifest_does_not_name_is_refused_also_where_it_is_absent(parts):
    absent = parts["run"].parent / "nowhere"
    assert "names no tape" in str(of_run(parts, inputs={"corpus": parts["corpus"], "tape": absent}))


def as_expected(folder, spec, code="code", **inputs):
    return {folder: Expected(folder, "models", folder, spec, code, inputs, versioned=False)}


@pytest.fixture
def chain(parts):
    """A run made from a tape that was made from a store, both deleted since, and the plan's words for the two."""
    store = make(parts["run"].parent / "store", spec={"side": 64}, code="store code")
    tape = make(parts["run"].parent / "tape", spec={"draw": 0}, code="tape code", store=store)
    make(parts["run"], corpus=parts["corpus"], tape=tape)
    for path in [*store.iterdir(), *tape.iterdir()]:
        path.unlink()
    store.rmdir()
    tape.rmdir()

    def verified(draw=0, side=64, tape_code="tape code", store_code="store code"):
        plan = {
            **as_expected(tape, {"draw": draw}, tape_code, store=store),
            **as_expected(store, {"side": side}, store_code),
        }
        inputs = {"corpus": parts["corpus"], "tape": tape}
        run = Expected(parts["run"], "models", parts["run"] / "model", SPEC, "code", inputs)
        return verify(run, parts["known"], plan)

    return verified


def test_deleted_inputs_that_the_plan_would_make_again_equally_are_fine(chain):
    assert chain() is None


@pytest.mark.parametrize(
    "change, role",
    [
        ({"draw": 1}, "tape"),
        ({"tape_code": "x"}, "tape"),
        ({"side": 32}, "tape.store"),
        ({"store_code": "x"}, "tape.store"),
    ],
)
def test_deleted_inputs_that_the_plan_would_make_differently_are_refused(chain, change, role):
    assert f"made from a {role} of other" in str(chain(**change))


def test_an_input_that_should_not_be_read_is_refused(parts):
    assert "made from a corpus, which it should not read" in str(of_run(parts, inputs={}))


def test_an_input_with_a_manifest_edited_by_hand_is_refused(parts):
    edit(parts["corpus"])
    assert "not as its step wrote it" in str(of_run(parts))


def test_a_changed_file_is_named(parts):
    (parts["run"] / "model").write_text("Weights")
    assert "model is not what its step wrote: expected digest" in str(of_run(parts))


def test_a_missing_file_is_named(parts):
    (parts["run"] / "history").unlink()
    assert "history is missing" in str(of_run(parts))


def test_all_differences_are_told_at_once(parts):
    (parts["run"] / "model").write_text("Weights")
    make(parts["corpus"], "other tables")
    found = of_run(parts, spec={**SPEC, "margin": 0.3}, code="other")
    assert len(found.differences) == 4


@pytest.mark.parametrize("emptied", [False, True])
def test_a_missing_artefact_is_named_with_the_command_that_makes_it(parts, emptied):
    for path in parts["run"].iterdir():
        path.unlink()
    if not emptied:
        parts["run"].rmdir()
    found = of_run(parts)
    assert found.differences == ("missing",)
    assert found.mend.startswith(f"snakemake --cores all -- {parts['run'] / 'model'}")


def test_what_is_not_versioned_may_be_absent_but_not_wrong(parts):
    assert of_run(parts, folder=parts["run"].parent / "nowhere", versioned=False) is None
    (parts["run"] / "model").write_text("Weights")
    assert "model is not what" in str(of_run(parts, versioned=False))


def test_without_a_manifest_there_is_no_provenance(parts):
    (parts["run"] / "manifest.json").unlink()
    assert "manifest.json: missing" in str(of_run(parts))


def edit(folder, key="code_digest", value="mine"):
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest[key] = value
    path.write_text(json.dumps(manifest))


@pytest.mark.parametrize("key", ["code_digest", "digest", "outputs", "ancestors", "git", "facts"])
def test_a_manifest_edited_by_hand_is_refused_whatever_was_edited(parts, key):
    edit(parts["run"], key, {"edited": True} if key != "digest" else "0" * 64)
    assert "is not as its step wrote it" in str(of_run(parts))


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", "{", '{"digest": 1}'])
def test_a_damaged_manifest_is_refused_in_words(parts, text):
    (parts["run"] / "manifest.json").write_text(text)
    assert "is not as its step wrote it" in str(of_run(parts))


def test_raw_files_may_lie_elsewhere_but_must_be_the_same(parts):
    elsewhere = parts["raw"].with_name("moved.json")
    parts["raw"].rename(elsewhere)
    spec = {"reader": "coco", "files": {"raw": str(elsewhere)}}
    assert of_corpus(parts, spec=spec, raw={"captions": elsewhere}) is None
    elsewhere.write_text("other captions")
    assert "made from another captions" in str(of_corpus(parts, spec=spec, raw={"captions": elsewhere}))


def test_raw_files_that_are_not_here_are_not_compared(parts):
    assert of_corpus(parts, raw={"captions": parts["raw"].with_name("nowhere.json")}) is None
    assert of_corpus(parts, raw={}) is None


def test_another_reader_is_refused_wherever_the_raw_files_lie(parts):
    assert "its reader is 'coco', expected 'karpathy'" in str(of_corpus(parts, spec={"reader": "karpathy"}))


def test_bytes_changed_behind_an_unchanged_time_need_a_full_look(parts, tmp_path):
    model = parts["run"] / "model"
    assert of_run(parts) is None
    before = model.stat()
    with model.open("r+") as stream:
        stream.write("WEIGHTS")
    os.utime(model, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert of_run(parts) is None, "size, time and inode are the same: this is what --full is for"
    parts["known"].forget()
    assert "model is not what its step wrote" in str(of_run(parts))


def test_a_sealed_manifest_of_other_content_is_a_matter_of_digests(parts):
    """A manifest that is sealed again after an edit is taken, as whoever does that could have run the step."""
    write_manifest(parts["run"], {**read_manifest(parts["run"]), "code_digest": "other"})
    assert "made by other code" in str(of_run(parts))
