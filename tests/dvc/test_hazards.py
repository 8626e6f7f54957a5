"""What can go wrong between git, DVC and Snakemake, each shown without its safeguard and with it."""

import shutil
from contextlib import chdir

import pytest
from projects import ROOT, RUNS

from vsepp.pipeline.planner import make_plan

pytestmark = pytest.mark.dvc
RUN, OTHER, *_ = RUNS
PRESET = "params/presets/tiny.yaml"
MODEL = f"results/tiny/paper/runs/{RUN}/seed-0"


def change_a_run(project):
    """Another margin of one run."""
    assert f"  {RUN}:" not in (project.folder / PRESET).read_text()
    project.edit(PRESET, "\nruns:\n", f"\nruns:\n  {RUN}: {{loss: {{margin: 0.1}}}}\n")


def steps_of(project):
    """The steps that read trained runs, as the workflow calls them with the present parameters: run → its evaluation."""
    with chdir(project.folder):
        table = make_plan("params").table
    commands = {}
    for kind, name in table:
        if kind in ("evaluation", "report"):
            commands[name.partition("/")[0] if kind == "evaluation" else kind] = ["make", kind, name]
    return commands


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
    assert "loss.margin" in project.vsepp(*steps[RUN], status=1)
    assert f"--forcerun {MODEL}/model.safetensors" in project.vsepp(*steps["report"], status=1)
    (line,) = [line for line in project.vsepp("verify", status=1).splitlines() if line.startswith(MODEL)]
    assert "loss.margin" in line and "0.1" in line


def test_another_runs_model_and_recalls_edited_by_hand_are_refused(project):
    for file in project.model(OTHER).iterdir():
        shutil.copy2(file, project.model(RUN) / file.name)
    steps = steps_of(project)
    assert "other values" in project.vsepp(*steps[RUN], status=1)
    assert "another run" in project.vsepp(*steps["report"], status=1)
    assert f"evaluations/{RUN}/seed-0: " in project.vsepp("verify", status=1)
    metrics = project.evaluation() / "metrics.json"
    metrics.write_text(metrics.read_text().replace('"r1"', '"r1" '))
    assert f"{RUN}/seed-0/metrics.json" in project.vsepp(*steps["report"], status=1)


def test_a_damaged_manifest_is_one_sentence_and_the_others_are_looked_at(project):
    manifest = project.model() / "manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:-9])
    name = manifest.relative_to(project.folder).as_posix()
    (project.model(OTHER) / "model.safetensors").write_bytes(b"")
    output = project.vsepp("verify", status=1)
    assert name in output and f"{OTHER}/seed-0: model.safetensors" in output
    output = project.output("vsepp", "runs")
    assert name in output
    assert [line.split()[0] for line in output.splitlines() if "  0  " in line] == RUNS[1:]
    assert "margin" in project.vsepp("show", RUN)
    output = project.vsepp("record", status=1)
    assert name in output and "3 models" in output


def test_printed_commands_make_the_same_again_with_the_settings_of_the_call(project):
    config = ["--config", f'only=["{OTHER}"]']
    metrics, weights = project.evaluation(OTHER) / "metrics.json", project.weights()
    before, folder = metrics.read_bytes(), f"results/tiny/paper/evaluations/{OTHER}/seed-0: "
    metrics.write_bytes(b"{}")
    output = project.vsepp("verify", *config, status=1)
    project.typed(output[output.index(folder) :])
    assert metrics.read_bytes() == before
    assert folder not in project.vsepp("verify", *config, status=1), "the report is of other runs"
    shutil.rmtree(metrics.parent)
    output = project.vsepp("compare", OTHER, RUN, *config, status=1)
    assert f"{OTHER}: " in output and f"'only=[\"{OTHER}\"]'" in output
    shutil.rmtree(project.model())
    output = project.vsepp("verify", status=1)
    project.typed(output[output.index(f"{MODEL}: missing") :])
    assert project.weights() == weights


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
