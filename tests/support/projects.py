"""Projects in folders of their own; tests call `git`, `dvc`, `snakemake` and `vsepp` there as a user calls them."""

import contextlib
import io
import json
import os
import re
import resource
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from plans import edit

from vsepp.apps.cli import main
from vsepp.base.manifest import MANIFEST
from vsepp.pipeline.planner import make_plan

ROOT = Path(__file__).resolve().parents[2]
COPIED = (
    "vsepp", "workflow", "params", "profiles", "Snakefile", "reports/templates", "docs/results/mini", "dvc.yaml",
    ".dvc/config", ".dvc/.gitignore", ".dvcignore", ".gitignore",
)  # fmt: skip

# A few pictures and one or two epochs: enough for every rule to do real work in seconds.
TINY = {
    "label": "tiny",
    "scenes": {
        "images": {
            "coco": {"train": 40, "restval": 20, "val": 20, "test": 50},
            "flickr": {"train": 60, "val": 20, "test": 20},
        }
    },
    "evaluation": {"fold_size": 10},
    "tables": {"vsepp": ["table1", "table2", "table3", "table4", "figure1", "figure2a"]},
    "runs": {"default": {"epochs": 2, "vocabulary_threshold": 2}, "finetune": {"epochs": 1}},
}
# Runs of the preset `tiny`: SH and MH on features; MH on a tape, and fine-tuned from there.
RUNS = ["coco-vse0-1c", "coco-vsepp-1c", "coco-vsepp-rc-rv", "coco-vsepp-rc-rv-ft"]
_NOBODY = {"NAME": "Nobody", "EMAIL": "nobody@example.org"}
_TARGETS = ("all", "reproduce_tables")


@dataclass(frozen=True)
class Project:
    """A copy of the project, with results or without."""

    folder: Path
    config: dict = field(default_factory=dict)
    """What every call of Snakemake is given as `--config`."""

    @property
    def environment(self):
        """Every call has this environment's tools, this copy's package, and no settings of this machine's user."""
        roles = ("AUTHOR", "COMMITTER")
        nobody = {f"GIT_{role}_{key}": value for role in roles for key, value in _NOBODY.items()}
        settings = self.folder.parent / "settings"
        return {
            **os.environ,
            **nobody,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": str(self.folder),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "DVC_GLOBAL_CONFIG_DIR": str(settings / "global"),
            "DVC_SYSTEM_CONFIG_DIR": str(settings / "system"),
            "DVC_SITE_CACHE_DIR": str(settings / "site"),
        }

    def start(self, *command, output=subprocess.PIPE, **environment):
        """Call something in the background, in a process group of its own; its output and errors are one text."""
        return subprocess.Popen(
            list(map(str, command)),
            cwd=self.folder,
            env={**self.environment, **environment},
            text=True,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def call(self, *command, check=True, **environment):
        """Call something and wait; `stdout` of what comes back is output and errors as one text."""
        process = self.start(*command, **environment)
        output, _ = process.communicate()
        if check and process.returncode:
            raise AssertionError(f"{' '.join(map(str, command))} ended with {process.returncode}\n{output}")
        return subprocess.CompletedProcess(process.args, process.returncode, output)

    def vsepp(self, *arguments, status=0):
        """What a subcommand says that ends with this status, called in this process, which has imported torch already.

        The package is this checkout's: not for a test that edits the project's own, or looks at a commit.
        """
        output = io.StringIO()
        with (
            patch.dict(os.environ, self.environment),
            contextlib.chdir(self.folder),
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(output),
        ):
            assert main(list(map(str, arguments))) == status, output.getvalue()
        return output.getvalue()

    def output(self, *command, **environment):
        """Output and errors of a command that succeeds."""
        return self.call(*command, **environment).stdout

    def typed(self, message, k=0):
        """Paste a command that a message ends with into a shell; `k`: which of them."""
        command = re.findall(r"^    (?:fix|or): (.*)$", message, re.MULTILINE)[k]
        return self.output("bash", "-euo", "pipefail", "-c", command)

    def refusal(self, *command):
        """What a command says that must fail, and without a traceback."""
        done = self.call(*command, check=False)
        assert done.returncode != 0, done.stdout
        assert "Traceback" not in done.stdout
        return done.stdout

    def snakemake(self, *arguments, **config):
        """A call of Snakemake on all cores."""
        merged = {**self.config, **config}
        options = ["--config", *(f"{key}={json.dumps(value)}" for key, value in merged.items())]
        return ["snakemake", "--cores", "all", *arguments, *(options if merged else [])]

    def run(self, *arguments, **config):
        """Let Snakemake do what it is asked for; its output."""
        return self.output(*self.snakemake(*arguments, **config))

    def make(self, **config):
        """Make the reports and what they need and is not here, as rules do but in this process; folders of what was made."""
        with contextlib.chdir(self.folder):
            table = make_plan(Path("params"), {**self.config, **config})
            needed = table.needed(table.of_kind("report").values())
            missing = [artefact for artefact in needed if not (artefact.folder / MANIFEST).is_file()]
            file = table.write()
        for artefact in missing:
            self.vsepp("make", artefact.kind, artefact.name, "--plan", file, "--threads", 1)
        return {artefact.folder.as_posix() for artefact in missing}

    def planned(self, *targets, **config):
        """What Snakemake would do: rule → how many jobs."""
        text = self.run(*targets, "--dry-run", "--quiet", "host", **config)
        counts = {rule: int(count) for rule, count in re.findall(r"^(\w+) +(\d+)$", text, re.MULTILINE)}
        jobs = {rule: n for rule, n in counts.items() if rule != "total" and not rule.startswith(_TARGETS)}
        assert bool(jobs) != ("Nothing to be done" in text), text
        return jobs

    def trained(self, **config):
        """Runs that Snakemake would train."""
        return set(re.findall(r"Train ([a-z0-9-]+)/seed", self.run("--dry-run", **config)))

    def is_versioned(self):
        """Whether DVC has nothing to do."""
        return "Data and pipelines are up to date" in self.output("dvc", "status")

    def commit(self, message="Something"):
        """Commit every file that git does not ignore; the commit's hash."""
        self.call("git", "add", "--all")
        self.call("git", "commit", "--quiet", "--message", message)
        return self.output("git", "rev-parse", "HEAD").strip()

    def edit(self, path, old="", new="\nMINE = True\n"):
        """Replace text that must be in a file, or add some."""
        file = self.folder / path
        text = file.read_text()
        assert old in text, f"{path}: no {old!r}"
        file.write_text(text.replace(old, new) if old else text + new)

    def manifests(self):
        """Manifest of every artefact that DVC keeps → its text, which has the seconds that the making took."""
        paths = self.folder.glob("*/tiny/**/manifest.json")
        return {
            path.relative_to(self.folder).as_posix(): path.read_text(encoding="utf-8")
            for path in paths
            if not {"stores", "tapes"} & set(path.parts)
        }

    def remade(self, before):
        """Folders of what was made, or made again, since `manifests` gave `before`."""
        after = self.manifests()
        assert after.keys() >= before.keys(), "something was deleted"
        return {path.rsplit("/", 1)[0] for path, written in after.items() if before.get(path) != written}

    def model(self, run=RUNS[0], variant="paper"):
        """Folder of a trained run."""
        return self.folder / f"results/tiny/{variant}/runs/{run}/seed-0"

    def weights(self, run=RUNS[0], variant="paper"):
        """Bytes of a trained run's weights."""
        return (self.model(run, variant) / "model.safetensors").read_bytes()

    def evaluation(self, run=RUNS[0]):
        """Folder of a run's ranks and recalls."""
        return self.folder / f"results/tiny/paper/evaluations/{run}/seed-0"

    def of_test_split(self, preset, role="coco"):
        """Encoded photographs and captions of the test split of a corpus of scenes, in file order."""
        from vsepp.data.tables import read_tables

        images, captions = read_tables(next((self.folder / f"results/{preset}/corpora").glob(f"{role}-*")))
        layout = next(self.folder.glob(f"resources/scenes-*/{role}"))
        photographs = {path.name: path for path in layout.rglob("*.jpg")}
        files = [photographs[name].read_bytes() for name in images["file_name"][images["split"] == "test"]]
        return files, captions["text"][captions["split"] == "test"].tolist()

    def copy(self, folder):
        """A copy, times included, as a user could copy the folder."""
        subprocess.run(["cp", "-a", str(self.folder), str(folder)], check=True)
        return Project(folder, self.config)


def folders_of(run, seed=0, variant="paper"):
    """Folders of what one more run makes."""
    return {f"results/tiny/{variant}/{kind}/{run}/seed-{seed}" for kind in ("runs", "evaluations")}


def cpu_seconds_of_children():
    """What processes that were started from here and waited for took; other tests do not count into it."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def copy_of_the_project(folder, config=None):
    """A project where nothing was run; it has the part of the repository that a user works with."""
    for name in COPIED:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, target)
    return Project(folder, config or {})


def make_tiny_project(folder):
    """Make and commit a repository of the project whose preset is `tiny`; nothing is run."""
    project = copy_of_the_project(folder)
    presets = folder / "params/presets"
    shutil.copy(presets / "mini.yaml", presets / "tiny.yaml")
    edit(presets / "tiny.yaml", {key: value for key, value in TINY.items() if key != "label"})
    # Runs of one corpus and one encoder: what all runs share is made for these.
    edit(presets / "tiny.yaml", {"corpora": {"flickr": None}, "encoders": {"resnet": None}})
    project.edit("params/config.yaml", "preset: mini ", "preset: tiny ")
    project.edit("params/config.yaml", "only: null", f"only: {json.dumps(RUNS)}")
    project.call("git", "init", "--quiet", "--initial-branch", "main")
    project.commit("The project")
    return project
