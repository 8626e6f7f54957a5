from __future__ import annotations

import json
from pathlib import Path

import pytest

from vsepp.errors import VseppError
from vsepp.reporting.origins import Origin, dirty_note, dirty_steps, read_origin

CLEAN, DIRTY = {"commit": "abc", "dirty": False}, {"commit": "def", "dirty": True}


def ancestor(step, git):
    return {"step": step, **git}


def test_a_history_is_as_clean_as_all_that_it_was_made_from(write_history):
    features = {"features": ancestor("features", CLEAN), "features.store": ancestor("store", CLEAN)}
    clean = read_origin(Path(write_history("clean", [1], git=CLEAN, ancestors=features)))
    assert clean == Origin(("abc", False), None, ())
    below = {**features, "features.store": ancestor("store", DIRTY)}
    found = read_origin(Path(write_history("dirty", [1], git=CLEAN, ancestors=below)))
    assert found == Origin(("abc", False), None, ("store",)), "the training itself was committed"


def test_a_fine_tuned_run_is_as_dirty_as_the_run_that_it_starts_from(write_history):
    start = {"init_from": ancestor("train", DIRTY)}
    found = read_origin(Path(write_history("tuned", [1], git=CLEAN, ancestors=start)))
    assert found == Origin(("abc", True), None, ("train",))


def test_without_git_nothing_is_called_dirty(write_metrics):
    unknown = {"commit": "unknown", "dirty": None}
    file = write_metrics("a", [1, 2, 3, 4, 5], [1, 2, 3, 4, 5], git=unknown, trained=unknown)
    assert read_origin(Path(file)) == Origin(("unknown", False), ("unknown", False), ())


def test_a_file_without_a_manifest_has_an_unknown_commit(write_metrics, write_history):
    metrics = write_metrics("a", [1, 2, 3, 4, 5], [1, 2, 3, 4, 5])
    assert read_origin(Path(metrics)) == Origin(None, ("unknown", False))
    assert read_origin(Path(write_history("a", [1]))) == Origin(("unknown", False), None)


def test_a_manifest_that_was_made_clean_by_hand_is_refused(write_history):
    file = Path(write_history("a", [1], git=DIRTY))
    manifest = file.parent / "manifest.json"
    content = json.loads(manifest.read_text())
    content["git"]["dirty"] = False
    manifest.write_text(json.dumps(content))
    with pytest.raises(VseppError, match="not as its step wrote it"):
        read_origin(file)


def test_the_note_names_each_step_once_in_the_order_of_the_workflow(write_history):
    ancestors = {
        "tape": ancestor("tape", DIRTY),
        "tape.store": ancestor("store", DIRTY),
        "features.store": ancestor("store", DIRTY),
    }
    origin = read_origin(Path(write_history("a", [1], git=DIRTY, ancestors=ancestors)))
    assert origin.dirty == ("store", "tape", "train")
    assert "(store, tape and train)" in dirty_note(dirty_steps([origin, origin]))
