"""Runs of the real DAG, in folders of their own."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

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

    def run(self, *arguments, check=True, **config):
        """Call Snakemake; output and errors come back as one text in `stdout`."""
        merged = {**self.config, **config}
        command = [
            sys.executable, "-m", "snakemake", "--snakefile", str(self.source / "Snakefile"),
            "--directory", str(self.folder), "--cores", "all", *arguments,
        ]  # fmt: skip
        if merged:
            command += ["--config", *(f"{key}={json.dumps(value)}" for key, value in merged.items())]
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        environment = {**os.environ, "PYTHONPATH": str(self.source), "PATH": path}
        done = subprocess.run(
            command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        if check and done.returncode:
            raise AssertionError(f"{' '.join(command)}\n{done.stdout}")
        return done

    def planned(self, *targets, **config):
        """Jobs of a dry run: rule → set of what its wildcards or files name."""
        text = self.run("--dry-run", "--quiet", "host", *targets, **config).stdout
        found = {}
        for rule, count in re.findall(r"^(\w+) +(\d+)$", text, re.MULTILINE):
            if rule not in ("total", "all", "reproduce_tables"):
                found[rule] = int(count)
        return found

    def trained(self, **config):
        """Runs that a dry run would train."""
        text = self.run("--dry-run", **config).stdout
        return set(re.findall(r"Train ([a-z0-9-]+), seed", text))


def copy_of_the_project(folder):
    for name in COPIED:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, target)
    return folder


@pytest.fixture(scope="session")
def mini(tmp_path_factory):
    """The mini preset, whole, from nothing."""
    workflow = Workflow(tmp_path_factory.mktemp("mini"))
    workflow.output = workflow.run("reproduce_tables").stdout
    return workflow


@pytest.fixture(scope="session")
def tiny_base(tmp_path_factory):
    """A finished tiny run of VSE0, VSE++ and a fine-tuned VSE++, from a checkout that tests may edit a copy of."""
    base = tmp_path_factory.mktemp("tiny")
    only = ["flickr-vse0-rc", "flickr-vsepp-rc", "flickr-vsepp-rc-ft", "coco-orderpp-10c-rv"]
    workflow = Workflow(base / "work", copy_of_the_project(base / "source"), {**TINY, "only": only})
    workflow.folder.mkdir()
    workflow.run()
    return workflow


@pytest.fixture
def tiny(tiny_base, tmp_path):
    """A copy of the finished tiny run, checkout included, that a test may change."""
    shutil.copytree(tiny_base.source, tmp_path / "source")
    shutil.copytree(tiny_base.folder, tmp_path / "work", symlinks=True)
    return Workflow(tmp_path / "work", tmp_path / "source", dict(tiny_base.config))
