"""A git repository of the project with a preset so small that `dvc repro` takes a minute."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml
from dag import ROOT, TINY, copy_of_the_project

RUNS = ["coco-vse0-1c", "coco-vsepp-1c", "coco-vsepp-rc"]
ALSO_COPIED = ("dvc.yaml", ".dvc/config", ".dvc/.gitignore", ".dvcignore", ".gitignore")


@dataclass(frozen=True)
class Repository:
    """A checkout in which `git`, `dvc`, `snakemake` and `vsepp` are called as a user calls them."""

    folder: Path

    @property
    def environment(self):
        """Of every call: this environment's tools, this checkout's package, no settings of this machine's user."""
        nobody = {
            f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in _NOBODY.items()
        }
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
        """Call something in the background, in a process group of its own."""
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

    def repro(self, *arguments, check=True):
        """`dvc repro`; its output."""
        return self.call("dvc", "repro", *arguments, check=check).stdout

    def commit(self, message="Something"):
        """Commit every file that git does not ignore; the commit's hash."""
        self.call("git", "add", "--all")
        self.call("git", "commit", "--quiet", "--message", message)
        return self.call("git", "rev-parse", "HEAD").stdout.strip()

    def edit(self, path, old, new):
        """Replace text that must be in a file."""
        file = self.folder / path
        text = file.read_text()
        assert old in text, f"{path}: no {old!r}"
        file.write_text(text.replace(old, new))

    def is_done(self):
        """Whether a dry run of the whole reproduction says that there is nothing to do."""
        return "Nothing to be done" in self.dry_run()

    def dry_run(self, *targets):
        """What Snakemake would do."""
        return self.call("snakemake", "--cores", "1", "--dry-run", "--", *targets).stdout

    def manifests(self):
        """Manifest of every artefact that DVC keeps → its text, which has the seconds that the making took."""
        found = [
            *self.folder.glob("results/tiny/**/manifest.json"),
            *self.folder.glob("reports/tiny/*/manifest.json"),
        ]
        unversioned = {"stores", "tapes"}
        return {
            path.relative_to(self.folder).as_posix(): path.read_text(encoding="utf-8")
            for path in found
            if not unversioned & set(path.parts)
        }

    def run_folder(self, run="coco-vse0-1c"):
        """Folder of a trained run."""
        return self.folder / "results/tiny/paper/runs" / run / "seed-0"

    def copy(self, folder):
        """A copy, times included, as a user could copy the folder."""
        subprocess.run(["cp", "-a", str(self.folder), str(folder)], check=True)
        return Repository(folder)


_NOBODY = {"NAME": "Nobody", "EMAIL": "nobody@example.org"}


def make_tiny_repository(folder):
    """Make and commit a repository of the project whose parameters are those of the preset `tiny`; nothing is run."""
    copy_of_the_project(folder)
    for name in ALSO_COPIED:
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    add_tiny_preset(folder / "params")
    repository = Repository(folder)
    repository.call("git", "init", "--quiet", "--initial-branch", "main")
    repository.commit("The project")
    return repository


def add_tiny_preset(params, runs=RUNS):
    """Add `tiny.yaml` to a folder of parameters and choose it."""
    preset = yaml.safe_load((params / "presets/mini.yaml").read_text())
    _merge(preset, {key: value for key, value in TINY.items() if key != "label"})
    (params / "presets/tiny.yaml").write_text(yaml.safe_dump(preset, sort_keys=False))
    config = params / "config.yaml"
    text = config.read_text()
    assert "preset: mini " in text and "only: null" in text
    config.write_text(
        text.replace("preset: mini ", "preset: tiny ").replace("only: null", f"only: {json.dumps(runs)}")
    )


def _merge(values, changes):
    for key, change in changes.items():
        if isinstance(change, dict) and isinstance(values.get(key), dict):
            _merge(values[key], change)
        else:
            values[key] = change
