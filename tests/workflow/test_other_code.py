"""Results that other code made: what is made again, and how they are kept after an edit that changes no number."""

import pytest
from projects import RUNS

pytestmark = pytest.mark.workflow
VSE0, VSEPP, RC, FT = RUNS
MH = "vsepp/losses/max_of_hinges.py"
PRESET = "params/presets/tiny.yaml"
PHASES = ["all_corpus", "all_features", "all_models", "all_results"]


def touch(project, *options):
    """Tell Snakemake that all is done."""
    project.call("snakemake", "--cores", "1", "--touch", "--forceall", *options, "--", *PHASES)


def test_what_other_code_made_is_kept_where_it_is_told_to_be_and_other_parameters_are_not(project):
    """With an edit that changes no number, as docs/versions.md says it."""
    (tape,) = (project.folder / "results/tiny/tapes").glob("*/manifest.json")
    commit = project.output("git", "rev-parse", "HEAD~1").strip()  # of the code: HEAD adds results
    project.edit(MH)
    # A fine-tuned model is made from a frozen one.
    assert project.trained() == {VSEPP, RC, FT}
    lines = project.output("vsepp", "verify").splitlines()[:3]
    assert all(line.endswith(f"commit {commit[:10]}") for line in lines)
    assert [line.split("/")[4] for line in lines] == [VSEPP, RC, FT]
    not_kept = ["--config", "resources={keep_tapes: false}"]
    touch(project, "--notemp", *not_kept)
    assert tape.is_file() and project.planned(*PHASES, "reproduce_tables") == {}

    # The next edit makes them again.
    project.edit(MH, new="\nANOTHER = True\n")
    assert project.trained() == {VSEPP, RC, FT}

    project.edit(PRESET, "\nruns:\n", f"\nruns:\n  {VSE0}: {{loss: {{margin: 0.1}}}}\n")
    touch(project, *not_kept)
    assert not tape.exists(), "without --notemp it is deleted"
    lines = project.vsepp("verify", status=1).splitlines()
    (line,) = [line for line in lines if line.startswith(f"results/tiny/paper/runs/{VSE0}/")]
    assert "loss.margin" in line and "0.1" in line
