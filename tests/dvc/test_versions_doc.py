"""docs/versions.md, executed: its commands in their order, as one user types them, with a tiny preset."""

import json
import os
import re
import shutil
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from dag import ROOT, RUNS, Project, of
from processes import wait_until

from vsepp.base.manifest import read_manifest, uncommitted_steps

pytestmark = [pytest.mark.dvc, pytest.mark.whole]
DOCUMENT = ROOT / "docs" / "versions.md"


def scenarios(text):
    """Heading → its blocks that are marked for execution by `sh run`."""
    sections = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)[1:]
    found = {
        heading: re.findall(r"^```sh run\n(.*?)^```$", body, re.MULTILINE | re.DOTALL)
        for heading, body in zip(sections[::2], sections[1::2], strict=True)
    }
    return {heading: blocks for heading, blocks in found.items() if blocks}


SCENARIOS = scenarios(DOCUMENT.read_text(encoding="utf-8"))


@dataclass
class User:
    """Somebody who follows the page in a project of their own."""

    project: Project
    before: dict = field(default_factory=dict)
    """Manifest → when it was written, before the present scenario."""
    said: list = field(default_factory=list)
    """Output of each block of the present scenario."""
    failed: str = ""

    def follow(self, heading):
        """Do what the page says below a heading."""
        self.before, self.said = self.project.manifests(), []
        for block in SCENARIOS[heading]:
            self.said.append(self.call("bash", "-euo", "pipefail", "-c", block))

    def call(self, *command):
        """Output of a command in this user's environment: the package comes from the folder that the user is in."""
        folder = self.project.folder
        store = str(folder.parent / "store")
        variables = {"PROJECT": str(folder), "STORE": store, "PRESET": "tiny", "PYTHONPATH": "."}
        return self.project.said(*command, **variables)

    def remade(self):
        """Folders of what the scenario made or made again."""
        return self.project.remade(self.before)

    def trained(self):
        """Run → its trained seeds, as `vsepp runs` lists them."""
        return trained_seeds(self.call("vsepp", "runs"))

    def get(self):
        """Pull, verify and touch, as the page says it."""
        blocks = SCENARIOS["Back to an old version and forward again"]
        self.call("bash", "-euo", "pipefail", "-c", blocks[0].partition("git checkout main\n")[2])

    def is_settled(self):
        """Whether nothing is left to do for git and DVC."""
        return self.call("git", "status", "--porcelain") == "" and self.project.is_versioned()

    def commit_results(self):
        """What the page does elsewhere with a new version, in one line."""
        self.call("git", "commit", "--quiet", "--message", "Results", "dvc.lock")


def trained_seeds(listed):
    """Run → its trained seeds, in what `vsepp runs` says."""
    head, *lines = listed.splitlines()
    column = head.index("trained seeds")
    rows = {line.split()[0]: line[column:].split("  ")[0] for line in lines[: lines.index("")]}
    return {run: seeds for run, seeds in rows.items() if seeds != "–"}


@pytest.fixture(scope="module")
def user(reproduced, tmp_path_factory):
    """A project whose results Snakemake has made, and DVC knows nothing of."""
    project = reproduced.copy(tmp_path_factory.mktemp("user") / "vsepp")
    project.call("git", "reset", "--quiet", "HEAD~1")
    (project.folder / "dvc.lock").unlink()
    for name in ("cache", "tmp"):
        shutil.rmtree(project.folder / ".dvc" / name)
    return User(project)


@pytest.mark.parametrize("heading", SCENARIOS)
def test_the_page_does_what_it_says(user, heading):
    if user.failed:
        pytest.skip(f"{user.failed!r} failed, on which this builds")
    user.failed = heading
    if heading in BEFORE:
        BEFORE[heading](user)
    user.follow(heading)
    CHECKS[heading](user)
    user.failed = ""


def test_every_block_is_run_and_every_scenario_checked():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert set(CHECKS) == set(SCENARIOS) and set(BEFORE) <= set(SCENARIOS)
    assert len(re.findall(r"^```", text, re.MULTILINE)) == 2 * sum(map(len, SCENARIOS.values()))


VSE0, VSEPP, RC, _ = RUNS
PAGE = "reports/tiny/paper/vsepp"
ENTRIES = "params/papers/vsepp/runs.yaml"
MH = "vsepp/losses/max_of_hinges.py"


def versioned(user):
    assert not user.remade(), "what Snakemake made is not made again"
    assert (user.project.folder.parent / "store").is_dir()
    assert "everything is up to date" in user.call("dvc", "push").lower()
    assert user.is_settled()


def one_run_changed(user):
    assert re.search(r"^train +1$", user.said[0], re.MULTILINE), user.said[0]
    assert user.remade() == {*of(VSE0), PAGE}
    assert not uncommitted_steps(read_manifest(user.project.model()))
    assert user.is_settled()
    assert user.project.planned() == {}, "what DVC made is done for Snakemake"


def edit_a_loss(user):
    user.project.edit(MH)
    user.project.commit("Another name")
    assert user.project.trained() >= {VSEPP}


def kept(user):
    assert f"{VSEPP}/seed-0: made by other code, commit " in user.said[0]
    assert user.remade() == {PAGE}
    pages = {run: (user.project.folder / PAGE / f"runs/{run}.html").read_text() for run in (VSE0, VSEPP)}
    marked = [run for run, text in pages.items() if "made by other code, commit " in text]
    assert (
        marked == [VSEPP] and "Made by other code" in (user.project.folder / PAGE / "index.html").read_text()
    )
    assert user.is_settled() and user.project.planned() == {}


def compared(user):
    assert f"{VSE0}.loss.margin" in user.said[0]
    shown, differing = user.said[0].split("Change", 1)
    for run in RUNS:
        assert f"{run}." in shown
        assert (f"{run}." in differing) == (run == VSE0)
    assert (user.project.folder / "dvc_plots/index.html").is_file()
    assert user.call("git", "status", "--porcelain") == ""


def fetched(user):
    clone = Project(user.project.folder.parent / "clone")
    assert trained_seeds(user.said[0][user.said[0].index("run  ") :]) == dict.fromkeys(RUNS, "0")
    assert clone.planned() == {}
    clone.edit(ENTRIES, f"{VSEPP}: {{base: vsepp,", f"{VSEPP}: {{base: vsepp, loss: {{margin: 0.3}},")
    assert clone.trained() == {VSEPP}
    clone.edit(ENTRIES, f"{RC}: {{base: vsepp,", f"{RC}: {{base: vsepp, loss: {{margin: 0.3}},")
    # The store is there. The fine-tuned run inherits from the frozen one and starts from it; nobody pushed the tape.
    assert clone.planned() == {"tape": 1, "train": 3, "evaluate": 3, "report": 1}
    alone = user.project.folder.parent / "vsepp-1c"
    for name in ("model.safetensors", "manifest.json"):
        theirs, ours = (project.model(VSEPP) / name for project in (clone, user.project))
        assert theirs.read_bytes() == ours.read_bytes() == (alone / name).read_bytes()
    parts = {"model.safetensors", "config.json", "vocabulary.json", "history.csv", "manifest.json"}
    assert {path.name for path in alone.iterdir()} >= parts


def check_out_alone(user):
    """What the page says of a checkout before results follow."""
    user.call("git", "checkout", "--quiet", "first")
    assert f"{VSE0}/seed-0: " in user.project.refusal("vsepp", "verify")
    assert "modified" in user.call("dvc", "status")
    assert VSE0 in user.project.trained()


def went_back_and_forward(user):
    # `first` was verified here, so its results were here.
    assert "artefacts verified" in user.said[0]
    assert json.loads((user.project.model() / "config.json").read_text())["loss"]["margin"] == 0.05
    assert user.is_settled() and user.project.planned() == {}


def switched(user):
    remade = user.remade()
    assert of(VSE0, variant="code") <= remade
    assert not [path for path in remade if path.startswith("results/tiny/paper/")]
    assert user.is_settled()


def tried(user):
    assert "rsum" in user.said[0]
    assert trained_seeds(user.said[0][user.said[0].index("run  ") :]) == {VSE0: "1"}
    assert user.trained() == dict.fromkeys(RUNS, "0")
    assert "second-seed" in user.call("git", "branch")
    assert "other-seed" not in user.call("dvc", "exp", "list")
    assert user.is_settled()


def change_a_run_and_open_a_queue(user):
    """Slurm's place is taken by a script that notes what a job asks for and runs it."""
    project = user.project
    queue = project.folder.parent / "queue"
    queue.write_text(f'#!/bin/sh\nsed -n "s/^# properties = //p" "$1" >> {queue}.log\nexec "$1"\n')
    queue.chmod(0o755)
    executor = f"executor: cluster-sync\ncluster-sync-submit-cmd: {queue}\n"
    project.edit("profiles/slurm/config.yaml", "executor: slurm\n", executor)
    project.edit("profiles/slurm/config.yaml", "slurm-status-command: squeue\n", "")
    project.edit(ENTRIES, f"{VSE0}: {{base: vse0, loss: {{margin: 0.05}}", f"{VSE0}: {{base: vse0")
    project.commit("Another queue, and the margin as it was")


def queued(user):
    log = user.project.folder.parent / "queue.log"
    jobs = [json.loads(line) for line in log.read_text().splitlines()]
    assert [job["rule"] for job in jobs] == ["train", "evaluate", "report"]
    assert [job["resources"]["gpu"] for job in jobs] == [1, 0, 0]
    assert user.remade() == {*of(VSE0), PAGE}
    assert "Nothing to be done" in user.said[1]
    user.commit_results()
    assert user.is_settled()


def kill_everything(user):
    """SIGKILL of `dvc repro` and all below it, while it trains."""
    project = user.project
    project.edit(ENTRIES, f"{VSE0}: {{base: vse0", f"{VSE0}: {{base: vse0, loss: {{margin: 0.15}}")
    project.commit("Another margin")
    log = project.folder / f"results/tiny/logs/paper/train/{VSE0}/seed-0.log"
    log.unlink()
    process = project.start("dvc", "repro", output=subprocess.DEVNULL)
    wait_until(log.is_file, process)
    _kill_session(process)
    assert any((project.folder / ".snakemake/locks").iterdir())
    assert "the --unlock argument" in project.refusal("dvc", "repro")


def _kill_session(process):
    """SIGKILL every process of a session, until none is left: Snakemake's jobs have process groups of their own."""
    command = ["ps", "-o", "pid=,stat=", "-s", str(process.pid)]
    while True:
        listed = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
        alive = [int(pid) for pid, state in map(str.split, listed) if not state.startswith("Z")]
        if not alive:
            break
        for pid in alive:
            with suppress(ProcessLookupError):  # it ended by itself
                os.kill(pid, signal.SIGKILL)
    process.wait()


def went_on(user):
    assert user.remade() == {*of(VSE0), PAGE}
    user.call("vsepp", "verify", "--full")
    user.commit_results()
    assert user.is_settled()


def freed(user):
    folder = user.project.folder
    assert "Removed" in user.said[0]
    assert not user.remade()
    assert not (folder / "results/tiny/stores").exists() and not (folder / "results/tiny/tapes").exists()
    assert user.is_settled() and user.project.planned() == {}
    for branch, seed in {"second-seed": 1, "released-code": 0}.items():
        user.call("git", "checkout", "--quiet", branch)
        user.get()
        assert user.trained() == {VSE0: str(seed)}
        assert user.is_settled()


CHECKS = {
    "Reproduce and version": versioned,
    "Change one run": one_run_changed,
    "After an edit that changes no number": kept,
    "Compare two versions": compared,
    "Get a colleague's results": fetched,
    "Back to an old version and forward again": went_back_and_forward,
    "Another preset or fidelity": switched,
    "Try a value": tried,
    "On a cluster": queued,
    "After a kill": went_on,
    "Free space": freed,
}
BEFORE = {
    "After an edit that changes no number": edit_a_loss,
    "Back to an old version and forward again": check_out_alone,
    "On a cluster": change_a_run_and_open_a_queue,
    "After a kill": kill_everything,
}
