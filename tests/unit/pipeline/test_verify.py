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
def artefacts(tmp_path):
    """A corpus made from a raw file, and a run made from the corpus."""
    raw = tmp_path / "raw.json"
    raw.write_text("captions")
    corpus = artefact("corpus", tmp_path / "corpus", {"reader": "coco"}, "code", raw={"captions": raw})
    run = artefact("run", tmp_path / "run", SPEC, "code", {"corpus": corpus.folder}, files=("model",))
    known = FileCache(tmp_path / "known.json")
    return SimpleNamespace(raw=raw, corpus=make(corpus), run=make(run), known=known)


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        ({"spec": {**SPEC, "margin": 0.3}}, "margin is 0.2, expected 0.3"),
        ({"spec": {**SPEC, "precision": "bf16"}}, "expected 'bf16' by params/"),
        ({"spec": {**SPEC, "splits": ["train"]}}, "its splits is ['train', 'val'], expected ['train']"),
        ({"inputs": {}}, "made from a corpus"),
    ],
)
def test_what_is_expected_otherwise_is_told_with_both_values(artefacts, expected, words):
    verdict = verify(changed(artefacts.run, **expected), artefacts.known, {})
    assert words in str(verdict)
    model = artefacts.run.folder / "model"
    assert verdict.mend == [f"snakemake --cores all --forcerun {model} -- {model}"]


def edit(folder, key="code_digest", value="mine"):
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest[key] = value
    path.write_text(json.dumps(manifest))


DAMAGE = {
    "another corpus": (lambda m: make(m.corpus, "other tables"), "another corpus"),
    "an edited corpus": (lambda m: edit(m.corpus.folder), "corpus/manifest.json"),
    "other bytes": (lambda m: (m.run.folder / "model").write_text("Weights"), "model is not what"),
    "a file that is gone": (lambda m: (m.run.folder / "history").unlink(), "history is missing"),
    "no manifest": (lambda m: (m.run.folder / "manifest.json").unlink(), "manifest.json: missing"),
    "another spec": (lambda m: edit(m.run.folder, "spec", {}), "run/manifest.json"),
}


@pytest.mark.parametrize(("damage", "named"), DAMAGE.values(), ids=DAMAGE)
def test_what_was_changed_since_is_told(artefacts, damage, named):
    damage(artefacts)
    assert named in str(verify(artefacts.run, artefacts.known, {}))


def test_all_differences_are_told_at_once(artefacts):
    make(artefacts.corpus, "other tables")
    (artefacts.run.folder / "model").write_text("Weights")
    verdict = verify(changed(artefacts.run, spec={**SPEC, "margin": 0.3}), artefacts.known, {})
    assert len(verdict.differences) == 3


def test_an_input_that_was_made_again_equally_is_the_same(artefacts):
    make(artefacts.corpus)
    assert not verify(artefacts.run, artefacts.known, {}).differences


def test_what_is_missing_is_named_with_the_command_that_makes_it_unless_it_is_not_versioned(artefacts):
    shutil.rmtree(artefacts.run.folder)
    verdict = verify(artefacts.run, artefacts.known, {})
    assert verdict.differences == ["missing"]
    assert verdict.mend[0] == f"snakemake --cores all -- {artefacts.run.folder / 'model'}"
    unversioned = changed(artefacts.run, step=replace(artefacts.run.step, versioned=False))
    assert verify(unversioned, artefacts.known, {}) is None


def test_all_of_a_plan_or_of_a_phase_are_counted_and_what_may_be_absent_is_not(artefacts):
    tape = artefact("tape", artefacts.run.folder.parent / "tape", {}, "code")
    table = [artefacts.corpus, tape, artefacts.run]

    def differing(phase=None):
        """Of every artefact that is looked at, whether it differs."""
        verdicts = verify_all(table, artefacts.known, phase)
        return {verdict.folder: bool(verdict.differences) for verdict in verdicts}

    corpus, run = artefacts.corpus.folder, artefacts.run.folder
    assert differing() == {corpus: False, run: False}
    make(artefacts.corpus, "other tables")
    assert differing() == {corpus: False, run: True}
    assert differing("corpus") == {corpus: False}
    make(artefacts.corpus)
    commit = read_manifest(run)["git"]["commit"][:10]
    rows = [changed(artefacts.run, code="other"), artefacts.corpus]
    other, same = map(str, verify_all(rows, artefacts.known))
    assert other == f"{run}: made by other code, commit {commit}" and same == f"{corpus}: "


@pytest.mark.parametrize(
    ("kind", "change", "difference", "of_other_code"),
    [
        (None, {}, "", 0),
        ("tape", {"spec": {"draw": 1}}, "a tape with other parameters", 0),
        ("store", {"spec": {"side": 32}}, "a store with other parameters", 0),
        ("store", {"code": "x"}, "", 1),
    ],
)
def test_deleted_inputs_that_would_be_made_with_other_parameters_are_refused(
    artefacts, kind, change, difference, of_other_code
):
    folder = artefacts.run.folder.parent
    store = artefact("store", folder / "store", {"side": 64}, "store code")
    tape = artefact("tape", folder / "tape", {"draw": 0}, "tape code", {"store": store.folder})
    run = changed(artefacts.run, inputs={**artefacts.run.paths, "tape": tape.folder})
    for row in (store, tape, run):
        make(row)
    shutil.rmtree(store.folder)
    shutil.rmtree(tape.folder)
    plan = {a.folder: changed(a, **change) if a.kind == kind else a for a in (store, tape, run)}
    verdict = verify(run, artefacts.known, plan)
    assert difference in str(verdict) if difference else not verdict.differences
    assert len(verdict.other_code) == of_other_code


def test_raw_files_may_lie_elsewhere_or_be_gone_but_must_be_the_same(artefacts):
    def verify_with(captions):
        row = artefact(
            "corpus", artefacts.corpus.folder, artefacts.corpus.spec, "code", raw={"captions": captions}
        )
        return verify(row, artefacts.known, {})

    elsewhere = artefacts.raw.with_name("moved.json")
    artefacts.raw.rename(elsewhere)
    assert not verify_with(elsewhere).differences
    assert not verify_with(artefacts.raw).differences, "it is not here any more"
    elsewhere.write_text("other captions")
    assert "another captions" in str(verify_with(elsewhere))
