"""docs/versions.md, executed: its commands in their order, as one user types them, with a tiny preset.

What it says of other code is held by test_other_code.py, of kills by test_kills.py; no test has a cluster.
"""

import json
import re
from dataclasses import dataclass, field

import pytest
from projects import ROOT, RUNS, Project, folders_of

from vsepp.base.errors import PHASES, pull
from vsepp.base.manifest import read_manifest, uncommitted_steps

pytestmark = [pytest.mark.dvc, pytest.mark.whole]
VSE0, VSEPP, RC, _ = RUNS
PAGE = "reports/tiny/paper/vsepp"
ENTRIES = "params/papers/vsepp/runs.yaml"


def scenarios(text):
    """Heading → its blocks that are marked for execution by `sh run`."""
    sections = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)[1:]
    return {
        heading: re.findall(r"^```sh run\n(.*?)^```$", body, re.MULTILINE | re.DOTALL)
        for heading, body in zip(sections[::2], sections[1::2], strict=True)
    }


SCENARIOS = scenarios((ROOT / "docs/versions.md").read_text(encoding="utf-8"))


@dataclass
class User:
    """Somebody who follows the page in a project of their own."""

    project: Project
    before: dict = field(default_factory=dict)
    """Manifest → when it was written, before the present scenario."""
    said: list = field(default_factory=list)
    """Output of each block of the present scenario."""

    def follow(self, heading):
        """Do what the page says below a heading."""
        self.before, self.said = self.project.manifests(), []
        assert SCENARIOS[heading]
        for block in SCENARIOS[heading]:
            self.said.append(self.call("bash", "-euo", "pipefail", "-c", block))

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
    seeds = {line.split()[0]: line[column:].split("  ")[0] for line in lines[: lines.index("")]}
    return {run: listed for run, listed in seeds.items() if listed != "–"}


def test_the_page_does_what_it_says(reproduced, tmp_path):
    """The results of `dvc repro` are here; no version has them yet."""
    project = reproduced.copy(tmp_path / "vsepp")
    project.call("git", "reset", "--quiet", "HEAD~1")
    user = User(project)
    user.follow("Reproduce and version")
    assert (tmp_path / "store").is_dir() and not user.remade()
    assert "everything is up to date" in user.call("dvc", "push").lower()
    assert user.is_settled()

    user.follow("Change one run")
    assert re.search(r"^train +1$", user.said[0], re.MULTILINE), user.said[0]
    assert user.remade() == {*folders_of(VSE0), PAGE}
    assert not uncommitted_steps(read_manifest(project.model()))
    assert user.is_settled()
    assert project.planned() == {}, "what DVC made is done for Snakemake"

    user.follow("Compare two versions")
    compared(user)
    told(user, tmp_path / "another/vsepp")
    user.follow("Get a colleague's results")
    fetched(user)

    user.call("git", "checkout", "--quiet", "first")
    assert f"{VSE0}/seed-0: " in project.refusal("vsepp", "verify"), "results have not followed yet"
    user.follow("Back to an old version and forward again")
    assert "artefacts verified" in user.said[0], "`first` was verified here, so its results were here"
    assert json.loads((project.model() / "config.json").read_text())["loss"]["margin"] == 0.05
    assert user.is_settled() and project.planned() == {}

    user.follow("Free space")
    assert "Removed" in user.said[0] and not user.remade()
    assert not [name for name in ("stores", "tapes") if (project.folder / "results/tiny" / name).exists()]
    assert user.is_settled()


def compared(user):
    """Parameters and numbers of two versions."""
    assert f"{VSE0}.loss.margin" in user.said[0]
    shown, differing = user.said[0].split("Change", 1)
    for run in RUNS:
        assert f"{run}." in shown
        assert (f"{run}." in differing) == (run == VSE0)
    assert (user.project.folder / "dvc_plots/index.html").is_file()
    rsum = json.loads((user.project.evaluation() / "metrics.json").read_text())["5x1K"]["rsum"]
    ((file, models),) = json.loads(user.call("dvc", "metrics", "show", "--json"))[""]["data"].items()
    assert file == f"{PAGE}/metrics.json" and models["data"][VSE0]["5x1K"]["rsum"] == rsum
    assert user.call("git", "status", "--porcelain") == ""


def told(user, folder):
    """Who has not read the page is told its commands in a clone: by `verify`, and by a dry run after a pull alone."""
    folder.parent.mkdir()
    user.call("git", "clone", "--quiet", user.project.folder, folder)
    clone = Project(folder)
    assert not (folder / "results").exists() and not (folder / ".dvc/cache").exists()
    missing = clone.vsepp("verify", status=1)
    clone.call("dvc", "pull", *PHASES)
    assert pull() in missing and pull() in clone.run("--dry-run")
    block = SCENARIOS["Get a colleague's results"][0]
    assert [line for line in block.splitlines() if line in pull().split(" && ")] == pull().split(" && ")


def fetched(user):
    """A clone that computes only what is changed there, and one model of it."""
    folder = user.project.folder
    clone = Project(folder.parent / "clone")
    assert trained_seeds(user.said[0][user.said[0].index("run  ") :]) == dict.fromkeys(RUNS, "0")
    assert clone.planned() == {}, "it does not miss the stores that nobody pushed"
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
