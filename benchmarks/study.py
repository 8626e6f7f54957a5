"""The runs of the Flickr8k study that wait for a GPU, as a list of steps that needs nothing of the workflow.

`prepare` writes the list where the whole package is installed, and makes there what needs more than torch: tables, word ids
and encoders. `run` does one of the other steps on the machine with the GPU; every step resumes, so a stopped step goes on.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from checks import Finding
from measure import ROOT

from vsepp.base.errors import VseppError
from vsepp.base.files import json_of, text_of, write_text
from vsepp.base.manifest import MANIFEST
from vsepp.base.spec import seeded, to_dict
from vsepp.reporting.studies import Study, read_results, write_study

ARCHIVES = ("Flickr8k_Dataset.zip", "Flickr8k_text.zip")
LIST = "jobs.json"
SEEDS = (0, 1, 2)
TUNED = [f"{system}-{run}-ft" for run in ("rc", "rc-lite2") for system in ("f8k-vse0", "f8k-vsepp")]
"""Runs that wait for a GPU; the runs that they start from come with them."""
MADE_ELSEWHERE = ("corpus", "tokens", "encoder")
TINY: dict[str, Any] = {
    "encoders": {
        name: {"architecture": "mini/vgg_mini", "weights": "random", "input_size": 24, "store_side": 28}
        for name in ("lite0_bf16", "lite2_bf16")
    },
    "corpora": {"flickr": {"first_images": {"train": 40, "val": 10, "test": 10}}},
    "evaluation": {"fold_size": 10},
}
SMALL = {"text": {"dim": 8, "word_dim": 6}, "joint_dim": 8, "epochs": 1, "batch_size": 8}


def prepare(folder: Path, archives: Path | None, *, tiny: bool = False) -> None:
    """Write the list into a new folder, and make there what the machine with the GPU cannot make.

    Raises
    ------
    VseppError
        If the folder exists or an archive is missing, or if a called step fails.
    """
    if archives is None or not all((archives / name).is_file() for name in ARCHIVES):
        raise VseppError(f"--data: {archives}: expected a folder with {' and '.join(ARCHIVES)}")
    if folder.exists():
        raise VseppError(f"{folder}: already exists; name a new folder")
    listed = list(_needed(archives, tiny))
    folder.mkdir(parents=True)
    for job in listed:
        if job["kind"] in MADE_ELSEWHERE:
            _make(job, folder, archives, torch.device("cpu"), None)
    left = [job for job in listed if job["kind"] not in MADE_ELSEWHERE]
    write_text(folder / LIST, json.dumps(left, indent=1) + "\n")


def _needed(archives: Path, tiny: bool) -> Iterator[dict[str, Any]]:
    """Artefacts that the runs and their start runs need, each once, seed by seed; with `tiny`, of one run."""
    from vsepp.pipeline.planner import make_plan

    tuned, seeds = (TUNED[:1], SEEDS[:1]) if tiny else (TUNED, SEEDS)
    names = [name for run in tuned for name in (run.removesuffix("-ft"), run)]
    overrides: dict[str, Any] = {"preset": "flickr8k", "papers": ["flickr8k_study"], "label": "first-light"}
    overrides |= {**(TINY if tiny else {}), "archives": str(archives), "only": tuned}
    sizes = SMALL if tiny else {}
    overrides["runs"] = {name: {**sizes, "seeds": list(seeds)} for name in names}
    plan = make_plan(ROOT / "params", overrides)
    evaluations = [plan.table["evaluation", seeded(name, seed)] for seed in seeds for name in names]
    for artefact in dict.fromkeys(
        needed for evaluation in evaluations for needed in plan.needed([evaluation])
    ):
        yield {
            "name": f"{artefact.kind} {artefact.name}",
            "kind": artefact.kind,
            "spec": to_dict(artefact.spec),
            "inputs": {role: str(path) for role, path in artefact.inputs.items()},
            "raw": {role: str(path.relative_to(archives)) for role, path in artefact.raw.items()},
            "folder": str(artefact.folder),
        }


def jobs(prepared: Path) -> list[dict[str, Any]]:
    """The steps that are left for the machine with the GPU."""
    path = prepared / LIST
    return json_of(text_of(path, "what first_light.py --prepare writes"), str(path))


def run(
    job: Mapping[str, Any], prepared: Path, archives: Path, device: torch.device, ends: float, records: Path
) -> Finding | None:
    """Do one step, or go on with it; nothing if it does not end by then, by the monotonic clock.

    The record of an evaluated model is kept in a study of its own.
    """
    folder = prepared / job["folder"]
    if not (folder / MANIFEST).is_file():
        try:
            _make(job, prepared, archives, device, ends - time.monotonic() - 3)
        except subprocess.TimeoutExpired:
            return None
    if job["kind"] != "evaluation":
        return Finding(True, "made")
    name, _, seed = job["name"].removeprefix("evaluation ").rpartition("/seed-")
    models = Study(records).read_all()
    models[name, int(seed)] = read_results(prepared / job["inputs"]["run"], folder, trained=True)
    write_study(records, models)
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    return Finding(True, f"rsum {metrics['1K']['rsum']:.1f}", metrics)


def _make(
    job: Mapping[str, Any], prepared: Path, archives: Path, device: torch.device, seconds: float | None
) -> None:
    """Call a step of the package in its own process."""
    spec = json.dumps(job["spec"])
    command = [sys.executable, "-m", "vsepp.apps.cli", "make", job["kind"]]
    command += ["--spec", spec, "--output", job["folder"]]
    command += [f"--{role.replace('_', '-')}={path}" for role, path in job["inputs"].items()]
    if job["raw"]:
        command += ["--raw", *(f"{role}={archives.absolute() / name}" for role, name in job["raw"].items())]
    if job["kind"] in ("features", "tape", "run", "evaluation"):
        command += ["--device", device.type, "--threads", str(torch.get_num_threads())]
    if job["kind"] == "store":
        command += ["--threads", str(os.cpu_count() or 1)]
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(
        command, cwd=prepared, env=environment, capture_output=True, text=True, timeout=seconds
    )
    if done.returncode:
        raise VseppError(f"status {done.returncode}: " + "\n".join(done.stderr.strip().splitlines()[-20:]))
