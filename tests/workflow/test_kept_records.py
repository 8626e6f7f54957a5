"""A model whose record is kept needs neither its results nor its training."""

import html
import shutil

import pytest
from dag import RUNS

pytestmark = pytest.mark.workflow
VSE0, VSEPP, RC, FT = RUNS
PRESET = "params/presets/tiny.yaml"
REPORT = "reports/tiny/paper/vsepp"


def rows(project):
    return (project.folder / REPORT / "tables/table2.csv").read_text()


def test_a_record_stands_for_a_model_until_its_parameters_change(project):
    said = project.vsepp("record")
    assert "4 models recorded now" in said and "0 before; 0 are not finished" in said
    records = project.folder / "docs/results/tiny/records"
    for name in (f"{run}/seed-0" for run in RUNS):
        files = [path for kind in ("runs", "evaluations") for path in (records / kind / name).iterdir()]
        assert sum(path.stat().st_size for path in files) < 100_000
    assert not list(records.rglob("*.safetensors"))
    assert project.trained() == set()

    before = rows(project)
    shutil.rmtree(project.folder / "results")
    shutil.rmtree(project.folder / "reports/tiny")
    assert project.planned().keys() <= {"report", "figure_data"}
    project.run("reproduce_tables")
    assert rows(project) == before
    index = project.folder / REPORT / "index.html"
    assert "trained at" in index.read_text()
    page = html.unescape((project.folder / REPORT / f"runs/{VSE0}.html").read_text())
    assert f"rm -r docs/results/tiny/records/evaluations/{VSE0} && snakemake" in page
    assert f"""'only=["{VSE0}"]'""" in page

    assert f"a copy of {REPORT}" in project.vsepp("record", "--pages")
    site = project.folder / "docs/results/tiny/reports/vsepp"
    kept = (site / "index.html").read_bytes()
    assert kept == index.read_bytes()
    assert not list(site.rglob(".*"))
    index.write_text("another")
    assert "not kept: " in project.vsepp("record", "--pages", status=1)
    assert (site / "index.html").read_bytes() == kept
    index.write_bytes(kept)
    assert "0 models recorded now" in project.vsepp("record")
    assert "A−B" in project.vsepp("compare", VSE0, VSEPP)
    assert VSEPP in project.vsepp("models")

    # Later code does not void it, other parameters do; a fine-tuned run needs the weights that it starts from.
    project.edit("vsepp/losses/sum_of_hinges.py")
    assert project.trained() == set()
    project.edit(PRESET, "\nruns:\n", f"\nruns:\n  {VSE0}: {{loss: {{margin: 0.1}}}}\n")
    assert project.trained() == {VSE0}
    project.edit(PRESET, f"  {VSE0}:", f"  {FT}:")
    assert project.trained() == {RC, FT}
    project.edit(PRESET, f"  {FT}:", f"  {VSE0}:")

    # A record that was changed is refused.
    (records / "evaluations" / VSEPP / "seed-0/metrics.json").write_text("{}")
    assert "metrics.json" in project.refusal(*project.snakemake("reproduce_tables", only=[VSEPP]))
