"""The report as a dictionary: everything that it says, unrounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from vsepp.config.plan import Plan, SourceFile
from vsepp.costs.counts import training_pairs
from vsepp.costs.devices import Column
from vsepp.costs.disk import Item, checkpoints_at_once, disk_items, files_read, tape_bytes
from vsepp.costs.rates import Network
from vsepp.costs.schedule import NO_COUNT, Time, longest_chain, time_of, wall_seconds
from vsepp.costs.work import PHASES, Job, jobs_of, readers, short_names
from vsepp.training.batches import steps_per_epoch

_ITEMS = {
    "images_per_s_per_core": "images decoded",
    "forward_images_per_s": "images through a frozen encoder",
    "train_pairs_per_s": "pairs with the encoder trained",
    "pairs_per_s": "pairs on features",
}


def describe(
    plan: Plan,
    known: Mapping[str, Network],
    columns: Sequence[Column],
    recorded: Mapping[str, Any],
    free: int,
) -> dict[str, Any]:
    """Everything that the report says, unrounded.

    Parameters
    ----------
    plan
        The plan.
    known
        Sizes of the encoders.
    columns
        Devices whose hours are given.
    recorded
        Files whose sums were recorded at their first download.
    free
        Bytes free in the working folder.
    """
    jobs = jobs_of(plan, known)
    return {
        "preset": plan.preset,
        "variant": plan.variant,
        "seeds": plan.seeds,
        "runs_selected": len(plan.runs),
        "generated": plan.scenes is not None,
        "devices": [{"title": c.title, "note": c.note, "devices": c.devices, "gpu": c.gpu} for c in columns],
        "files": [_file_entry(name, file, recorded) for name, file in files_read(plan).items()],
        "elsewhere": sorted(
            f"{spec.name} ({spec.weights})"
            for spec in plan.encoders.values()
            if spec.weights.startswith("torchvision/")
        ),
        "disk": _disk(plan, jobs, known, max(column.devices for column in columns), free),
        "runs": _runs(plan, jobs, columns),
        "passes": _passes(plan, jobs, columns),
        "totals": totals(plan, jobs, columns),
    }


def _file_entry(name: str, file: SourceFile, recorded: Mapping[str, Any]) -> dict[str, Any]:
    spec = file.spec
    there = file.own or file.path.exists()
    host = urlsplit(spec.mirrors[0]).hostname if spec.mirrors else None
    size = file.path.stat().st_size if there and file.path.is_file() else spec.size
    kind = "folder" if there and file.path.is_dir() else "file"
    state = "own folder" if file.own else "already there" if there else "to fetch" if host else "by hand"
    known = "known" if spec.sha256 else "recorded before" if name in recorded else None
    return {
        "name": name,
        "state": state,
        "path": str(file.path),
        "host": host,
        "kind": kind,
        "size": None if kind == "folder" else size,
        "sha256": known,
        "instructions": spec.instructions,
    }


def _disk(
    plan: Plan, jobs: Mapping[str, Job], known: Mapping[str, Network], trainings: int, free: int
) -> dict[str, Any]:
    items = disk_items(plan, jobs, known)
    kinds: dict[str, dict[str, Any]] = {}
    for item in items:
        kind = kinds.setdefault(item.kind, {"bytes": 0, "items": 0, "unknown": [], "present": 0})
        kind["bytes"] += item.size or 0
        kind["items"] += 1
        kind["unknown"] += [item.name] if item.size is None else []
        kind["present"] += _bytes_there(item)
    largest, together = tape_bytes(items)
    keep = plan.parameters.preset.resources.keep_tapes
    checkpoints = checkpoints_at_once(plan, trainings, known)
    lasting = sum(kind["bytes"] for name, kind in kinds.items() if name != "tapes")
    peak = lasting + (together if keep else largest) + checkpoints
    present = sum(kind["present"] for kind in kinds.values())
    return {
        "kinds": kinds,
        "checkpoints": checkpoints,
        "trainings_at_once": trainings,
        "keep_tapes": keep,
        "tapes_largest": largest,
        "tapes_together": together,
        "lasting": lasting,
        "peak": peak,
        "peak_all_tapes": lasting + together + checkpoints,
        "present": present,
        "to_write": max(peak - present, 0),
        "free": free,
        "folder": str(Path.cwd()),
    }


def _bytes_there(item: Item) -> int:
    """Bytes of an artefact that is there already, at most what it is said to take."""
    files = [item.path] if item.path.is_file() else item.path.rglob("*")
    there = sum(file.stat().st_size for file in files if file.is_file())
    return there if item.size is None else min(there, item.size)


def _hours(time: Time) -> dict[str, Any]:
    """Hours, as far as they are known: without rates that are `missing`, and where images are `uncounted`."""
    missing = sorted(time.missing - {NO_COUNT})
    return {"hours": time.seconds / 3600, "missing": missing, "uncounted": NO_COUNT in time.missing}


def _runs(plan: Plan, jobs: Mapping[str, Job], columns: Sequence[Column]) -> list[dict[str, Any]]:
    short, seed, found = short_names(plan, jobs), plan.seeds[0], []
    for name, run in plan.runs.items():
        spec, pairs = run.spec, training_pairs(plan, run)
        steps = None if pairs is None else steps_per_epoch(pairs, spec.schedule.batch_size)
        work = next(
            j for j in jobs.values() if j.phase == "training" and (j.what, j.seed) == (name, seed)
        ).work
        shared = run.tape or run.features
        found.append(
            {
                "id": name,
                "pairs": pairs,
                "steps_per_epoch": steps,
                "epochs": spec.schedule.epochs,
                "steps": None if steps is None else steps * spec.schedule.epochs,
                "forward": [_hours(time_of(work, c.rates, ["forward"])) for c in columns],
                "training": [_hours(time_of(work, c.rates, ["training", "validation"])) for c in columns],
                "shares": short[shared] if shared else None,
                "with": [other for other in readers(plan, shared) if other != name] if shared else [],
                "from": spec.finetune_from,
            }
        )
    return found


def _passes(plan: Plan, jobs: Mapping[str, Job], columns: Sequence[Column]) -> list[dict[str, Any]]:
    short = short_names(plan, jobs)
    return [
        {
            "name": short[name],
            "artefact": name,
            "phase": job.phase,
            "images": job.work[0].amount,
            "hours": [_hours(time_of(job.work, column.rates)) for column in columns],
            "read_by": readers(plan, name),
            "for": [
                short[other] for other, reader in jobs.items() if name in reader.needs and other in short
            ],
        }
        for name, job in jobs.items()
        if job.seed is None
    ]


def totals(plan: Plan, jobs: Mapping[str, Job], columns: Sequence[Column]) -> dict[str, Any]:
    """Hours of each phase on each device, and the longest chains of jobs."""

    def amounts(phase: str, seed: int | None) -> dict[str, Any]:
        """Items and hours of a phase, of one seed where it has seeds."""
        chosen = [
            job for job in jobs.values() if job.phase == phase and (seed is None or job.seed in (None, seed))
        ]
        work = [item for job in chosen for item in job.work]
        sums: dict[str, int] = {}
        for item in work:
            what = _ITEMS.get(item.rate)
            if what and item.amount is not None:
                sums[what] = sums.get(what, 0) + item.amount
        return {
            "jobs": len(chosen),
            "items": sums,
            "hours": [_hours(time_of(work, c.rates)) for c in columns],
        }

    first, short, chains = plan.seeds[0], short_names(plan, jobs), []
    for column in columns:
        seconds = {name: time_of(job.work, column.rates).seconds for name, job in jobs.items()}
        length, chain = longest_chain(jobs, seconds)
        wall = wall_seconds(jobs, seconds, column.devices, cores_apart=column.gpu)
        chains.append(
            {
                "chain_hours": length / 3600,
                "chain": [short.get(name, name) for name in chain],
                "wall_hours": wall / 3600,
            }
        )
    trainings = [plan.runs[job.what].spec for job in jobs.values() if job.phase == "training"]
    return {
        "one_seed": {phase: amounts(phase, first) for phase in PHASES},
        "all_seeds": {phase: amounts(phase, None) for phase in PHASES},
        "chains": chains,
        "frozen_trainings": sum(not spec.finetuned for spec in trainings),
        "finetunings": sum(spec.finetuned for spec in trainings),
    }
