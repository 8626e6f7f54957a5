"""The runs of the Flickr8k study that wait for a GPU, as a list of steps that needs nothing of the workflow.

`prepare` writes the list where the whole package is installed, and makes there what needs more than torch:
tables, word ids and encoders. `run` does one of the other steps on the machine with the GPU; every step
resumes, so a stopped step goes on.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from checks import Finding
from measure import ROOT

from vsepp.base.errors import VseppError
from vsepp.base.manifest import MANIFEST
from vsepp.base.run_spec import seeded
from vsepp.pipeline.settings import ResourceKeys
from vsepp.pipeline.step import Artefact, Input
from vsepp.pipeline.table import ArtefactTable, read_table
from vsepp.report.records import Study, read_results, write_study

ARCHIVES = ("Flickr8k_Dataset.zip", "Flickr8k_text.zip")
PLANS = "plans"
"""Folder of the list, a plan."""
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
    table = _needed(archives, tiny)
    folder.mkdir(parents=True)
    for job in table.table.values():
        if job.kind in MADE_ELSEWHERE:
            _make(job, folder, archives, torch.device("cpu"), None)
    table.write(folder / PLANS)


def _needed(archives: Path, tiny: bool) -> ArtefactTable:
    """Artefacts that the runs and their start runs need, each once, seed by seed; with `tiny`, of one run.

    Raw files have their place below the archives, which lie elsewhere on the machine with the GPU.
    """
    from vsepp.pipeline.planner import make_plan

    tuned, seeds = (TUNED[:1], SEEDS[:1]) if tiny else (TUNED, SEEDS)
    names = [name for run in tuned for name in (run.removesuffix("-ft"), run)]
    overrides: dict[str, Any] = {"preset": "flickr8k", "papers": ["flickr8k_study"], "label": "first-light"}
    overrides |= {**(TINY if tiny else {}), "archives": str(archives), "only": tuned}
    sizes = SMALL if tiny else {}
    overrides["runs"] = {name: {**sizes, "seeds": list(seeds)} for name in names}
    plan = make_plan(ROOT / "params", overrides)
    evaluations = [plan.row("evaluation", seeded(name, seed)) for seed in seeds for name in names]
    artefacts = chain.from_iterable(plan.needed([evaluation]) for evaluation in evaluations)
    rows = {}
    for artefact in dict.fromkeys(artefacts):
        rows[artefact.kind, artefact.name] = _with_raw(artefact, lambda path: path.relative_to(archives))
    return ArtefactTable(plan.preset, plan.variant, plan.lock, plan.resources, {}, rows)


def _with_raw(artefact: Artefact, place: Callable[[Path], Path]) -> Artefact:
    """An artefact whose raw files lie elsewhere."""
    inputs = {
        role: Input(place(read.path), raw=True) if read.raw else read
        for role, read in artefact.inputs.items()
    }
    return replace(artefact, inputs=inputs)


def jobs(prepared: Path) -> list[Artefact]:
    """The steps that are left for the machine with the GPU."""
    plans = list((prepared / PLANS).glob("*.json"))
    if len(plans) != 1:
        raise VseppError(f"{prepared / PLANS}: expected one plan, which first_light.py --prepare writes")
    return [job for job in read_table(plans[0]).table.values() if job.kind not in MADE_ELSEWHERE]


def run(
    job: Artefact, prepared: Path, archives: Path, device: torch.device, ends: float, records: Path
) -> Finding | None:
    """Do one step, or go on with it; nothing if it does not end by then, by the monotonic clock.

    The record of an evaluated model is kept in a study of its own.
    """
    folder = prepared / job.folder
    if not (folder / MANIFEST).is_file():
        try:
            _make(job, prepared, archives, device, ends - time.monotonic() - 3)
        except subprocess.TimeoutExpired:
            return None
    if job.kind != "evaluation":
        return Finding(True, "made")
    model = job.spec.run.id, job.spec.run.init_seed
    models = Study(records).read_all()
    models[model] = read_results(folder, prepared / job.paths["run"], trained=True)
    write_study(records, models)
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    return Finding(True, f"rsum {metrics['1K']['rsum']:.1f}", metrics)


def _make(job: Artefact, prepared: Path, archives: Path, device: torch.device, seconds: float | None) -> None:
    """Call a step of the package in its own process, which has to end in time."""
    here = _with_raw(job, lambda path: archives.absolute() / path)
    resources = ResourceKeys(threads=torch.get_num_threads(), memory_mb=1, keep_tapes=True)
    table = ArtefactTable("first-light", "first-light", Path(), resources, {}, {(here.kind, here.name): here})
    plan = table.write(prepared.absolute() / ".state")
    command = [sys.executable, "-m", "vsepp.apps.cli", "make", job.kind, job.name, "--plan", str(plan)]
    if job.step.gpu(job.spec) != "none":
        command += ["--device", device.type]
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(
        command, cwd=prepared, env=environment, capture_output=True, text=True, timeout=seconds
    )
    if done.returncode:
        raise VseppError(f"status {done.returncode}: " + "\n".join(done.stderr.strip().splitlines()[-20:]))
