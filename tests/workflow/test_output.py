"""What a user of the workflow sees: while it runs, at its end, and after a failure."""

import pytest
from projects import RUNS, folders_of

pytestmark = pytest.mark.workflow
VSE0, VSEPP, RC, FT = RUNS
REPORT = "reports/tiny/paper/vsepp"
LOGS = "results/tiny/logs/paper"
PRESET = "params/presets/tiny.yaml"


def test_a_new_seed_is_trained_alone_and_the_run_tells_what_it_does_and_what_came_out(project):
    before = project.manifests()
    output = project.run("reproduce_tables", only=[VSE0], seeds=[0, 1])
    for rule in ("train", "evaluate"):
        assert f"(log: {LOGS}/{rule}/{VSE0}/seed-1.log)\n" in output
    for chatter in ("Reason:", "Host:"):
        assert chatter not in output
    headline = (project.folder / REPORT / "headline.txt").read_text().strip()
    assert "reports/tiny/index.html" in headline
    assert output.count(headline) == 1
    assert headline in output[output.index("(100%)") :]
    assert project.remade(before) == {*folders_of(VSE0, seed=1), REPORT}
    assert "±" in (project.folder / REPORT / "tables/table2.html").read_text()


def test_a_job_that_fails_shows_its_log_and_what_does_not_depend_on_it_is_made(project):
    metrics = project.evaluation(VSE0) / "metrics.json"
    metrics.unlink()
    project.edit(PRESET, "\nruns:\n", f"\nruns:\n  {VSEPP}: {{learning_rate: 1.0e+38}}\n")
    output = project.refusal(*project.snakemake("reproduce_tables", only=[VSE0, VSEPP]))
    assert f"{LOGS}/train/{VSEPP}/seed-0.log" in output
    assert f"run {VSEPP}: " in output and "nan" in output
    assert metrics.is_file()
