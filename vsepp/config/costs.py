"""What a plan costs: files, bytes, and hours at measured rates.

An unknown number is `None`, never a guess.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from vsepp.config.plan import Plan, SourceFile
from vsepp.errors import VseppError
from vsepp.provenance.artefacts import Artefact, Work
from vsepp.spec import CorpusSpec
from vsepp.steps import STEPS
from vsepp.steps.sizes import captions_of, images_of, product, steps_of

Rates = Mapping[tuple[str, str, str], float]
"""Items per second by what, variant and precision, as `benchmarks/measure.py` names them."""


class Cost(NamedTuple):
    """Size and work of an artefact."""

    artefact: Artefact
    label: str
    """Name, without digests, of an artefact that runs share: `coco vgg RC`; else empty."""
    size: int | None
    """Bytes."""
    work: Sequence[Work]
    """Work of making it, without small steps: validations, evaluations, tables."""
    corpus: CorpusSpec | None
    """Corpus that it belongs to, if any."""


def report(plan: Plan, rates: Rates, recorded: Mapping[str, Any], free: int) -> dict[str, Any]:
    """The costs of a plan, unrounded.

    Parameters
    ----------
    plan
        The plan.
    rates
        Rates of the device for which hours are given.
    recorded
        Files whose checksums were recorded at their first download.
    free
        Bytes free in the working folder.
    """
    costs = costs_of(plan)
    read = {path for cost in costs for path in cost.artefact.raw.values()}
    files = [file for file in plan.files.values() if file.path in read]
    weights = {cost.artefact.spec.weights for cost in costs if cost.artefact.kind == "encoder"}
    kinds: dict[str, dict[str, list[Cost]]] = {}
    for cost in costs:
        kinds.setdefault(cost.artefact.kind, {}).setdefault(cost.label, []).append(cost)
    return {
        "preset": plan.preset,
        "variant": plan.variant,
        "seeds": plan.seeds,
        "files": [_file(file, recorded) for file in files],
        "from_torchvision": sorted(name for name in weights if name.startswith("torchvision/")),
        "artefacts": [
            _made(kind, label, alike, rates)
            for kind, labels in kinds.items()
            for label, alike in labels.items()
        ],
        "hours": hours_of(costs, rates),
        "disk": _disk(plan, costs, files, free),
        "runs": [
            name
            for name, model in plan.models.items()
            if model.specs.keys() - model.recorded and model.trained
        ],
    }


def costs_of(plan: Plan, pairs: int | None = None) -> list[Cost]:
    """Costs of all artefacts that the chosen models of a plan need, each once, in the order of making; see `counted` for `pairs`."""
    costs = []
    for artefact in needed_artefacts(plan):
        corpora = (other for other in (artefact, *plan.behind(artefact)) if other.kind == "corpus")
        corpus = next(corpora, None)
        spec, step = artefact.spec, artefact.step
        data = corpus.spec if corpus else None
        if data and pairs is not None:
            each = data.captions_per_image or 1
            images = {**data.expected_images, "train": -(-pairs // each)}
            data = replace(data, expected_images=images, captions_per_image=each, first_images={})
        label = ""
        if corpus and step.label:
            label = f"{corpus.name.rpartition('-')[0]} {step.label(spec)}".strip()
        costs.append(Cost(artefact, label, step.size(spec, data), step.work(spec, data), data))
    return costs


def counted(plan: Plan, pairs: int, items: int = 200_000, jobs: int = 10) -> dict[str, int | None]:
    """What a plan would need if the split `train` of each corpus had `pairs` pairs, other splits as they are: counted, never measured.

    A file of an artefact in shards has at most `items` rows; at most `jobs` jobs share the making of one artefact. An image has one
    caption where its data set does not say how many; `first_images` are not heeded.
    """
    files = parts = steps = held = flops = 0
    sizes: dict[str, int | None] = {}
    for artefact, _, size, _, corpus in costs_of(plan, pairs):
        kind, spec, title = artefact.kind, artefact.spec, f"bytes of {artefact.step.title}"
        rows, each = _rows_in_shards(artefact, corpus)
        shards = max(math.ceil((rows or 0) / items), 1)
        # With its manifest.
        files += 1 + max(len(artefact.step.files), each) + (shards - 1) * each
        # One job writes both tables.
        parts += 1 if kind == "corpus" else min(shards, jobs)
        before = sizes.get(title, 0)
        sizes[title] = None if before is None or size is None else before + size
        if kind == "run":
            count = captions_of(corpus, spec.train_splits) or 0
            steps += (steps_of(spec, count) or 0) * spec.schedule.epochs
            # Its row, its image's, its caption's id and a pointer to its split; its place in a permutation.
            held = max(held, (32 + 8 * (spec.schedule.order == "permutation")) * count)
            flops = max(flops, product(2, captions_of(corpus), images_of(corpus), spec.model.joint_dim) or 0)
    return {
        "pairs": pairs,
        "files": files,
        "jobs": parts,
        "steps of all trainings": steps,
        "memory of a training beside its model": held,
        "flops to rank all images for all captions": flops,
        "bytes in all, where known": sum(filter(None, sizes.values())),
        **{title: size for title, size in sizes.items() if size != 0},
    }


def _rows_in_shards(artefact: Artefact, corpus: CorpusSpec | None) -> tuple[int | None, int]:
    """Rows of an artefact in shards, and number of files of a shard."""
    kind, spec = artefact.kind, artefact.spec
    if kind == "corpus":
        return captions_of(corpus), 2  # a table of images has fewer
    if kind == "tokens":
        return captions_of(corpus), 2  # ids and lengths
    if kind == "store":
        return images_of(corpus), 2  # pixels and sizes
    if kind == "features":
        return images_of(corpus), 1
    if kind == "tape":
        return captions_of(corpus, spec.splits), spec.epochs + 1  # one file names the captions
    if kind == "evaluation":
        return captions_of(corpus, [spec.split]), 1  # there are fewer images
    return 0, 1


def needed_artefacts(plan: Plan, ends: Iterable[Artefact] = ()) -> list[Artefact]:
    """`ends`, by default the evaluations of all chosen models, and all artefacts that they are made from."""
    needed: set[Artefact] = set()
    for end in ends or plan.of_kind("evaluation").values():
        needed |= {end, *plan.behind(end)}
    return [artefact for artefact in plan.table.values() if artefact in needed]


def _file(file: SourceFile, recorded: Mapping[str, Any]) -> dict[str, Any]:
    """A raw file, where it is or comes from, and whether its checksum is known."""
    spec, state = file.spec, "by hand"
    if file.own or file.path.exists():
        state = f"yours, {file.path}" if file.own else "already there"
    elif spec.mirrors:
        state = f"to fetch from {urlsplit(spec.mirrors[0]).hostname}"
    return {
        "name": spec.file,
        "size": file.path.stat().st_size if file.path.is_file() else spec.size,
        "state": state,
        "sha256": "known" if spec.sha256 else "recorded before" if spec.file in recorded else None,
        "instructions": spec.instructions if state == "by hand" else "",
    }


def _made(kind: str, label: str, alike: Sequence[Cost], rates: Rates) -> dict[str, Any]:
    """A line on what is made: an artefact that runs share, or the number of artefacts of another kind."""
    return {
        "kind": kind,
        "title": STEPS[kind].title,
        "name": label,
        "items": len(alike),
        "images": alike[0].work[0].amount if label and alike[0].work else None,
        "bytes": sum(cost.size or 0 for cost in alike),
        "unknown": any(cost.size is None for cost in alike),
        "hours": hours_of(alike, rates),
    }


def hours_of(costs: Iterable[Cost], rates: Rates) -> dict[str, Any]:
    """Hours of some work at measured rates, and what is unknown: rates, or a number of images."""
    seconds, missing = 0.0, []
    for what, variant, precision, amount in (work for cost in costs for work in cost.work):
        rate = rates.get((what, variant, precision))
        if amount is None:
            missing.append("the number of images")
        elif not rate:
            missing.append(f"{what} {variant} {precision}")
        else:
            seconds += amount / rate
    return {"hours": seconds / 3600, "missing": list(dict.fromkeys(missing))}


def _disk(plan: Plan, costs: Sequence[Cost], files: Sequence[SourceFile], free: int) -> dict[str, Any]:
    """Bytes kept at the end, largest number of bytes at any time, and bytes still to be written."""
    tapes = [cost.size or 0 for cost in costs if cost.artefact.kind == "tape"]
    keep = plan.parameters.preset.resources.keep_tapes
    takes = [(cost.artefact.folder, cost.size) for cost in costs]
    takes += [(file.path, file.spec.size) for file in files if not file.own]
    lasting = sum(size or 0 for _, size in takes) - sum(tapes)
    peak = lasting + (sum(tapes) if keep else max(tapes, default=0))
    return {
        "lasting": lasting,
        "tapes": sum(tapes),
        "keep_tapes": keep,
        "peak": peak,
        "to_write": max(peak - sum(_bytes_there(path, size) for path, size in takes), 0),
        "free": free,
    }


def _bytes_there(path: Path, size: int | None) -> int:
    """Bytes of a file or folder that exist already, at most its expected size."""
    files = [path] if path.is_file() else path.rglob("*")
    there = sum(file.stat().st_size for file in files if file.is_file())
    return there if size is None else min(there, size)


def read_rates(path: Path) -> dict[str, dict[tuple[str, str, str], float]]:
    """Rates that `benchmarks/measure.py` recorded, by `device, machine`; of repeated measurements the newest counts.

    Raises
    ------
    VseppError
        If the file is not such a table, naming the row.
    """
    found: dict[str, dict[tuple[str, str, str], float]] = {}
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    for number, row in sorted(enumerate(rows, start=2), key=lambda item: item[1].get("date") or ""):
        try:
            key, value = (row["what"], row["variant"], row["precision"]), float(row["median"])
            if row["unit"].endswith("/s"):
                found.setdefault(f"{row['device']}, {row['machine']}", {})[key] = value
        except (KeyError, TypeError, ValueError) as error:
            raise VseppError(
                f"{path}, line {number}: not a row of the benchmarks ({error}); expected a file that benchmarks/measure.py wrote"
            ) from error
    return found
