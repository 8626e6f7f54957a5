"""docs/versions.md, executed: its commands in their order, as one user types them, with a tiny preset.

What it says of other code is held by test_other_code.py, of kills by test_kills.py; no test has a cluster.
"""

import json
import re
import shutil
from dataclasses import dataclass, field

import pytest
from projects import ROOT, RUNS, Project, folders_of

from vsepp.base.errors import pull
from vsepp.base.manifest import read_manifest, uncommitted_steps
from vsepp.pipeline.table import PLANS

pytestmark = [pytest.mark.dvc, pytest.mark.whole]
VSE0, VSEPP, RC, _ = RUNS
PAGE = "reports/tiny/paper/vsepp"
ENTRIES = "params/papers/vsepp/runs.yaml"


def scenarios(text):
    """Heading → its blocks that are marked for execution by `sh run`."""
    sections = re.findall(r"^## (.+)\n((?:(?!## ).*\n)*)", text, re.MULTILINE)
    return {
        heading: re.findall(r"^```sh run\n(.*?)^```$", body, re.MULTILINE | re.DOTALL)
        for heading, body in sections
    }


SCENARIOS = scenarios((ROOT / "docs/versions.md").read_text(encoding="utf-8"))


@dataclass
class User:
    """Somebody who follows the page in a project of their own."""

    project: Project
    before: dict = field(default_factory=dict)
    """Manifest → when it was written, before the present scenario."""
    outputs: list = field(default_factory=list)
    """Of each block of the present scenario."""

    def follow(self, heading):
        """Do what the page says below a heading."""
        self.before, self.outputs = self.project.manifests(), []
        assert SCENARIOS[heading]
        for block in SCENARIOS[heading]:
            self.outputs.append(self.call("bash", "-euo", "pipefail", "-c", block))

    def call(self, *command):
        """Output of a command in this user's environment: the package comes from the folder that the user is in."""
        folder = self.project.folder
        store = str(folder.parent / "store")
        variables = {"PROJECT": str(folder), "STORE": store, "PRESET": "tiny", "PYTHONPATH": "."}
        return self.project.output(*command, **variables)

    def remade(self):
        """Folders of what the scenario made or made again."""
        return self.project.remade(self.before)

    def is_settled(self):
        """Whether nothing is left to do for git and DVC."""
        return self.call("git", "status", "--porcelain") == "" and self.project.is_versioned()


def trained_seeds(listed):
    """Run → its trained seeds, in what `vsepp runs` says."""
    head, *lines = listed.splitlines()
    column = head.index("trained seeds")
    by_run = {line.split()[0]: line[column:].split("  ")[0] for line in lines[: lines.index("")]}
    return {run: seeds for run, seeds in by_run.items() if seeds != "–"}


def test_the_page_does_what_it_says(reproduced, tmp_path):
    """The results of `dvc repro` are here; no version has them yet."""
    project = reproduced.copy(tmp_path / "vsepp")
    project.call("git", "reset", "--quiet", "HEAD~1")
    user = User(project)
    user.follow("Reproduce and version")
    assert (tmp_path / "store").is_dir() and not user.remade()

    user.follow("Change one run")
    assert re.search(r"^train +1$", user.outputs[0], re.MULTILINE), user.outputs[0]
    assert user.remade() == {*folders_of(VSE0), PAGE}
    assert not uncommitted_steps(read_manifest(project.model()))
    assert user.is_settled() and project.planned() == {}

    user.follow("Compare two versions")
    compared(user)
    fetched(user)

    user.call("git", "checkout", "--quiet", "first")
    assert f"{VSE0}/seed-0: " in project.vsepp("verify", status=1), "results have not followed yet"
    user.follow("Back to an old version and forward again")
    assert "artefacts verified" in user.outputs[0], "`first` was verified here, so its results were here"
    assert json.loads((project.model() / "config.json").read_text())["loss"]["margin"] == 0.05
    assert project.planned() == {}

    user.follow("Free space")
    assert "Removed" in user.outputs[0] and not user.remade()
    assert not [name for name in ("stores", "tapes") if (project.folder / "results/tiny" / name).exists()]
    assert user.is_settled()


def compared(user):
    """Parameters and numbers of two versions."""
    assert f"{VSE0}.loss.margin" in user.outputs[0]
    shown, differing = user.outputs[0].split("Change", 1)
    for run in RUNS:
        assert f"{run}." in shown
        assert (f"{run}." in differing) == (run == VSE0)
    assert (user.project.folder / "dvc_plots/index.html").is_file()
    rsum = json.loads((user.project.evaluation() / "metrics.json").read_text())["5x1K"]["rsum"]
    ((file, models),) = json.loads(user.call("dvc", "metrics", "show", "--json"))[""]["data"].items()
    assert file == f"{PAGE}/metrics.json" and models["data"][VSE0]["5x1K"]["rsum"] == rsum
    assert user.call("git", "status", "--porcelain") == ""


def fetched(user):
    """A clone that computes only what is changed there, and one model of it."""
    folder = user.project.folder
    clone = Project(folder.parent / "clone")
    user.call("git", "clone", "--quiet", folder, clone.folder)
    assert not (clone.folder / "results").exists() and not (clone.folder / ".dvc/cache").exists()
    assert pull() in clone.vsepp("verify", status=1)
    shutil.rmtree(clone.folder)

    user.follow("Get a colleague's results")
    block = SCENARIOS["Get a colleague's results"][0].splitlines()
    assert [line for line in block if line in pull().split(" && ")] == pull().split(" && ")
    assert trained_seeds(user.outputs[0][user.outputs[0].index("run  ") :]) == dict.fromkeys(RUNS, "0")
    shutil.rmtree(clone.folder / PLANS)  # as where nothing but a pull was done
    output = clone.run("--dry-run")
    assert pull() in output and "Nothing to be done" in output, "the stores that nobody pushed are not missed"
    assert "didn't change, skipping" in clone.output("dvc", "repro")
    tables = list((folder / PAGE / "tables").iterdir())
    assert tables
    for table in tables:
        assert (clone.folder / PAGE / "tables" / table.name).read_bytes() == table.read_bytes()
    clone.edit(ENTRIES, f"{RC}: {{base: vsepp,", f"{RC}: {{base: vsepp, loss: {{margin: 0.3}},")
    # The store is there. The fine-tuned run inherits from the frozen one and starts from it; nobody pushed the tape.
    assert clone.planned() == {"tape": 1, "train": 2, "evaluate": 2, "report": 1}
    alone = folder.parent / "vsepp-1c"
    for name in ("model.safetensors", "manifest.json"):
        theirs, ours = (project.model(VSEPP) / name for project in (clone, user.project))
        assert theirs.read_bytes() == ours.read_bytes() == (alone / name).read_bytes()
    parts = {"model.safetensors", "config.json", "vocabulary.json", "history.csv", "manifest.json"}
    assert {path.name for path in alone.iterdir()} >= parts
