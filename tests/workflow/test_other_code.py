"""Results that other code made: what is made again, and what is accepted as it is."""

import subprocess
import sys

import pytest
from dag import COPIED, ROOT, RUNS, Project

pytestmark = pytest.mark.workflow
VSE0, VSEPP, RC, FT = RUNS
MH = "vsepp/losses/max_of_hinges.py"
REPORT = "reports/tiny/paper/vsepp"
WHY = "an unused name"
EARLIER = "100fbc3"
"""A commit, before results could be accepted."""


def accept(project, *what):
    return project.said("vsepp", "accept", *what, "--why", WHY)


def test_an_edit_of_a_loss_trains_again_what_uses_it_unless_it_is_accepted(project):
    before = {run: project.weights(run) for run in RUNS}
    project.edit(MH)
    said = project.run("--dry-run")
    # A fine-tuned model is made from a frozen one.
    assert "were made by other code and will be made again when needed: 3 run, 1 figure_data." in said
    assert project.trained() == {VSEPP, RC, FT}
    assert "1 results accepted" in accept(project, VSEPP)
    assert project.trained() == {RC, FT}
    accept(project, "run", "figure_data")
    assert project.planned() == {}
    assert "made by other code" not in project.run("--dry-run")
    project.said("vsepp", "verify")

    # What is shown from now on says so.
    (project.folder / REPORT / "index.html").unlink()
    project.run("reproduce_tables")
    assert {run: project.weights(run) for run in RUNS} == before
    note = "partly made by other code, accepted as equivalent to the current code (run, 20"
    assert f"<li><sup>‡</sup> {note}" in (project.folder / REPORT / "index.html").read_text()
    assert note in (project.folder / REPORT / f"runs/{VSEPP}.html").read_text()
    assert "‡" not in (project.folder / REPORT / f"runs/{VSE0}.html").read_text()
    assert "marked ‡" in (project.folder / REPORT / "headline.txt").read_text()
    project.said("vsepp", "export", f"results/tiny/paper/runs/{VSEPP}/seed-0", "exported")
    assert f": {WHY})." in (project.folder / "exported/README.md").read_text()

    project.edit(MH, new="\nANOTHER = True\n")
    assert project.trained() == {VSEPP, RC, FT}


@pytest.mark.whole
def test_what_was_accepted_and_is_made_again_is_made_once(project):
    project.edit(MH)
    accept(project, "all")
    project.edit("params/presets/tiny.yaml", "\nruns:\n", f"\nruns:\n  {VSEPP}: {{loss: {{margin: 0.1}}}}\n")
    assert project.planned("reproduce_tables") == {"train": 1, "evaluate": 1, "report": 1}
    project.run("reproduce_tables")
    assert project.planned("reproduce_tables") == {}
    project.said("vsepp", "verify")
    project.edit(MH, new="\nANOTHER = True\n")
    assert project.trained() == {VSEPP, RC, FT}


def test_what_differs_in_more_than_code_is_not_accepted(project):
    project.edit(MH)
    project.edit("params/presets/tiny.yaml", "\nruns:\n", f"\nruns:\n  {RC}: {{loss: {{margin: 0.1}}}}\n")
    weights = project.model(VSE0) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    project.edit("vsepp/losses/sum_of_hinges.py")
    said = project.refusal("vsepp", "accept", "run", "--why", WHY)
    assert "1 results accepted and kept; 3 refused, more than code differs" in said
    assert "its loss.margin is its default, expected 0.1 by params/" in said
    assert "model.safetensors is not what its step wrote" in said
    assert project.trained() == {VSE0, RC, FT}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["runs", "--why", WHY],
            "runs: neither all, nor a kind of artefact, nor a run of preset tiny; did you mean run?",
        ),
        (["all", "--why", " "], "--why: is empty"),
    ],
)
def test_a_wrong_call_of_accept_says_what_it_expects(project, arguments, said):
    assert said in project.vsepp("accept", *arguments, status=1)


MAKE = """
import sys
from pathlib import Path
from dag import make_tiny_project
make_tiny_project(Path(sys.argv[1])).run("reproduce_tables")
"""


@pytest.mark.whole
def test_results_of_an_earlier_commit_are_read_and_can_be_accepted(tmp_path):
    archive = subprocess.run(["git", "-C", ROOT, "archive", EARLIER], capture_output=True)
    if archive.returncode:
        pytest.skip(f"needs the history of the repository, with commit {EARLIER}")
    earlier, project = tmp_path / "earlier", Project(tmp_path / "vsepp")
    earlier.mkdir()
    subprocess.run(["tar", "x", "-C", earlier], input=archive.stdout, check=True)
    paths = ":".join(map(str, (earlier / "tests/support", earlier)))
    environment = {**project.environment, "PYTHONPATH": paths}
    subprocess.run([sys.executable, "-c", MAKE, project.folder], cwd=earlier, env=environment, check=True)
    before = {run: project.weights(run) for run in RUNS}
    for name in set(COPIED) - {"params"}:
        subprocess.run(["rm", "-rf", project.folder / name], check=True)
        subprocess.run(["cp", "-a", ROOT / name, project.folder / name], check=True)
    assert project.trained() == set(RUNS)
    # What is computed for a figure has parameters in another form since then, and so has the report; both take seconds.
    said = project.refusal("vsepp", "accept", "all", "--why", WHY)
    assert "17 results accepted and kept; 2 refused, more than code differs" in said, said[-600:]
    assert project.trained() == set()
    assert project.planned("reproduce_tables").keys() <= {"figure_data", "report", "paper"}
    (project.folder / REPORT / "index.html").unlink()
    project.run("reproduce_tables")
    assert project.planned("reproduce_tables") == {}
    assert {run: project.weights(run) for run in RUNS} == before
    assert "‡" in (project.folder / REPORT / "index.html").read_text()
