"""Results that other code made: what is made again, and how they are kept after an edit that changes no number."""

import pytest
from dag import RUNS

pytestmark = pytest.mark.workflow
VSE0, VSEPP, RC, FT = RUNS
MH = "vsepp/losses/max_of_hinges.py"
PRESET = "params/presets/tiny.yaml"
PHASES = ["all_corpus", "all_features", "all_models", "all_results"]


def touch(project, *options):
    """Tell Snakemake that all is done."""
    project.call("snakemake", "--cores", "1", "--touch", "--forceall", *options, "--", *PHASES)


def test_results_are_kept_after_an_edit_that_changes_no_number(project):
    before = {run: project.weights(run) for run in RUNS}
    commit = project.said("git", "rev-parse", "HEAD~1").strip()  # of the code: HEAD adds results
    project.edit(MH)
    # A fine-tuned model is made from a frozen one.
    assert project.trained() == {VSEPP, RC, FT}
    said = project.said("vsepp", "verify").splitlines()
    made = f"made by other code, commit {commit[:10]}"
    assert said[:3] == [f"results/tiny/paper/runs/{run}/seed-0: {made}" for run in (VSEPP, RC, FT)]

    touch(project, "--notemp")
    assert project.planned(*PHASES, "reproduce_tables") == {}
    assert {run: project.weights(run) for run in RUNS} == before

    # The next edit makes them again.
    project.edit(MH, new="\nANOTHER = True\n")
    assert project.trained() == {VSEPP, RC, FT}


def test_feature_caches_of_random_crops_survive_only_with_notemp(project):
    (tape,) = (project.folder / "results/tiny/tapes").glob("*/manifest.json")
    not_kept = ["--config", "resources={keep_tapes: false}"]
    touch(project, "--notemp", *not_kept)
    assert tape.is_file()
    touch(project, *not_kept)
    assert not tape.exists()


def test_verify_refuses_other_parameters_that_were_declared_done(project):
    project.edit(PRESET, "\nruns:\n", f"\nruns:\n  {VSE0}: {{loss: {{margin: 0.1}}}}\n")
    touch(project, "--notemp")
    assert project.planned(*PHASES) == {}
    said = project.vsepp("verify", status=1)
    assert f"{VSE0}/seed-0: its loss.margin is its default, expected 0.1 by params/" in said
