"""A model whose record is kept needs neither its results nor its training."""

import html
import re
import shlex
import shutil

import pytest
from projects import RUNS

from vsepp.report.entries import STUDY_FILES

pytestmark = pytest.mark.workflow
VSE0, VSEPP, RC, FT = RUNS
PRESET = "params/presets/tiny.yaml"
REPORT = "reports/tiny/paper/vsepp"


def rows(project):
    return (project.folder / REPORT / "tables/table2.csv").read_text()


@pytest.mark.whole
def test_a_record_stands_for_a_model_until_its_parameters_change(project):
    output = project.vsepp("record")
    assert "4 models" in output and re.findall(r"\b0\b", output) == ["0"] * 3
    study = project.folder / "docs/results/tiny"
    assert {path.name for path in study.iterdir()} == set(STUDY_FILES)
    assert sum(path.stat().st_size for path in study.iterdir()) < 100_000
    before = rows(project)
    for folder in ("results/tiny/paper", "reports/tiny"):
        shutil.rmtree(project.folder / folder)
    project.make()
    assert rows(project) == before
    index = project.folder / REPORT / "index.html"
    assert "<dd>4 models at" in index.read_text()
    page = html.unescape((project.folder / REPORT / f"runs/{VSE0}.html").read_text())
    program, *arguments = shlex.split(re.search(r"<pre[^>]*>(snakemake .*)</pre>", page)[1])
    jobs = project.output(program, "--dry-run", *arguments)
    assert f"results/tiny/logs/again/train/{VSE0}/seed-0.log" in jobs, "the run is made beside its record"
    assert set(re.findall(r"^train +(\d+)$", jobs, re.MULTILINE)) == {"1"}

    assert "0 models" in project.vsepp("record")
    assert "A−B" in project.vsepp("compare", VSE0, VSEPP)
    assert [line.split()[0] for line in project.vsepp("runs").splitlines() if "  0  " in line] == RUNS

    # Later code does not void it, other parameters do; a fine-tuned run needs the weights that it starts from.
    project.edit("vsepp/losses/max_of_hinges.py")
    project.edit(PRESET, "\nruns:\n", f"\nruns:\n  {FT}: {{loss: {{margin: 0.1}}}}\n")
    assert project.trained() == {RC, FT}

    # A record that was changed is refused; without it the run is trained again.
    runs = study / "runs.jsonl"
    lines = runs.read_text().splitlines(keepends=True)
    runs.write_text(
        "".join(line.replace('"rsum":', '"rsum": 1') if f'"{VSEPP}"' in line else line for line in lines)
    )
    output = project.refusal(*project.snakemake("reproduce_tables", only=[VSEPP]))
    assert "runs.jsonl" in output and f"vsepp record --drop {VSEPP}" in output
    assert "1 dropped" in project.vsepp("record", "--drop", VSEPP)
    assert project.trained() == {VSEPP, RC, FT}  # parameters of the last one changed above
    assert "no record of nothing" in project.vsepp("record", "--drop", "nothing", status=1)
