"""Runs of the real DAG, in folders of their own."""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("vsepp", "workflow", "params", "profiles", "Snakefile", "reports/templates")

# A few pictures and one or two epochs: enough for every rule to do real work in seconds.
TINY = {
    "label": "tiny",
    "scenes": {
        "images": {
            "coco": {"train": 40, "restval": 20, "val": 20, "test": 50},
            "flickr": {"train": 60, "val": 20, "test": 20},
        }
    },
    "pretraining": {"images": 256, "epochs": 1},
    "evaluation": {"fold_size": 10},
    "runs": {"default": {"epochs": 2, "vocabulary_threshold": 2}, "finetune": {"epochs": 1}},
}


@dataclass
class Workflow:
    """A working folder and the checkout whose Snakefile runs in it."""

    folder: Path
    source: Path = ROOT
    config: dict = field(default_factory=dict)

    def start(self, *arguments, output=subprocess.PIPE, **config):
        """Call Snakemake in the background; output and errors go to `output` as one text."""
        merged = {**self.config, **config}
        command = [
            sys.executable, "-m", "snakemake", "--snakefile", str(self.source / "Snakefile"),
            "--directory", str(self.folder), "--cores", "all", *arguments,
        ]  # fmt: skip
        if merged:
            command += ["--config", *(f"{key}={json.dumps(value)}" for key, value in merged.items())]
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        environment = {**os.environ, "PYTHONPATH": str(self.source), "PATH": path}
        # Not from the checkout of the tests: Python would import its package and not that of `source`.
        return subprocess.Popen(
            command, env=environment, cwd=self.folder, text=True, stdout=output, stderr=subprocess.STDOUT
        )

    def run(self, *arguments, check=True, **config):
        """Call Snakemake and wait; `stdout` of what comes back is its whole output as text."""
        return finish(self.start(*arguments, **config), check)

    def planned(self, *targets, **config):
        """Jobs of a dry run: rule → set of what its wildcards or files name."""
        text = self.run(*targets, "--dry-run", "--quiet", "host", **config).stdout
        found = {}
        for rule, count in re.findall(r"^(\w+) +(\d+)$", text, re.MULTILINE):
            if rule not in ("total", "all", "reproduce_tables"):
                found[rule] = int(count)
        assert bool(found) != ("Nothing to be done" in text), text
        return found

    def trained(self, **config):
        """Runs that a dry run would train."""
        text = self.run("--dry-run", **config).stdout
        return set(re.findall(r"Train ([a-z0-9-]+), seed", text))


def cpu_seconds_of_children():
    """What processes that were started from here and waited for took; other tests do not count into it."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def finish(process, check=True):
    """Wait for a call of Snakemake and give its output."""
    output, _ = process.communicate()
    if check and process.returncode:
        raise AssertionError(f"{' '.join(process.args)}\n{output}")
    return subprocess.CompletedProcess(process.args, process.returncode, output)


def copy_of_the_project(folder):
    for name in COPIED:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, target)
    return folder
