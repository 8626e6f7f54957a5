"""Time what the package does, case by case, with `torch.utils.benchmark`.

    python benchmarks/measure.py --list
    python benchmarks/measure.py --only 'step-1c*' 'rank*' --append benchmarks/results.csv
    python benchmarks/measure.py --only '*vgg19*' --device cuda
    python benchmarks/measure.py --only 'tape*' --checkout ../before     # another checkout, case by case beside this one

A case is `what/variant/precision`. It needs the package, torch, torchvision and Pillow, and no data: artefacts have
random content and real shapes. What the columns of the table mean stands in README.md.
"""

from __future__ import annotations

import argparse
import csv
import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path
from typing import Any

import timed
import torch
from timed import Case
from torch.utils import benchmark

from vsepp.provenance.manifest import processor
from vsepp.runtime.machine import use_cpu
from vsepp.runtime.progress import bytes_text
from vsepp.spec import (
    Component,
    CropSpec,
    EncoderSpec,
    ModelSpec,
    RunSpec,
    ScheduleSpec,
    StoreSpec,
    VocabularySpec,
)

# Of a network that is trained on a CPU, where a step of 128 would take minutes.
BATCH_ON_CPU = 16
FULL = (
    ("lite/efficientnet_lite0", 224, 256, 1280),
    ("lite/efficientnet_lite2", 260, 297, 1280),
    ("torchvision/resnet152", 224, 256, 2048),
    ("torchvision/vit_b_16", 224, 256, 768),
    ("torchvision/vgg19", 224, 256, 4096),
)
"""Networks of full size: pixels of their crops and of the images, D_φ."""
PRECISIONS = {"cpu": ("fp32", "bf16"), "cuda": ("fp32", "tf32", "bf16")}
SHARING = {"cpu": (1, 2), "cuda": (1, 2, 4)}
"""Trainings at once, by kind of device."""
SHARED_IN = {"cpu": "fp32", "cuda": "bf16"}
WAYS: dict[str, list[dict[str, Any]]] = {
    "cpu": [{"memory_format": "contiguous"}],
    "cuda": [
        {"precision": "bf16", "memory_format": "contiguous"},
        {"precision": "bf16", "compile": "default"},
    ],
}
"""How else than by default an encoder is run, by kind of device."""


def base_run(architecture: str, size: int, side: int, word_dim: int, dim: int, batch: int = 128) -> RunSpec:
    """VSE++ on 1C; the other kinds of runs are made from it."""
    encoder = EncoderSpec(
        name=architecture.rpartition("/")[2],
        architecture=architecture,
        weights="random",
        input_size=size,
        store_side=side,
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
    )
    return RunSpec(
        id="benchmark",
        system="VSE++",
        dataset="coco",
        trainset="1C",
        restval=False,
        encoder=encoder,
        finetune_from=None,
        train_store=StoreSpec("squash", side),
        eval_store=StoreSpec("squash", side),
        crop=CropSpec("1C", size),
        vocabulary=VocabularySpec(("train",), 4),
        validation_images=None,
        model=ModelSpec(
            text=Component("gru", {"word_dim": word_dim, "dim": dim}),
            joint_dim=dim,
            caption_projection=False,
            image_bias=True,
            normalise_features=True,
            normalise_images=True,
            absolute=False,
            similarity=Component("dot"),
        ),
        loss=Component("max_of_hinges"),
        schedule=ScheduleSpec(batch, 30, 2e-4, 0.5, 0.1, 2.0),
        encoder_mode="eval",
        legacy_steps=500,
        rc_features="tape",
        init_seed=0,
        order_seed=0,
        draw=0,
    )


def cases(device: str, tiny: bool) -> dict[str, Case]:
    """All cases by name; `tiny` ones do the same with sizes that take no time and say nothing."""
    if tiny:
        run, sizes = base_run("mini/vgg_mini", 24, 28, 6, 8, 8), {"images": 16, "photograph": (40, 32)}
        found = [*heads(run, 12, device, **sizes), *encoders(run, 12, device, **sizes), store(run, **sizes)]
        found += [*rankings(run, 50, device), *sharing(run, 12, device, **sizes), start_of_plan(run, "mini")]
        return {case.name: case for case in found}
    mini, sizes = base_run("mini/vgg_mini", 40, 46, 64, 128), {"images": 1280, "photograph": (56, 56)}
    found = [*heads(mini, 128, device, **sizes), *encoders(mini, 128, device, **sizes), store(mini, **sizes)]
    found += encoders(base_run("mini/resnet_mini", 40, 46, 64, 128), 128, device, **sizes)
    found += [*rankings(mini, 2000, device), *sharing(mini, 128, device, **sizes)]
    for architecture, size, side, dim in FULL:
        run = base_run(architecture, size, side, 300, 1024)
        trained = run if device != "cpu" else base_run(architecture, size, side, 300, 1024, BATCH_ON_CPU)
        found += [
            *heads(run, dim, device),
            *encoders(trained, dim, device, images=320),
            store(run, images=160),
        ]
    found += [
        *rankings(run, 5000, device),
        *sharing(run, 4096, device),
        start_of_plan(run, "paper"),
        dry_run(run),
    ]
    return {case.name: case for case in found}


def heads(run: RunSpec, dim: int, device: str, **sizes: Any) -> Iterator[Case]:
    """Steps that read features of fixed crops, beside the reference step; and captions embedded."""
    variant = f"{dim}/{run.model.joint_dim}"
    order = replace(run, model=replace(run.model, similarity=Component("order"), absolute=True))
    many = replace(run, schedule=replace(run.schedule, negative_set=4 * run.schedule.batch_size))
    padded = partial(timed.step, packed=False)
    reference, own = ("reference-1c", variant), ("head", variant)
    yield Case(*reference, "pairs/s", timed.reference_epoch, run, dim, **sizes)
    for precision in PRECISIONS[device]:
        for what, make, spec, beside in (
            ("head", timed.head, run, ()),
            ("step-1c", timed.step, run, (own, reference)),
            ("step-1c-padded", padded, run, (reference,)),
            ("step-order", timed.step, order, ()),
            ("step-negatives", timed.step, many, ()),
        ):
            spec = replace(spec, precision=precision)
            yield Case(what, variant, "pairs/s", make, spec, dim, beside=beside, **sizes)
    yield Case("encode", variant, "captions/s", timed.encode, run, dim, **sizes)
    yield Case("encode-order", variant, "captions/s", timed.encode, order, dim, **sizes)


def encoders(run: RunSpec, dim: int, device: str, **sizes: Any) -> Iterator[Case]:
    """An encoder's own passes, and the tape, inline and fine-tuning steps that cannot be faster than these."""
    crops = replace(run, trainset="RC", crop=replace(run.crop, kind="RC"))
    tuned = replace(crops, finetune_from="benchmark")
    net = run.encoder.variant
    head = ("head", f"{dim}/{run.model.joint_dim}")
    yield Case("reference-rc", net, "pairs/s", timed.reference_epoch, crops, **sizes)
    yield Case("reference-finetuned", net, "pairs/s", timed.reference_epoch, tuned, **sizes)
    for way in [*({"precision": precision} for precision in PRECISIONS[device]), *WAYS[device]]:
        precision = way.get("precision", "fp32")
        frozen, trained = (
            replace(each, encoder=replace(run.encoder, **way), precision=precision) for each in (crops, tuned)
        )
        inline = replace(frozen, rc_features="inline")
        variant = frozen.encoder.variant
        for what, make, spec, beside in (
            ("forward", timed.forward, inline, ()),
            ("tape", timed.tape, inline, ("forward",)),
            ("step-rc-inline", timed.step, inline, ("forward",)),
            ("step-rc-tape", timed.step, frozen, ("reference-rc",)),
            ("forward-backward", timed.forward_backward, trained, ()),
            ("step-finetuned", timed.step, trained, ("forward-backward", "reference-finetuned")),
        ):
            if variant == net or not what.startswith("step-rc"):
                others = [*([head] if what == "step-rc-tape" else []), *((name, variant) for name in beside)]
                unit = "pairs/s" if what.startswith("step") else "images/s"
                yield Case(what, variant, unit, make, spec, beside=tuple(others), **sizes)


def rankings(run: RunSpec, images: int, device: str) -> Iterator[Case]:
    """Ranks by an argsort a query, and by counting, both similarities."""
    order = replace(run, model=replace(run.model, similarity=Component("order")))
    there = [("rank-device-dot", timed.rank, run, images)] if device == "cuda" else []
    for what, make, spec, count in (
        ("argsort", timed.argsort, run, images),
        ("rank-dot", timed.rank, run, images),
        ("rank-order", timed.rank, order, images // 5),
        *there,
    ):
        note, dim = f"{count} images × {5 * count} captions", str(run.model.joint_dim)
        beside = (("argsort", dim),) if what.endswith("dot") else ()
        yield Case(what, dim, "scores/s", make, spec, images=count, beside=beside, note=note)


def sharing(run: RunSpec, dim: int, device: str, **sizes: Any) -> Iterator[Case]:
    """Trainings that share the machine, all together: what `resources.runs_per_gpu` is chosen by."""
    variant, run = f"{dim}/{run.model.joint_dim}", replace(run, precision=SHARED_IN[device])
    for count in SHARING[device]:
        make, beside = partial(timed.share, processes=count), (("sharing-1", variant),) if count > 1 else ()
        yield Case(f"sharing-{count}", variant, "pairs/s", make, run, dim, beside=beside, **sizes)


def store(run: RunSpec, **sizes: Any) -> Case:
    """Photographs decoded, resized and written."""
    return Case("store", str(run.train_store.side), "images/s", timed.store, run, note="one core", **sizes)


def start_of_plan(run: RunSpec, preset: str) -> Case:
    arguments = ["-m", "vsepp.cli", "plan", "--preset", preset]
    return Case("start", f"plan {preset}", "s", partial(timed.command, arguments=arguments), run)


def dry_run(run: RunSpec) -> Case:
    """A look at all jobs of the default preset, in the checkout as it is."""
    arguments = ["-m", "snakemake", "--dry-run", "reproduce_tables"]
    return Case("start", "dry-run", "s", partial(timed.command, arguments=arguments), run)


def measure(case: Case, device: torch.device, threads: int, seconds: float) -> benchmark.Measurement:
    """Time a case: seconds an item."""
    forget_earlier(device)
    with tempfile.TemporaryDirectory(prefix="vsepp-measure-") as folder, ExitStack() as stack:
        call, items = case.make(case, Path(folder), device, stack)
        if device.type == "cuda":  # compiles, chooses algorithms
            for _ in range(3):
                call()
        timer = benchmark.Timer(
            "call()",
            globals={"call": call},
            num_threads=threads,
            label=case.unit.partition("/")[0],
            sub_label=f"{case.what}/{case.variant}",
            description=case.precision,
        )
        taken = timer.blocked_autorange(min_run_time=seconds)
    taken.raw_times = [time / items for time in taken.raw_times]
    return taken


def forget_earlier(device: torch.device) -> None:
    """Free what earlier cases compiled and cached: the compiler stops at eight of a kind, and runs others without it."""
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def row_of(
    case: Case, taken: benchmark.Measurement, device: torch.device, earlier: list[dict]
) -> dict[str, Any]:
    """A line of the table, with the ratio to the case that this one stands beside if that was timed before."""
    figures = {"median": taken.median, "low": min(taken.times), "high": max(taken.times)}
    if case.unit != "s":  # the slowest run is the lowest rate
        figures = {"median": 1 / figures["median"], "low": 1 / figures["high"], "high": 1 / figures["low"]}
    figures = {name: float(f"{value:.4g}") for name, value in figures.items()}
    ratios = {
        other["what"]: f"{figures['median'] / other['median']:.2f} × {other['what']} {other['precision']}"
        for other in earlier
        if (other["what"], other["variant"]) in case.beside and other["precision"] in (case.precision, "fp32")
    }
    notes = [case.note] if case.note else []
    if device.type == "cuda" and not case.what.startswith(
        "sharing"
    ):  # whose processes have memory of their own
        notes.append(f"{bytes_text(torch.cuda.max_memory_allocated(device))} of its memory")
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(),
        "machine": f"{processor()}, {os.cpu_count()} cores",
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "threads": taken.task_spec.num_threads,
        "what": case.what,
        "variant": case.variant,
        "precision": case.precision,
        "unit": case.unit,
        **figures,
        "runs": len(taken.times),
        "note": "; ".join([*notes, *ratios.values()]),
    }


@cache  # before the first row is appended: the table is a file of the commit
def commit() -> str:
    command = ["git", "-C", str(timed.ROOT), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except OSError:  # there is no git
        return ""


def append(row: dict[str, Any], path: Path) -> None:
    """Add a row to a table, which is begun where there is none."""
    new = not path.exists()
    with path.open("a", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(row), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(row)


def measure_in(checkout: Path, case: Case, given: argparse.Namespace) -> None:
    """Time a case of another checkout, by this script and with the environment of this one."""
    command = [sys.executable, __file__, "--only", case.name, "--device", given.device]
    command += [
        f"--threads={given.threads}",
        f"--seconds={given.seconds}",
        *(["--tiny"] if given.tiny else []),
    ]
    command += ["--append", str(given.append.resolve())] if given.append else []
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(checkout.resolve())})


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--only", nargs="+", default=["*"], metavar="CASE", help="names or patterns: 'step*'")
    made.add_argument("--list", action="store_true", help="print the names of the cases and time nothing")
    made.add_argument("--tiny", action="store_true", help="sizes that take no time and say nothing")
    made.add_argument("--device", default="cpu", help="cpu, or cuda")
    made.add_argument("--threads", type=int, default=torch.get_num_threads())
    made.add_argument("--seconds", type=float, default=5.0, help="for each case at least, set-up apart")
    made.add_argument("--append", type=Path, metavar="CSV", help="add the figures to this table")
    made.add_argument("--checkout", type=Path, metavar="FOLDER", help="time each case of this checkout too")
    return made


def main(arguments: list[str] | None = None) -> int:
    """Time the chosen cases; 1 where one of them failed, which costs only its own figures."""
    given = parser().parse_args(arguments)
    device, rows, taken = torch.device(given.device), [], []
    found = cases(device.type, given.tiny)
    chosen = [case for name, case in found.items() if any(fnmatchcase(name, only) for only in given.only)]
    if given.list or not chosen:
        print("\n".join(found))
        return 0 if given.list else 2
    use_cpu(given.threads)  # as the package's steps do
    for case in chosen:
        try:
            taken.append(measure(case, device, given.threads, given.seconds))
            rows.append(row := row_of(case, taken[-1], device, rows))
            figures = "{median:,g} {unit} ({low:,g} to {high:,g}, {runs} runs) {note}".format(**row)
            print(f"{row['commit']} {case.name}: {figures}", flush=True)
            if given.append:
                append(row, given.append)
            if given.checkout:
                measure_in(given.checkout, case, given)
        except Exception as error:  # others may fit into memory, or be there
            print(f"{case.name}: {type(error).__name__}: {error}", file=sys.stderr)
    if len(taken) > 1:
        benchmark.Compare(taken).print()
    return int(len(rows) < len(chosen))


if __name__ == "__main__":
    sys.exit(main())
