"""The runs of the Flickr8k study that wait for a GPU, as a list of commands that needs nothing of the workflow.

`prepare` writes the list where the whole package is installed, and makes there what needs more than torch: tables, word ids
and encoders. `run` does one of the others on the machine with the GPU; every step resumes, so one that was stopped goes on.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import checks
import timed
import torch

from vsepp.errors import VseppError
from vsepp.provenance.manifest import MANIFEST
from vsepp.provenance.studies import Study, read_results, write_study
from vsepp.runtime.files import write_text
from vsepp.spec import seeded, to_dict
from vsepp.user_files import json_of, text_of

ARCHIVES = ("Flickr8k_Dataset.zip", "Flickr8k_text.zip")
LIST = "jobs.json"
_SEEDS = (0, 1, 2)
_SYSTEMS = ("vse0", "vsepp")
_PATIENCE = 3600.0
"""Seconds for what is made elsewhere."""
GATE = [(f"f8k-{system}-1c-whole-fp32", f"f8k-{system}-1c-whole") for system in _SYSTEMS]
"""Runs in fp32 and the same in bf16."""
TUNED = [tuple(f"f8k-{system}-{run}" for system in _SYSTEMS) for run in ("rc-ft", "rc-lite2-ft")]
"""Runs that wait for a GPU; what they start from comes with them."""
ORDER = [
    *((names, 0) for names in TUNED),
    *((names, seed) for names in GATE for seed in _SEEDS),
    *((names, seed) for seed in _SEEDS[1:] for names in TUNED),
]
"""Runs and their seed, those that are worth most first."""
_MADE_ELSEWHERE = ("corpus", "tokens", "encoder")
_ON_DEVICE = ("features", "tape", "run", "evaluation")
_TINY: dict[str, Any] = {
    "encoders": {
        name: {"architecture": "mini/vgg_mini", "weights": "random", "input_size": 24, "store_side": 28}
        for name in ("lite0_whole_fp32", "lite0_whole", "lite0_bf16", "lite2_bf16")
    },
    "runs": {"default": {"text": {"dim": 8, "word_dim": 6}, "joint_dim": 8, "epochs": 1, "batch_size": 8}},
    "corpora": {"flickr": {"first_images": {"train": 40, "val": 10, "test": 10}}},
    "evaluation": {"fold_size": 10},
}


def prepare(folder: Path, archives: Path | None, *, tiny: bool = False) -> None:
    """Write the list of commands into a new folder, and make there what the machine with the GPU cannot.

    Without archives there are no commands in it: only what the paper's preset takes.

    Raises
    ------
    VseppError
        If the folder is there, or as the steps that are called.
    """
    if folder.exists():
        raise VseppError(f"{folder}: already exists; name a new folder")
    listed = {"jobs": list(_study(archives, tiny)) if archives else [], **_paper()}
    folder.mkdir(parents=True)
    for job in listed["jobs"]:
        here = archives and job["kind"] in _MADE_ELSEWHERE
        if here and not _call(job, folder, archives, torch.device("cpu"), _PATIENCE):
            raise VseppError(f"{job['name']}: not made in {_PATIENCE:.0f} s")
    write_text(folder / LIST, json.dumps(listed, indent=1) + "\n")


def _study(archives: Path, tiny: bool) -> Iterator[dict[str, Any]]:
    """What the runs of `ORDER` need, each artefact once; in small of one seed and loss."""
    from vsepp.config import make_plan
    from vsepp.config.costs import needed_artefacts

    order = [(TUNED[0][:1], 0), (GATE[0], 0)] if tiny else ORDER
    overrides: dict[str, Any] = {"preset": "flickr8k", "papers": ["flickr8k_study"], "label": "first-light"}
    overrides |= _TINY if tiny else {}
    asked = list(dict.fromkeys(name for names, _ in order for name in names))
    seeds = {"seeds": sorted({seed for _, seed in order})}
    trained = {name: seeds for name in [*asked, *(name.removesuffix("-ft") for name in asked)]}
    overrides |= {"archives": str(archives), "runs": {**overrides.get("runs", {}), **trained}, "only": asked}
    plan = make_plan(timed.ROOT / "params", overrides)
    listed: set[Path] = set()
    for group, seed in order:
        names = dict.fromkeys([*(name.removesuffix("-ft") for name in group), *group])
        ends = [plan.table["evaluation", seeded(name, seed)] for name in names]
        for artefact in needed_artefacts(plan, ends):
            if artefact.folder not in listed:
                listed.add(artefact.folder)
                yield {
                    "name": f"{artefact.kind} {artefact.name}",
                    "kind": artefact.kind,
                    "spec": to_dict(artefact.spec),
                    "inputs": {role: str(path) for role, path in artefact.inputs.items()},
                    "raw": {role: str(path.relative_to(archives)) for role, path in artefact.raw.items()},
                    "folder": str(artefact.folder),
                    "record": artefact.name if artefact.kind == "evaluation" else "",
                }


def _paper() -> dict[str, Any]:
    """Work of the paper's preset, as `vsepp plan` counts it, and which role each network plays."""
    from vsepp.config import make_plan
    from vsepp.config.costs import costs_of

    plan = make_plan(timed.ROOT / "params", {"preset": "paper"})
    encoders = plan.parameters.preset.encoders
    return {
        "paper": [work for cost in costs_of(plan) for work in cost.work if work.amount],
        "roles": {f"{keys.architecture}@{keys.input_size}": role for role, keys in encoders.items() if keys},
    }


def read(prepared: Path) -> list[dict[str, Any]]:
    """The commands that are left for the machine with the GPU."""
    return [job for job in prepared_in(prepared)["jobs"] if job["kind"] not in _MADE_ELSEWHERE]


def prepared_in(prepared: Path) -> dict[str, Any]:
    """What `prepare` wrote."""
    where = prepared / LIST
    found: dict[str, Any] = json_of(text_of(where, "what first_light.py --prepare writes"), str(where))
    return found


def run(
    job: Mapping[str, Any],
    prepared: Path,
    archives: Path,
    device: torch.device,
    seconds: float,
    records: Path,
) -> str | None:
    """Do one command, or go on with it; `None` where the seconds were too few.

    Of an evaluated model the record is kept, in a study of its own.
    """
    there = (prepared / job["folder"] / MANIFEST).is_file()
    if not there and not _call(job, prepared, archives, device, seconds):
        return None
    if not job["record"]:
        return "made"
    evaluated = prepared / job["folder"]
    run_name, _, seed = job["record"].rpartition("/seed-")
    models = Study(records).read_all()
    models[run_name, int(seed)] = read_results(prepared / job["inputs"]["run"], evaluated, trained=True)
    write_study(records, models)
    found = json.loads((evaluated / "metrics.json").read_text(encoding="utf-8"))["1K"]
    return (
        f"caption R@1 {found['i2t']['r1']:.1f}, image R@1 {found['t2i']['r1']:.1f}, rsum {found['rsum']:.1f}"
    )


def _call(
    job: Mapping[str, Any], prepared: Path, archives: Path, device: torch.device, seconds: float
) -> bool:
    """Call a step of the package in its own process; gives whether it ended, or was stopped for lack of time.

    Raises
    ------
    VseppError
        If it fails, with its last lines.
    """
    command = [
        sys.executable,
        "-m",
        "vsepp.cli",
        "make",
        job["kind"],
        "--spec",
        json.dumps(job["spec"]),
        "--output",
        job["folder"],
    ]
    command += [f"--{role.replace('_', '-')}={path}" for role, path in job["inputs"].items()]
    if job["raw"]:
        command += ["--raw", *(f"{role}={archives.absolute() / name}" for role, name in job["raw"].items())]
    if job["kind"] in _ON_DEVICE:
        command += ["--device", device.type, "--threads", str(torch.get_num_threads())]
    if job["kind"] == "store":
        command += ["--threads", str(os.cpu_count() or 1)]
    try:
        checks.call(command, seconds, cwd=prepared)
    except subprocess.TimeoutExpired:
        return False
    return True


def gate(prepared: Path) -> list[str]:
    """Whether recalls in bf16 lie within the spread over three seeds of those in fp32: the mean within a standard deviation."""
    found: dict[str, list[dict[str, float]]] = {}
    for job in prepared_in(prepared)["jobs"]:
        path = prepared / job["folder"] / "metrics.json"
        if job["record"] and path.is_file():
            scores = json.loads(path.read_text(encoding="utf-8"))["1K"]
            told = {
                "caption R@1": scores["i2t"]["r1"],
                "image R@1": scores["t2i"]["r1"],
                "rsum": scores["rsum"],
            }
            found.setdefault(job["record"].rpartition("/")[0], []).append(told)
    lines = []
    for names in GATE:
        fp32, bf16 = (found.get(name, []) for name in names)
        if min(len(fp32), len(bf16)) < len(_SEEDS):
            continue
        for metric in fp32[0]:
            ours, others = ([scores[metric] for scores in side] for side in (fp32, bf16))
            within = abs(mean(others) - mean(ours)) <= stdev(ours)
            lines.append(
                f"{names[0]}, {metric}: {mean(ours):.1f} ± {stdev(ours):.1f} in fp32, {mean(others):.1f} ± {stdev(others):.1f} in "
                f"bf16, {'within' if within else 'NOT within'} the spread of {len(fp32)} seeds"
            )
    return lines
