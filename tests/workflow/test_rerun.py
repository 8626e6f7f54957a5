"""What reruns after a change, and what does not."""

import json
import os
import signal
from pathlib import Path

import pytest
from dag import RUNS
from processes import wait_until
from test_sets import under

from vsepp.base.manifest import MANIFEST
from vsepp.evaluation.run import mean_of_scores
from vsepp.evaluation.test_set import TestSet

pytestmark = pytest.mark.workflow
VSE0, VSEPP, RC, FT = RUNS
PRESET = "params/presets/tiny.yaml"
REPORT = "reports/tiny/paper/vsepp"
EVALUATION = f"results/tiny/paper/evaluations/{VSE0}/seed-0"
LOSS = "vsepp/losses/sum_of_hinges.py"


def test_what_changes_no_result_reruns_nothing(project):
    for module in ("losses/max_of_hinges.py", "training/loop.py", "data/store.py", "features/images.py"):
        path = project.folder / "vsepp" / module
        path.write_text("# A comment.\n" + path.read_text() + "\n# Another.\n")
    # A message of what computes nothing.
    project.edit("vsepp/base/files.py", "give another folder", "give a folder of your own")
    assert project.planned(resources={"data_on": "mapped", "checkpoint_seconds": 1}) == {}


def test_a_change_of_one_run_reruns_it_and_what_depends_on_it(project):
    project.edit(PRESET, "\nruns:\n", f"\nruns:\n  {RC}: {{loss: {{margin: 0.1}}}}\n")
    # The fine-tuned run inherits from the frozen one and starts from its snapshot.
    assert project.trained() == {RC, FT}
    project.edit(PRESET, f"  {RC}:", f"  {FT}:")
    assert project.planned() == {"train": 1, "evaluate": 1, "report": 1}
    project.edit(PRESET, "fold_size: 10", "fold_size: 5")
    assert project.planned() == {"train": 1, "evaluate": 4, "report": 1}


def test_deleted_tables_and_figures_and_what_they_show_are_made_again(project):
    report = project.folder / REPORT
    html, gaps = report / "tables/table2.html", report / "figures/gaps.svg"
    deleted = [report / "tables/table2.csv", report / "figures/figure1.svg", gaps, html]
    metrics = project.folder / EVALUATION / "metrics.json"
    before = {file: file.read_bytes() for file in (*deleted[:3], metrics)}
    html.unlink()
    assert project.planned("reproduce_tables") == {"report": 1}
    assert (report / MANIFEST).is_file()  # a dry run removes nothing
    for file in (*deleted, metrics):
        file.unlink(missing_ok=True)
    assert project.planned("reproduce_tables") == {"evaluate": 1, "report": 1}
    project.run("reproduce_tables")
    assert {file: file.read_bytes() for file in before} == before
    assert html.is_file()
    assert project.planned("reproduce_tables") == {}


def test_a_report_whose_manifest_is_cut_or_gone_is_made_again_alone(project):
    manifest = project.folder / REPORT / MANIFEST
    before = project.manifests()
    for cut in (True, False):
        manifest.write_bytes(manifest.read_bytes()[:14]) if cut else manifest.unlink()
        project.run("reproduce_tables")
        assert project.remade(before) == {REPORT}
    assert project.planned("reproduce_tables") == {}
    assert "verified" in project.vsepp("verify")


def test_an_edited_file_of_a_report_is_named_by_verify(project):
    with (project.folder / REPORT / "claims.csv").open("a") as file:
        file.write("mine\n")
    assert "claims.csv is not what its step wrote" in project.vsepp("verify", status=1)


def test_a_report_that_is_refused_leaves_the_last_one_and_is_made_once_it_can_be(project):
    report = project.folder / REPORT
    before = {path: path.read_bytes() for path in report.rglob("*.*") if path.name != MANIFEST}
    template = project.folder / "reports/templates/table.html.j2"
    good = template.read_text()
    template.write_text(good + "{{ nothing }}")
    said = project.refusal(*project.snakemake("reproduce_tables"))
    assert "'nothing' is undefined" in said
    assert len(said) < 20_000, "what a report holds is not printed"
    assert before and {path: path.read_bytes() for path in before} == before
    template.write_text(good + "<!-- mine -->")
    project.run("reproduce_tables")
    assert "<!-- mine -->" in (project.folder / REPORT / "index.html").read_text()


def test_an_ensemble_is_one_entry_and_one_more_evaluation(project):
    entry = f"{{base: {VSEPP}, system: VSE0 and VSE++, ensemble: [{VSE0}, {VSEPP}], protocols: [1K]}}"
    project.edit("params/papers/vsepp/runs.yaml", new=f"\nboth: {entry}\n")
    project.edit("params/config.yaml", "only: [", 'only: ["both", ')
    assert project.planned("reproduce_tables") == {"evaluate": 1, "report": 1}
    project.run("reproduce_tables")
    metrics = json.loads((project.evaluation("both") / "metrics.json").read_text())["1K"]
    members = [TestSet.read(project.model(run) / "embeddings.npz") for run in (VSE0, VSEPP)]
    ranks = under(mean_of_scores(*members), "1K", metrics["fold_size"])
    assert metrics["rsum"] == ranks.metrics.rsum
    assert f"{metrics['rsum']:.1f}" in (project.folder / REPORT / "runs/both.html").read_text()
    project.vsepp("verify")
    # What changes a member changes the ensemble.
    project.edit(LOSS)
    assert project.planned() == {"train": 1, "evaluate": 2, "figure_data": 1, "report": 1}


@pytest.mark.resume
@pytest.mark.whole
def test_a_killed_training_goes_on_and_ends_with_the_same_weights(project):
    """Ctrl-C, then the trainer is killed, then Snakemake and all below it; Snakemake knows of none what the trainer had done."""
    config = {
        "only": [VSE0],
        "runs": {"default": {"epochs": 8}},
        "resources": {"checkpoint_seconds": 0},
    }
    project.run("all_models", label="whole", **config)
    broken = project.snakemake("all_models", "--cores", "1", label="broken", **config)
    log = project.folder / f"results/tiny/logs/broken/train/{VSE0}/seed-0.log"
    for stop, epoch in ((_interrupt, 1), (_kill_trainer, 3), (_kill_all, 5)):
        said = _run_and_stop(project, broken, log, epoch, stop)
        assert "Traceback" not in said + log.read_text()
        assert stop is not _interrupt or "vsepp: error: stopped; what is finished is kept" in log.read_text()
        kept = list((project.folder / "results/tiny/broken").rglob(".state/*/*"))
        assert kept, "nothing was kept for a resume"
    project.call("snakemake", "--unlock")
    project.call(*broken)
    assert "resuming after epoch" in log.read_text()
    assert project.weights(VSE0, "broken") == project.weights(VSE0, "whole")


def _run_and_stop(project, command, log, epoch, stop):
    """Start Snakemake, wait for an epoch, and stop what is at work; what Snakemake has said."""
    log.unlink(missing_ok=True)
    # A process that was started in the background may ignore interrupts, and so would what it starts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    snakemake = project.start(*command)
    signal.signal(signal.SIGINT, before)
    wait_until(lambda: log.is_file() and f"epoch {epoch}/" in log.read_text(), snakemake, seconds=300)
    stop(project, snakemake)
    return snakemake.communicate()[0]


def _interrupt(project, snakemake):
    os.killpg(snakemake.pid, signal.SIGINT)


def _kill_trainer(project, snakemake):
    assert _kill(project.folder, f"{VSE0}/seed-0"), "it was over before it could be killed"


def _kill_all(project, snakemake):
    snakemake.kill()
    _kill_trainer(project, snakemake)


def _kill(project, name):
    """SIGKILL every `vsepp make run NAME` of a project; whether there was one."""
    killed = False
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes().decode().split("\0")
            works_in = (entry.parent / "cwd").readlink()
        except OSError:
            continue
        if works_in == project.resolve() and "make" in command and name in command:
            os.kill(int(entry.parent.name), signal.SIGKILL)
            killed = True
    return killed
