"""What can go wrong between git, DVC and Snakemake, each shown without its safeguard and with it."""

import shutil
from contextlib import chdir

import pytest
from projects import ROOT, RUNS

from vsepp.pipeline.planner import make_plan

pytestmark = pytest.mark.dvc
RUN, OTHER, *_ = RUNS
PRESET = "params/presets/tiny.yaml"
REPORT = "reports/tiny/paper/vsepp"


def change_a_run(project):
    """Another margin of one run."""
    assert f"  {RUN}:" not in (project.folder / PRESET).read_text()
    project.edit(PRESET, "\nruns:\n", f"\nruns:\n  {RUN}: {{loss: {{margin: 0.1}}}}\n")


def steps_of(project):
    """The steps that read trained runs, as the workflow calls them with the present parameters: run → its evaluation."""
    with chdir(project.folder):
        table = make_plan("params").table
    found = {}
    for kind, name in table:
        if kind in ("evaluation", "report"):
            found[name.partition("/")[0] if kind == "evaluation" else kind] = ["make", kind, name]
    return found


def test_the_project_pins_a_cache_of_copies(project):
    """DVC breaks a hard link before a phase: a stale model would then look newer than what changed before it."""
    assert project.output("dvc", "config", "cache.type").strip() == "reflink,copy"
    assert (ROOT / ".dvc/config").read_text() == (project.folder / ".dvc/config").read_text()
    assert (project.model() / "model.safetensors").stat().st_nlink == 1


def test_results_of_another_commit_are_refused_where_times_would_let_them_pass(project):
    change_a_run(project)
    project.commit("Another margin; its results are not checked out")
    by_times = project.run("all_results", "--dry-run", "--rerun-triggers", "mtime")
    assert "Nothing to be done" in by_times, "by times alone, another version's model is fine"
    steps = steps_of(project)
    said = project.vsepp(*steps[RUN], status=1)
    assert "trained with other values of loss.margin than the spec asks for" in said
    said = project.vsepp(*steps["report"], status=1)
    assert "the model behind it was trained with other parameters than the present ones" in said
    assert f"--forcerun results/tiny/paper/runs/{RUN}/seed-0/model.safetensors" in said
    said = project.vsepp("verify", status=1)
    assert "its loss.margin is its default, expected 0.1 by params/" in said
    assert f"results/tiny/paper/runs/{RUN}/seed-0" in said


def test_another_runs_model_and_recalls_edited_by_hand_are_refused(project):
    for file in project.model(OTHER).iterdir():
        shutil.copy2(file, project.model(RUN) / file.name)
    steps = steps_of(project)
    assert "trained with other values" in project.vsepp(*steps[RUN], status=1)
    assert "made from another run" in project.vsepp(*steps["report"], status=1)
    assert f"evaluations/{RUN}/seed-0: made from another run" in project.vsepp("verify", status=1)
    metrics = project.evaluation() / "metrics.json"
    metrics.write_text(metrics.read_text().replace('"r1"', '"r1" '))
    assert "metrics.json: is not what its step wrote" in project.vsepp(*steps["report"], status=1)


def test_a_damaged_manifest_is_one_sentence_and_the_others_are_looked_at(project):
    manifest = project.model() / "manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:-9])
    name = manifest.relative_to(project.folder).as_posix()
    (project.model(OTHER) / "model.safetensors").write_bytes(b"")
    said = project.vsepp("verify", status=1)
    assert name in said and f"{OTHER}/seed-0: model.safetensors is not what its step wrote" in said
    said = project.output("vsepp", "runs")
    assert name in said
    assert [line.split()[0] for line in said.splitlines() if "  0  " in line] == RUNS[1:]
    assert "margin" in project.vsepp("show", RUN)
    said = project.vsepp("record", status=1)
    assert name in said and "3 models recorded now" in said


def test_what_is_told_to_type_makes_the_same_again_with_the_settings_that_were_given(project):
    config = ["--config", f'only=["{OTHER}"]']
    metrics = project.evaluation(OTHER) / "metrics.json"
    before, folder = metrics.read_bytes(), f"results/tiny/paper/evaluations/{OTHER}/seed-0: "
    metrics.write_bytes(b"{}")
    said = project.vsepp("verify", *config, status=1)
    project.typed(said[said.index(folder) :])
    assert metrics.read_bytes() == before
    assert folder not in project.vsepp("verify", *config, status=1), "the report is of other runs"
    shutil.rmtree(metrics.parent)
    said = project.vsepp("compare", OTHER, RUN, *config, status=1)
    assert f"{OTHER}: was not evaluated" in said and f"'only=[\"{OTHER}\"]'" in said


def test_a_deleted_run_is_named_and_comes_back_bit_for_bit_by_the_command_that_is_told(project):
    before = project.weights()
    shutil.rmtree(project.model())
    said = project.vsepp("verify", status=1)
    project.typed(said[said.index(f"results/tiny/paper/runs/{RUN}/seed-0: missing") :])
    assert project.weights() == before


@pytest.mark.whole
def test_two_at_once_do_not_spoil_results(project):
    change_a_run(project)
    processes = [project.start("dvc", "repro", "--single-item", "models") for _ in range(2)]
    outputs = [process.communicate()[0] for process in processes]
    assert 0 in [process.returncode for process in processes], outputs
    for process, output in zip(processes, outputs, strict=True):
        assert process.returncode == 0 or "lock" in output.lower(), output
    project.call("vsepp", "verify", "--phase", "models")
    assert "up to date" in project.output("dvc", "status", "models")
