"""What reruns after a change, and what does not."""

import json

import pytest
from embedded_sets import under
from projects import RUNS

from vsepp.base.manifest import MANIFEST
from vsepp.evaluation.evaluate_run import mean_of_scores
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
    project.edit(PRESET, "fold_size: 10", "fold_size: 5")
    assert project.planned() == {"train": 1, "evaluate": 4, "report": 1}


def test_a_report_that_is_refused_leaves_the_last_one(project):
    report = project.folder / REPORT
    before = {path: path.read_bytes() for path in report.rglob("*.*") if path.name != MANIFEST}
    project.edit("reports/templates/table.html.j2", new="{{ nothing }}")
    output = project.refusal(*project.snakemake("reproduce_tables"))
    assert "'nothing' is undefined" in output
    assert len(output) < 20_000, "what a report holds is not printed"
    assert before and {path: path.read_bytes() for path in before} == before


def test_deleted_tables_figures_and_manifests_and_what_they_show_are_made_again_and_nothing_else(project):
    report = project.folder / REPORT
    manifest, html = report / MANIFEST, report / "tables/table2.html"
    kept = manifest.rename(project.folder / "kept.json")
    assert project.planned("reproduce_tables") == {"report": 1}
    manifest.write_bytes(b'{"step": "repo')
    assert project.planned("reproduce_tables") == {"report": 1}
    kept.rename(manifest)
    html.unlink()
    assert project.planned("reproduce_tables") == {"report": 1}
    assert manifest.is_file(), "a dry run removes nothing"

    metrics = project.folder / EVALUATION / "metrics.json"
    files = [
        report / "tables/table2.csv",
        report / "figures/figure1.svg",
        report / "figures/gaps.svg",
        metrics,
    ]
    before, manifests = {file: file.read_bytes() for file in files}, project.manifests()
    for file in files:
        file.unlink()
    project.run("reproduce_tables")
    assert {file: file.read_bytes() for file in files} == before
    assert html.is_file()
    assert project.remade(manifests) == {EVALUATION, REPORT}
    assert project.planned("reproduce_tables") == {}
    assert "verified" in project.vsepp("verify")
    with (report / "claims.csv").open("a") as file:
        file.write("mine\n")
    assert f"{REPORT}: claims.csv" in project.vsepp("verify", status=1)


def test_an_ensemble_is_one_entry_and_one_more_evaluation(project):
    entry = f"{{base: {VSEPP}, system: VSE0 and VSE++, ensemble: [{VSE0}, {VSEPP}], protocols: [1K]}}"
    project.edit("params/papers/vsepp/runs.yaml", new=f"\nboth: {entry}\n")
    project.edit("params/config.yaml", "only: [", 'only: ["both", ')
    before = project.manifests()
    project.run("reproduce_tables")
    assert project.remade(before) == {"results/tiny/paper/evaluations/both/seed-0", REPORT}
    metrics = json.loads((project.evaluation("both") / "metrics.json").read_text())["1K"]
    members = [TestSet.read(project.model(run) / "embeddings.npz") for run in (VSE0, VSEPP)]
    ranks = under(mean_of_scores(*members), "1K", metrics["fold_size"])
    assert metrics["rsum"] == ranks.metrics.rsum
    assert f"{metrics['rsum']:.1f}" in (project.folder / REPORT / "runs/both.html").read_text()
    project.vsepp("verify")
    # What changes a member changes the ensemble.
    project.edit(LOSS)
    assert project.planned() == {"train": 1, "evaluate": 2, "figure_data": 1, "report": 1}
