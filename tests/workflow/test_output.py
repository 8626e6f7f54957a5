"""What a user of the workflow sees: while it runs, at its end, after a failure, and in Snakemake's own report."""

import os
import pty
import re
from contextlib import suppress

import pytest
from dag import RUNS, of

from vsepp.reporting.typeset import TEX_WANTED, has_tex

pytestmark = pytest.mark.workflow
VSE0, VSEPP, RC, FT = RUNS
REPORT = "reports/tiny/paper/vsepp"
LOGS = "results/tiny/logs/paper"


@pytest.fixture
def again(project):
    """A project that is to train a run for a second seed."""
    return project, {"only": [VSE0], "seeds": [0, 1]}


def test_a_new_seed_is_trained_alone_and_the_run_tells_what_it_does_and_what_came_out(again):
    project, config = again
    before = project.manifests()
    said = project.run("reproduce_tables", **config)
    assert f": Train {VSE0}/seed-1 (log: {LOGS}/train/{VSE0}/seed-1.log)\n" in said
    assert (
        f": Evaluate {VSE0}/seed-1: embed and rank the test images and captions (log: {LOGS}/evaluate/{VSE0}/seed-1.log)\n"
        in said
    )
    (line,) = re.findall(rf"^Train {VSE0}/seed-1: epoch 2/2  .*$", said, re.MULTILINE)
    assert re.search(r"validation: caption R@1 \d+\.\d  image R@1 \d+\.\d", line)
    assert "left" not in line
    for chatter in ("Reason:", "Host:"):
        assert chatter not in said
    headline = (project.folder / REPORT / "headline.txt").read_text().strip()
    last = headline if has_tex() else f"{TEX_WANTED}\n\n{headline}"
    assert said.endswith(f"\n\n{last}\n")
    assert "\nopen    reports/tiny/index.html" in headline
    assert said.count(headline) == 1
    assert project.remade(before) == {*of(VSE0, seed=1), REPORT}
    assert "±" in (project.folder / REPORT / "tables/table2.html").read_text()


def test_a_failure_ends_with_the_jobs_their_last_words_and_how_to_go_on(project):
    runs = {VSEPP: {"learning_rate": 1e38}}
    said = project.refusal(
        *project.snakemake("reproduce_tables", only=[VSE0, VSEPP], label="broken", runs=runs)
    )
    log = f"results/tiny/logs/broken/train/{VSEPP}/seed-0.log"
    last = said[said.rindex("1 job failed") :].splitlines()
    assert last[:2] == ["1 job failed; what does not depend on it was done:", f"  Train {VSEPP}/seed-0"]
    assert last[2].startswith(f"    vsepp: error: run {VSEPP}: the loss is nan")
    assert last[3] == f"    log: {log}"
    assert last[-1].startswith("Mend the cause and give the same command again; what is finished is kept")
    assert (project.folder / f"results/tiny/broken/runs/{VSE0}/seed-0/model.safetensors").is_file()
    # It goes on with what is left.
    assert project.planned(only=[VSE0], label="broken", runs=runs) == {"report": 1}


def test_a_terminal_shows_bars_and_how_far_jobs_are(again):
    project, config = again
    here, terminal = pty.openpty()
    snakemake = project.start(*project.snakemake("reproduce_tables", **config), output=terminal, TERM="xterm")
    os.close(terminal)
    said = b""
    with suppress(OSError):  # the other end is closed
        while some := os.read(here, 1 << 16):
            said += some
    assert snakemake.wait() == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said.decode())
    assert re.search(r"│ \S+ \S+ Total Progress +━+ +\d+%", text)
    assert text.count(f"Train {VSE0}/seed-1: epoch 2/2") == 1
    assert "Finished jobid" not in text
    headline = (project.folder / REPORT / "headline.txt").read_text().splitlines()[0]
    assert headline in text[text.index("Workflow Finished") :]


def test_snakemakes_report_has_each_page_with_its_headline(project):
    project.run("reproduce_tables", "--report", "report.html")
    page = (project.folder / "report.html").read_text()
    for name in ("tables and figures", "headline"):
        assert f'"what": "{name}"' in page
    for said in ("The page of", "from raw files to tables"):
        assert said in page
