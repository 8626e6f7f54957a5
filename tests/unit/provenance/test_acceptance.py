"""What is accepted of other code, beside what is made from it, and of what is gone."""

import shutil
from dataclasses import replace

import pytest
from artefacts import artefact

from vsepp.provenance.acceptance import accept, made_by_other_code, standing_code
from vsepp.provenance.digests import FileCache
from vsepp.provenance.manifest import accepted_steps, read_manifest, recorded, write_manifest
from vsepp.provenance.verify import verify

WHY = "a name was changed"


def make(row):
    row.folder.mkdir(parents=True)
    with recorded(row.folder, row.kind, spec=row.spec, inputs=row.inputs, code=row.code):
        (row.folder / "file").write_text(row.name)
    return row


@pytest.fixture
def known(tmp_path):
    return FileCache(tmp_path / "known.json")


@pytest.fixture
def made(tmp_path):
    """A store, a tape made from it, a run made from the tape."""
    store = make(artefact("store", tmp_path / "store", {"side": 64}, "old"))
    tape = make(artefact("tape", tmp_path / "tape", {"draw": 0}, "old", {"store": store.folder}))
    run = make(artefact("run", tmp_path / "run", {}, "old", {"tape": tape.folder}))
    return [store, tape, run]


def with_code(artefacts, **codes):
    """The artefacts as a plan has them whose code is another one."""
    return [replace(one, code=codes.get(one.kind, one.code)) for one in artefacts]


def accepted(chosen, artefacts, known):
    return accept(chosen, {one.folder: one for one in artefacts}, WHY, known)


def test_what_is_accepted_counts_as_made_by_the_present_code_and_no_other(made, known):
    _, _, run = now = with_code(made, run="new")
    assert made_by_other_code(now) == [run] and standing_code(run) == "new"
    assert accepted(now, now, known) == ([run], [])
    assert made_by_other_code(now) == [] and standing_code(run) == "old"
    assert verify(run, known) is None
    assert read_manifest(run.folder)["accepted"] | {"when": ""} == {"for": "new", "when": "", "why": WHY}
    newer = replace(run, code="newer")
    assert made_by_other_code([newer]) == [newer] and standing_code(newer) == "newer"
    assert "made by other code" in str(verify(newer, known))
    # Back at the code that made it, nothing was ever otherwise.
    assert standing_code(made[2]) == "old" and verify(made[2], known) is None


def test_what_was_made_from_it_says_so_too(made, known):
    now = with_code(made, store="new")
    assert accepted(now[:1], now, known) == (now[:1], [])
    for folder in (now[1].folder, now[2].folder):
        manifest = read_manifest(folder)
        assert [made["step"] for made in manifest["ancestors"] if "accepted" in made] == ["store"]
        (said,) = accepted_steps(manifest)
        assert said.startswith("store, 20") and said.endswith(WHY)


def test_manifests_that_name_ancestors_by_their_role_are_accepted_and_verified_too(made, known):
    """As earlier ones do; some steps had other names."""
    for row, roles in ((made[1], ["store"]), (made[2], ["tape.store", "tape"])):
        manifest = read_manifest(row.folder)
        by_role = dict(zip(roles, manifest["ancestors"], strict=True))
        for ancestor in by_role.values():
            ancestor["step"] = {"tape": "features"}.get(ancestor["step"], ancestor["step"])
        write_manifest(row.folder, {**manifest, "ancestors": by_role})
    now = with_code(made, store="new", tape="new")
    shutil.rmtree(now[0].folder)
    table = {one.folder: one for one in now}
    assert verify(now[2], known, table) is None, "the tape is here, which is verified for itself"
    assert "made from a store with other code" in str(verify(now[1], known, table))
    assert accepted(now, now, known) == ([now[1]], [])
    assert verify(now[1], known, table) is None
    assert "accepted" in read_manifest(now[2].folder)["ancestors"]["tape.store"]
    steps = [step.partition(",")[0] for step in accepted_steps(read_manifest(now[2].folder))]
    assert steps == ["store", "features"]


def test_what_is_made_from_an_accepted_result_says_so(made, known):
    now = with_code(made, store="new")
    accepted(now, now, known)
    shutil.rmtree(now[1].folder)
    make(now[1])
    assert accepted_steps(read_manifest(now[1].folder))


def test_deleted_ancestors_are_accepted_with_what_was_made_from_them(made, known):
    now = with_code(made, tape="new", store="new")
    shutil.rmtree(now[0].folder)
    shutil.rmtree(now[1].folder)
    table = {one.folder: one for one in now}
    assert "made from a tape with other code" in str(verify(now[2], known, table))
    assert accepted(now, now, known) == ([], [])
    assert verify(now[2], known, table) is None
    other = {one.folder: one for one in with_code(now, tape="newer")}
    assert "made from a tape with other code" in str(verify(now[2], known, other))


def test_deleted_ancestors_of_other_parameters_are_not(made, known):
    now = [replace(one, spec={"draw": 1}, code="new") if one.kind == "tape" else one for one in made]
    shutil.rmtree(now[1].folder)
    accepted(now, now, known)
    assert accepted_steps(read_manifest(now[2].folder)) == []


def test_what_differs_in_more_stays_as_it_is(made, known):
    before = (made[2].folder / "manifest.json").read_text()
    now = with_code(made, store="new")
    now[2] = replace(now[2], spec={"margin": 1}, code="new")
    found, (refused,) = accepted(now, now, known)
    assert found == [now[0]] and "its margin is its default, expected 1" in str(refused)
    assert (made[2].folder / "manifest.json").read_text() == before


def test_another_result_of_the_same_name_is_not_accepted_with_the_present_one(made, known):
    shutil.rmtree(made[1].folder)
    make(replace(made[1], code="between"))
    now = with_code(made, tape="new")
    assert accepted(now, now, known) == ([now[1]], [])
    assert accepted_steps(read_manifest(now[2].folder)) == []


def test_what_is_made_again_is_held_to_the_digest_of_the_accepted_result(made, known):
    now = with_code(made, run="new")
    accepted(now, now, known)
    shutil.rmtree(now[2].folder)
    now[2].folder.mkdir()
    with recorded(
        now[2].folder, "run", spec={}, inputs=now[2].inputs, code="new", held_to=standing_code(made[2])
    ):
        pass
    assert read_manifest(now[2].folder)["code_digest"] == "new"
    assert standing_code(now[2]) == "old" and made_by_other_code(now) == []
    assert standing_code(replace(now[2], code="newer")) == "newer"
