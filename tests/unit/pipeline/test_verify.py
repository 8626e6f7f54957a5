"""What `verify` holds against an artefact, and what it does not."""

import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
from artefacts import artefact, changed

from vsepp.base.digests import FileCache
from vsepp.base.manifest import read_manifest, recorded
from vsepp.pipeline.verify import verify, verify_all

SPEC = {"margin": 0.2, "splits": ["train", "val"]}


def make(row, text="weights", **inputs):
    """An artefact as its step would write it; where no inputs are given, it has the inputs that it should have."""
    row.folder.mkdir(exist_ok=True, parents=True)
    read = inputs or row.paths
    with recorded(row.folder, row.kind, spec=row.spec, inputs=read, code=row.code):
        (row.folder / "model").write_text(text)
        (row.folder / "history").write_text("history of " + text)
    return row


@pytest.fixture
def made(tmp_path):
    """A corpus made from a raw file, and a run made from the corpus."""
    raw = tmp_path / "raw.json"
    raw.write_text("captions")
    corpus = artefact("corpus", tmp_path / "corpus", {"reader": "coco"}, "code", raw={"captions": raw})
    run = artefact("run", tmp_path / "run", SPEC, "code", {"corpus": corpus.folder}, files=("model",))
    known = FileCache(tmp_path / "known.json")
    return SimpleNamespace(raw=raw, corpus=make(corpus), run=make(run), known=known)


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        ({"spec": {**SPEC, "margin": 0.3}}, "its margin is 0.2, expected 0.3 by params/"),
        ({"spec": {**SPEC, "precision": "bf16"}}, "its precision is its default, expected 'bf16' by params/"),
        ({"spec": {"margin": 0.3, "new": 1}}, "(3 keys differ: margin, new, splits)"),
        ({"inputs": {}}, "made from a corpus, which it should not read"),
    ],
)
def test_what_is_expected_otherwise_is_told_with_both_values(made, expected, said):
    found = verify(changed(made.run, **expected), made.known, {})
    assert said in str(found)
    model = made.run.folder / "model"
    assert found.mend == [f"snakemake --cores all --forcerun {model} -- {model}"]


def test_a_difference_deep_inside_is_shown_without_what_is_around_it(made):
    def models(margin):
        return {"models": [{"name": "a", "loss": {"margin": margin}}, {"name": "b"}]}

    make(changed(made.run, spec=models(0.2)))
    found = verify(changed(made.run, spec=models(0.3)), made.known, {})
    assert "its models.0.loss.margin is 0.2, expected 0.3 by params/" in str(found)
    shorter = verify(changed(made.run, spec={"models": []}), made.known, {})
    assert "its models is [{" in str(shorter), "lists of other lengths are shown whole"


@pytest.mark.parametrize("there", [True, False], ids=["there", "absent"])
def test_an_input_that_the_manifest_does_not_name_is_refused(made, there):
    tape = made.raw if there else made.raw.with_name("nowhere")
    more = changed(made.run, inputs={**made.run.paths, "tape": tape})
    assert f"its manifest names no tape, expected {tape}" in str(verify(more, made.known, {}))


def edit(folder, key="code_digest", value="mine"):
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest[key] = value
    path.write_text(json.dumps(manifest))


DAMAGE = {
    "another corpus": (lambda m: make(m.corpus, "other tables"), "made from another corpus than "),
    "an edited corpus": (lambda m: edit(m.corpus.folder), "corpus/manifest.json: is not as its step wrote it"),
    "other bytes": (lambda m: (m.run.folder / "model").write_text("Weights"), "model is not what its step wrote: expected digest"),
    "a file that is gone": (lambda m: (m.run.folder / "history").unlink(), "history is missing"),
    "no manifest": (lambda m: (m.run.folder / "manifest.json").unlink(), "manifest.json: missing"),
}  # fmt: skip


@pytest.mark.parametrize(("damage", "said"), DAMAGE.values(), ids=DAMAGE)
def test_what_was_changed_since_is_told(made, damage, said):
    damage(made)
    assert said in str(verify(made.run, made.known, {}))


def test_all_differences_are_told_at_once(made):
    make(made.corpus, "other tables")
    (made.run.folder / "model").write_text("Weights")
    found = verify(changed(made.run, spec={**SPEC, "margin": 0.3}), made.known, {})
    assert len(found.differences) == 3


def test_an_input_that_was_made_again_equally_is_the_same(made):
    make(made.corpus)
    assert not verify(made.run, made.known, {}).differences


@pytest.mark.parametrize("key", ["code_digest", "digest", "outputs", "ancestors", "git", "facts"])
def test_a_manifest_edited_by_hand_is_refused_whatever_was_edited(made, key):
    edit(made.run.folder, key, {"edited": True} if key != "digest" else "0" * 64)
    assert "is not as its step wrote it" in str(verify(made.run, made.known, {}))


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b"null", b"{", b'{"digest": 1}', b"\xff\xfe"])
def test_a_damaged_manifest_is_refused_in_words(made, text):
    (made.run.folder / "manifest.json").write_bytes(text)
    assert f"So {made.run.folder} has no provenance" in str(verify(made.run, made.known, {}))


@pytest.mark.parametrize("emptied", [False, True], ids=["gone", "empty"])
def test_what_is_missing_is_named_with_the_command_that_makes_it_unless_it_is_not_versioned(made, emptied):
    shutil.rmtree(made.run.folder)
    if emptied:
        made.run.folder.mkdir()
    found = verify(made.run, made.known, {})
    assert found.differences == ["missing"]
    assert found.mend[0] == f"snakemake --cores all -- {made.run.folder / 'model'}"
    assert verify(changed(made.run, step=replace(made.run.step, versioned=False)), made.known, {}) is None


def test_what_is_not_versioned_may_not_be_wrong_where_it_is_there(made):
    (made.run.folder / "model").write_text("Weights")
    assert "model is not what" in str(
        verify(changed(made.run, step=replace(made.run.step, versioned=False)), made.known, {})
    )


def test_all_of_a_plan_or_of_a_phase_are_counted_and_what_may_be_absent_is_not(made):
    tape = artefact("tape", made.run.folder.parent / "tape", {}, "code")
    table = [made.corpus, tape, made.run]

    def bad(table, phase=None):
        """Of every artefact that is looked at, whether it differs."""
        return {found.folder: bool(found.differences) for found in verify_all(table, made.known, phase)}

    corpus, run = made.corpus.folder, made.run.folder
    assert bad(table) == {corpus: False, run: False}
    make(made.corpus, "other tables")
    assert bad(table) == {corpus: False, run: True}
    assert bad(table, "corpus") == {corpus: False}
    make(made.corpus)
    other = [changed(made.run, code="other"), made.corpus]
    commit = read_manifest(run)["git"]["commit"][:10]
    assert list(map(str, verify_all(other, made.known))) == [
        f"{run}: made by other code, commit {commit}",
        f"{corpus}: ",
    ]


@pytest.mark.parametrize(
    ("kind", "change", "difference", "by_other_code"),
    [
        (None, {}, "", []),
        ("tape", {"spec": {"draw": 1}}, "made from a tape with other parameters (of commit ", []),
        ("tape", {"code": "x"}, "", ["made from a tape by other code, commit "]),
        ("store", {"spec": {"side": 32}}, "made from a store with other parameters (of commit ", []),
        ("store", {"code": "x"}, "", ["made from a store by other code, commit "]),
    ],
)
def test_deleted_inputs_that_would_be_made_with_other_parameters_are_refused(
    made, kind, change, difference, by_other_code
):
    folder = made.run.folder.parent
    store = artefact("store", folder / "store", {"side": 64}, "store code")
    tape = artefact("tape", folder / "tape", {"draw": 0}, "tape code", {"store": store.folder})
    run = changed(made.run, inputs={**made.run.paths, "tape": tape.folder})
    for row in (store, tape, run):
        make(row)
    shutil.rmtree(store.folder)
    shutil.rmtree(tape.folder)
    plan = {a.folder: changed(a, **change) if a.kind == kind else a for a in (store, tape, run)}
    found = verify(run, made.known, plan)
    assert difference in str(found) if difference else not found.differences
    assert [said.rpartition(" ")[0] + " " for said in found.other_code] == by_other_code


def test_raw_files_may_lie_elsewhere_or_be_gone_but_must_be_the_same(made):
    def of_corpus(captions):
        return verify(
            artefact("corpus", made.corpus.folder, made.corpus.spec, "code", raw={"captions": captions}),
            made.known,
            {},
        )

    elsewhere = made.raw.with_name("moved.json")
    made.raw.rename(elsewhere)
    assert not of_corpus(captions=elsewhere).differences
    assert not of_corpus(captions=made.raw).differences, "it is not here any more"
    elsewhere.write_text("other captions")
    assert "made from another captions" in str(of_corpus(captions=elsewhere))
