"""docs/versions.md, executed: its commands in their order, as one user types them, with a tiny preset."""

import json
import os
import re
import signal
import time
from dataclasses import dataclass, field

import pytest
from dag import ROOT
from repository import RUNS, Repository

pytestmark = pytest.mark.dvc
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

    repository: Repository
    before: dict = field(default_factory=dict)
    """Manifest → when it was written, before the present scenario."""
    said: list = field(default_factory=list)
    """Output of each block of the present scenario."""
    failed: str = ""

    def follow(self, heading):
        """Do what the page says below a heading."""
        self.before, self.said = self.repository.manifests(), []
        for block in SCENARIOS[heading]:
            self.said.append(self.call("bash", "-euo", "pipefail", "-c", block))

    def call(self, *command):
        """Output of a command in this user's environment: the package is that of the folder they are in."""
        folder = self.repository.folder
        store = str(folder.parent / "store")
        variables = {"PROJECT": str(folder), "STORE": store, "PRESET": "tiny", "PYTHONPATH": "."}
        return self.repository.call(*command, **variables).stdout

    def remade(self):
        """Artefacts that the scenario made or made again: parts of their paths that name them."""
        after = self.repository.manifests()
        return {
            path.removeprefix("results/tiny/").removesuffix("/manifest.json")
            for path in after
            if after[path] != self.before.get(path)
        }

    def models(self):
        """What `vsepp models` lists."""
        return json.loads(self.call("vsepp", "models", "--json"))

    def is_settled(self):
        """Whether nothing is left to do for git and DVC."""
        return self.call("git", "status", "--porcelain") == "" and "up to date" in self.call("dvc", "status")


@pytest.fixture(scope="module")
def user(tiny_repository, tmp_path_factory):
    """A project whose results `dvc repro` has made and no commit holds."""
    repository = tiny_repository.copy(tmp_path_factory.mktemp("user") / "vsepp")
    repository.call("git", "reset", "--quiet", "HEAD~1")
    return User(repository)


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


def test_a_scenario_is_found_by_its_mark():
    text = "# T\n\n## A\n\n```sh run\none\n```\n\n```sh\nnot\n```\n\n## B\n\ntext\n\n## C\n```sh run\ntwo\nthree\n```\n"
    assert scenarios(text) == {"A": ["one\n"], "C": ["two\nthree\n"]}


def of(run, seed=0, variant="paper"):
    """The three artefacts of a run."""
    return {f"{variant}/{kind}/{run}/seed-{seed}" for kind in ("runs", "embeddings", "metrics")}


PAGE = "reports/tiny/paper"


def versioned(user):
    assert not user.remade()
    assert (user.repository.folder.parent / "store").is_dir()
    assert "everything is up to date" in user.call("dvc", "push").lower()
    assert user.is_settled()


def one_run_changed(user):
    assert re.search(r"^train +1$", user.said[0], re.MULTILINE), user.said[0]
    assert user.remade() == {*of("coco-vse0-1c"), PAGE}
    assert not any(model["commit"].endswith("+") for model in user.models())  # made by committed code
    assert user.is_settled()


def compared(user):
    shown, differing = user.said[0].split("Change", 1)
    for run in RUNS:
        assert f"metrics/{run}.json" in shown
        assert (f"metrics/{run}.json" in differing) == (run == "coco-vse0-1c")
    assert (user.repository.folder / "dvc_plots/index.html").is_file()
    assert user.call("git", "status", "--porcelain") == ""


def fetched(user):
    clone = Repository(user.repository.folder.parent / "clone")
    assert "coco-vsepp-1c" in user.said[0]
    assert clone.is_done()
    clone.edit(
        "params/runs.yaml", "coco-vsepp-1c: {base: vsepp,", "coco-vsepp-1c: {base: vsepp, margin: 0.3,"
    )
    assert clone.dry_run().count("Train ") == 1
    for name in ("model.safetensors", "manifest.json"):
        theirs, ours = (
            repository.run_folder("coco-vsepp-1c") / name for repository in (clone, user.repository)
        )
        alone = user.repository.folder.parent / "vsepp-1c" / name
        assert theirs.read_bytes() == ours.read_bytes() == alone.read_bytes()
    parts = {"model.safetensors", "config.json", "vocabulary.json", "history.csv", "manifest.json"}
    assert {path.name for path in alone.parent.iterdir()} >= parts


def check_out_alone(user):
    """What the page says of a checkout before results follow."""
    user.call("git", "checkout", "--quiet", "first")
    refused = user.repository.call("vsepp", "verify", check=False)
    assert refused.returncode and "coco-vse0-1c/seed-0: " in refused.stdout
    assert "modified" in user.call("dvc", "status")
    assert user.repository.dry_run().count("Train ") == 1


def went_back_and_forward(user):
    # That `first` had verified here means that its results were here.
    assert "artefacts verified" in user.said[0]
    assert '"margin":0.05' in (user.repository.run_folder() / "config.json").read_text().replace(" ", "")
    assert user.is_settled() and user.repository.is_done()


def switched(user):
    assert of("coco-vse0-1c", variant="code") <= user.remade()
    assert not [path for path in user.remade() if path.startswith("paper/")]
    assert user.is_settled()


def tried(user):
    assert "rsum" in user.said[0]
    assert "uncommitted changes" in user.said[0].splitlines()[-1]  # the mark of what no commit has
    assert {(model["run"], model["seed"]) for model in user.models()} == {(run, 0) for run in RUNS}
    assert "second-seed" in user.call("git", "branch")
    assert "other-seed" not in user.call("dvc", "exp", "list")
    assert user.is_settled()


def change_a_run_and_open_a_queue(user):
    """Slurm's place is taken by a script that notes what a job asks for and runs it."""
    repository = user.repository
    queue = repository.folder.parent / "queue"
    queue.write_text(f'#!/bin/sh\nsed -n "s/^# properties = //p" "$1" >> {queue}.log\nexec "$1"\n')
    queue.chmod(0o755)
    executor = f"executor: cluster-sync\ncluster-sync-submit-cmd: {queue}\n"
    repository.edit("profiles/slurm/config.yaml", "executor: slurm\n", executor)
    repository.edit(
        "params/runs.yaml", "coco-vse0-1c: {base: vse0, margin: 0.05", "coco-vse0-1c: {base: vse0"
    )
    repository.commit("Another queue, and the margin as it was")


def queued(user):
    jobs = [
        json.loads(line) for line in (user.repository.folder.parent / "queue.log").read_text().splitlines()
    ]
    assert [job["rule"] for job in jobs] == ["train", "encode", "evaluate", "report"]
    assert [job["resources"]["gpu"] for job in jobs] == [1, 1, 0, 0]
    assert user.remade() == {*of("coco-vse0-1c"), PAGE}
    assert "Nothing to be done" in user.said[1]
    user.call("git", "commit", "--quiet", "--message", "Results", "dvc.lock")
    assert user.is_settled()


def kill_a_report(user):
    """Kill Snakemake, with all that it started, while it writes the report."""
    repository = user.repository
    process = repository.start(
        "snakemake", "--cores", "1", "--forcerun", "report", "--", f"{PAGE}/index.html"
    )
    index = repository.folder / PAGE / "index.html"
    while (
        index.is_file() and process.poll() is None
    ):  # Snakemake deletes what a job will write before it starts
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    refused = repository.call("dvc", "repro", check=False)
    assert refused.returncode and "unlock" in refused.stdout


def went_on(user):
    assert user.remade() == {PAGE}
    user.call("git", "commit", "--quiet", "--message", "Results", "dvc.lock")
    assert user.is_settled()


def freed(user):
    folder = user.repository.folder
    assert "Removed" in user.said[0]
    assert not user.remade()
    assert (folder / "results/tiny/stores").is_dir() and not (folder / "results/tiny/tapes").exists()
    assert user.is_settled() and user.repository.is_done()
    for branch, seed in {"second-seed": 1, "released-code": 0}.items():
        user.call("git", "checkout", "--quiet", branch)
        user.call("vsepp", "sync")
        assert {(model["run"], model["seed"]) for model in user.models()} == {("coco-vse0-1c", seed)}
        assert user.is_settled()


CHECKS = {
    "Reproduce and version": versioned,
    "Change one run": one_run_changed,
    "Compare two versions": compared,
    "Get a colleague's models": fetched,
    "Back to an old version and forward again": went_back_and_forward,
    "Another preset or fidelity": switched,
    "Try a value": tried,
    "On a cluster": queued,
    "After a kill": went_on,
    "Free space": freed,
}
BEFORE = {
    "Back to an old version and forward again": check_out_alone,
    "On a cluster": change_a_run_and_open_a_queue,
    "After a kill": kill_a_report,
}
