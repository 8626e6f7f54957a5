"""First light on a new machine: is everything right there, how fast is it, how is it set, and the runs that wait for a GPU.

    python benchmarks/first_light.py --minutes 9                          # then the same again: it goes on where it was
    python benchmarks/first_light.py --minutes 3 --device cpu --tiny      # all of it in small, to see whether it works

Fine-tuning on Flickr8k needs word ids, tables and specs, which are made elsewhere, with the whole package installed:

    python benchmarks/first_light.py --prepare prepared --data FOLDER     # of Flickr8k_Dataset.zip and Flickr8k_text.zip
    python benchmarks/first_light.py --minutes 9 --data FOLDER --prepared prepared

It needs torch, torchvision, numpy, pandas, pyarrow, safetensors, Pillow and pydantic (which benchmarks/carried.py brings),
`PYTHONPATH=.` where the package is not installed, efficientnet-lite-pytorch for the runs on Flickr8k, no network and nothing of the workflow. It writes `first-light.json` with all
that it found, `first-light.csv` with the rows for benchmarks/results.csv, and `records/` of the models that it trained.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from carried import bring_pydantic

bring_pydantic()

import checks  # noqa: E402
import jobs  # noqa: E402
import measure  # noqa: E402
import torch  # noqa: E402
import tuning  # noqa: E402
from checks import Found  # noqa: E402
from timed import Case  # noqa: E402

from vsepp.errors import VseppError  # noqa: E402
from vsepp.provenance.manifest import processor  # noqa: E402
from vsepp.runtime.files import write_text  # noqa: E402
from vsepp.runtime.machine import use_cpu  # noqa: E402
from vsepp.runtime.memory import is_out_of_memory  # noqa: E402
from vsepp.spec import RunSpec  # noqa: E402

RESULT, TABLE = "first-light.json", "first-light.csv"
DONE, WRONG, SKIPPED, FAILED, STOPPED = "done", "WRONG", "skipped", "failed", "stopped"
ENDED = (DONE, WRONG, SKIPPED)
"""States in which a piece is not done again."""
_ATTEMPTS = 2
"""Of a piece that fails, or that ends the process."""
_SECONDS = 1.5
"""Of each measurement at least, set-up apart."""
MEASURED_FIRST = (
    "reference-1c/4096/*",
    "head/4096/*",
    "step-1c/4096/*",
    "argsort/1024/*",
    "rank-*/1024/*",
    "sharing-?/4096/*",
    "store/256/*",
    "head/2048/*",
    "reference-*/torchvision/vgg19*",
    "reference-*/torchvision/resnet152*",
    "*/torchvision/vgg19@224/bf16",
    "*/torchvision/resnet152@224/bf16",
    "*/torchvision/vgg19@224/fp32",
    "*/torchvision/resnet152@224/fp32",
)
"""Cases of benchmarks/measure.py in the order in which they are worth most."""
MEASURED_LAST = (
    "head/768/*",
    "*/torchvision/vit_b_16@224/*",
    "*/torchvision/*/tf32",
    "*/torchvision/* compile-*",
    "encode/4096/*",
    "step-order/4096/*",
    "step-negatives/4096/*",
    "step-1c/2048/*",
    "*/lite/*",
)
"""Those that come after the runs that wait for a GPU. The others are left out."""


@dataclass
class Context:
    """What the pieces are given, and what came out of them."""

    device: torch.device
    tiny: bool
    out: Path
    data: Path | None
    prepared: Path | None
    ends: float
    """When the call should end, by the monotonic clock."""
    machine: dict[str, Any]
    pieces: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Name → its state, what it says, its figures, the seconds that it took."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    """Of the table."""
    conclusions: list[str] = field(default_factory=list)
    """What follows from all of it so far, in lines."""

    @property
    def left(self) -> float:
        """Seconds."""
        return self.ends - time.monotonic()

    def save(self) -> None:
        """Write both files anew."""
        kept = {
            "machine": self.machine,
            "conclusions": self.conclusions,
            "pieces": self.pieces,
            "rows": self.rows,
        }
        write_text(self.out / RESULT, json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
        table = self.out / TABLE
        table.unlink(missing_ok=True)
        for row in self.rows:
            measure.append(row, table)

    def conclude(self) -> None:
        """How a preset is best set, how far steps are from their limits, what the paper takes, and whether bf16 does."""
        features = "correct/features/"
        right = [
            name.removeprefix(features)
            for name, made in self.pieces.items()
            if name.startswith(features) and made["state"] == DONE
        ]
        prepared = jobs.prepared_in(self.prepared) if self.prepared else None
        self.conclusions = tuning.advice(self.rows, right, prepared)
        if self.prepared:
            self.conclusions += jobs.gate(self.prepared)
        if self.tiny:
            self.conclusions.insert(0, "Tiny sizes: no figure here says anything.")
        self.save()


@dataclass(frozen=True)
class Piece:
    """Something that is done in one go and kept."""

    name: str
    call: Callable[[Context], Found | None]
    seconds: float
    """That it takes about on a GPU: it is not begun where less is left."""
    precision: str = "fp32"


# --- The pieces ----------------------------------------------------------------------------------------------------


def pieces(context: Context) -> list[Piece]:
    """All of them, in their order: what compiling takes comes last."""
    right = [*_correct(context)]
    compiled = [piece for piece in right if "compile-" in piece.name]
    first, last = (["*"], []) if context.tiny else (MEASURED_FIRST, MEASURED_LAST)
    return [
        *(piece for piece in right if piece not in compiled),
        *_measured(context, first),
        *_used(context),
        *compiled,
        *_measured(context, last),
    ]


def _networks(context: Context) -> list[RunSpec]:
    if context.tiny:
        return [measure.base_run("mini/vgg_mini", 24, 28, 6, 8, 8)]
    paper = [network[:3] for network in measure.FULL if network[0].startswith("torchvision/")]
    return [measure.base_run(*network, 300, 1024) for network in reversed(paper)]


def _in_folder(check: Callable[..., Found], *given: Any, **more: Any) -> Callable[[Context], Found]:
    """A check that needs an empty folder."""

    def call(context: Context) -> Found:
        with tempfile.TemporaryDirectory(prefix="vsepp-first-light-") as folder:
            return check(*given, folder=Path(folder), **more)

    return call


def _correct(context: Context) -> Iterator[Piece]:
    device, kind = context.device, context.device.type
    small = measure.base_run("mini/vgg_mini", 24, 28, *((6, 8, 8) if context.tiny else (64, 256, 128)))
    dim, images = (12, 16) if context.tiny else (512, 640)
    for similarity in ("dot", "order"):
        sizes = (50, 8) if context.tiny else (5000, 1024) if similarity == "dot" else (1000, 1024)
        yield Piece(
            f"correct/ranks/{similarity}", lambda _, s=similarity, z=sizes: checks.ranks(s, *z, device), 20
        )
    yield Piece("correct/validation", _in_folder(checks.validation, small, dim, device, images=images), 10)
    for system, changed in checks.SYSTEMS.items():
        run = replace(small, loss=changed["loss"], model=replace(small.model, **changed.get("model", {})))
        for precision in ("fp32", "bf16"):
            step = _in_folder(checks.steps, replace(run, precision=precision), dim, device, images=images)
            yield Piece(f"correct/steps/{system}/{precision}", step, 15, precision)
    for run in _networks(context):
        for way in [*({"precision": name} for name in measure.PRECISIONS[kind]), *measure.WAYS[kind]]:
            spec = replace(_on_crops(run), encoder=replace(run.encoder, **way))
            named = spec.encoder.variant
            yield Piece(
                f"correct/features/{named}/{spec.encoder.precision}",
                lambda _, spec=spec: checks.features(spec, device),
                90 if spec.encoder.compile != "off" else 20,
                spec.encoder.precision,
            )
        for precision in measure.PRECISIONS[kind]:
            spec = replace(_on_crops(run), encoder=replace(run.encoder, precision=precision))
            crops = _in_folder(checks.random_crops, spec, device)
            yield Piece(f"correct/random-crops/{run.encoder.variant}/{precision}", crops, 15, precision)
    trained = replace(small, schedule=replace(small.schedule, epochs=20))
    yield Piece("correct/resume", _in_folder(checks.resumed, trained, dim, device, images=images), 60)
    if kind == "cuda":
        yield Piece("correct/tests", lambda context: checks.marked_tests(min(context.left, 300)), 120)


def _on_crops(run: RunSpec) -> RunSpec:
    return replace(run, trainset="RC", crop=replace(run.crop, kind="RC"), rc_features="inline")


def _measured(context: Context, patterns: Sequence[str]) -> Iterator[Piece]:
    """Cases that match one of some patterns, those of the first pattern first."""
    cases = measure.cases(context.device.type, context.tiny)
    found = [name for pattern in patterns for name in cases if fnmatchcase(name, pattern)]
    for name in dict.fromkeys(found):
        case = cases[name]
        if case.what != "start":
            seconds = 90 if "compile-" in name else 30 if case.what in ("argsort", "store") else 12
            yield Piece(f"measured/{name}", partial(_measure, case), seconds, case.precision)


def _measure(case: Case, context: Context) -> Found:
    taken = measure.measure(
        case, context.device, torch.get_num_threads(), 0.001 if context.tiny else _SECONDS
    )
    context.rows[:] = [
        row for row in context.rows if (row["what"], row["variant"], row["precision"]) != case.key
    ]
    row = measure.row_of(case, taken, context.device, context.rows)
    context.rows.append(row)
    return Found(True, "{median:,g} {unit} ({low:,g} to {high:,g}, {runs} runs) {note}".format(**row))


def _used(context: Context) -> Iterator[Piece]:
    if not context.data or not context.prepared:
        return
    for job in jobs.read(context.prepared):
        precision = "bf16" if "bf16" in json.dumps(job["spec"]) else "fp32"
        yield Piece(f"used/{job['name']}", partial(_run_job, job), 15, precision)


def _run_job(job: dict[str, Any], context: Context) -> Found | None:
    assert context.prepared and context.data
    made = jobs.run(
        job, context.prepared, context.data, context.device, context.left - 3, context.out / "records"
    )
    return None if made is None else Found(True, made)


# --- The call ------------------------------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument(
        "--minutes", type=float, default=9.0, metavar="N", help="that this call may take; 9 by default"
    )
    made.add_argument(
        "--out", type=Path, default=Path("first-light"), metavar="FOLDER", help="of what comes out"
    )
    made.add_argument("--data", type=Path, metavar="FOLDER", help="of Flickr8k's two archives")
    made.add_argument("--prepared", type=Path, metavar="FOLDER", help="what --prepare wrote")
    made.add_argument(
        "--prepare", type=Path, metavar="FOLDER", help="write word ids, tables, encoders and specs, and end"
    )
    made.add_argument("--device", default="cuda", help="cuda (default) or cpu")
    made.add_argument("--tiny", action="store_true", help="sizes that take no time and say nothing")
    made.add_argument(
        "--only", nargs="+", default=["*"], metavar="PIECE", help="names or patterns: 'correct/*'"
    )
    made.add_argument("--again", nargs="+", default=[], metavar="PIECE", help="do these once more")
    made.add_argument("--list", action="store_true", help="print the names of the pieces and do nothing")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what there is time for: 0 if all is done and right, 1 if something is wrong, 2 on bad input, 3 if something is left."""
    given = parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what it started is ended, too
    try:
        if given.prepare:
            jobs.prepare(given.prepare, _archives(given.data) if given.data else None, tiny=given.tiny)
            return 0
        context = _context(given)
        chosen = [
            piece for piece in pieces(context) if any(fnmatchcase(piece.name, only) for only in given.only)
        ]
    except VseppError as error:
        print(f"first_light: {error}", file=sys.stderr)
        return 2
    if given.list:
        print("\n".join(piece.name for piece in chosen))
        return 0
    for piece in chosen:
        if any(fnmatchcase(piece.name, again) for again in given.again):
            context.pieces.pop(piece.name, None)
    for piece in chosen:
        needed = min(piece.seconds, 5) if context.tiny else piece.seconds
        if not _has_ended(piece, context) and context.left > needed:
            _do(piece, context)
    context.conclude()
    print(_summary(chosen, context))
    left = sum(not _has_ended(piece, context) for piece in chosen)
    if left:
        print(f"{left} pieces are left; the same command goes on.")
        return 3
    return int(any(context.pieces[piece.name]["state"] in (WRONG, FAILED) for piece in chosen))


def _has_ended(piece: Piece, context: Context) -> bool:
    made = context.pieces.get(piece.name, {})
    return made.get("state") in ENDED or made.get("attempts", 0) >= _ATTEMPTS


def _context(given: argparse.Namespace) -> Context:
    """What is given and what earlier calls left, checked before anything is done."""
    device = _device(given.device)
    use_cpu(1 if given.tiny else None)
    machine = {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "processor": f"{processor()}, {os.cpu_count()} cores",
        "torch": torch.__version__,
        "tiny": given.tiny,
    }
    if given.data:
        _archives(given.data)
        if not given.prepared:
            raise VseppError(
                "--data needs --prepared, the folder that --prepare wrote where the whole package is installed"
            )
    if given.prepared:
        jobs.prepared_in(given.prepared)
    ends = time.monotonic() + 60 * given.minutes
    context = Context(device, given.tiny, given.out, given.data, given.prepared, ends, machine)
    path = given.out / RESULT
    if path.is_file():
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["machine"] != machine:
            raise VseppError(
                f"{path}: is of {kept['machine']}, this is {machine}; name another folder as --out"
            )
        context.pieces, context.rows = kept["pieces"], kept["rows"]
    given.out.mkdir(parents=True, exist_ok=True)
    return context


def _device(name: str) -> torch.device:
    if name not in ("cpu", "cuda"):
        raise VseppError(f"--device: got {name!r}; expected cpu or cuda")
    advice = "or try the script with --device cpu --tiny"
    if name == "cuda" and not torch.backends.cuda.is_built():
        raise VseppError(
            f"torch {torch.__version__} was built without CUDA; install a build with it, {advice}"
        )
    if name == "cuda" and not torch.cuda.is_available():
        raise VseppError(f"torch finds no GPU; see nvidia-smi and CUDA_VISIBLE_DEVICES, {advice}")
    return torch.device(name, 0) if name == "cuda" else torch.device(name)


def _archives(folder: Path) -> Path:
    if missing := [name for name in jobs.ARCHIVES if not (folder / name).is_file()]:
        raise VseppError(f"--data: {folder}: expected a folder with {' and '.join(missing)}")
    return folder


def _do(piece: Piece, context: Context) -> None:
    """Do a piece and keep what came out."""
    attempts = context.pieces.get(piece.name, {}).get("attempts", 0) + 1
    made = context.pieces[piece.name] = {
        # Kept before it begins, so that one that ends the process is not begun for ever.
        "state": FAILED,
        "said": "ended the process",
        "attempts": attempts,
        "commit": measure.commit(),
    }
    context.save()
    started, fault = time.monotonic(), False
    try:
        if piece.precision == "bf16" and not _has_bf16(context.device):
            made |= {"state": SKIPPED, "said": "this card has no bf16"}
        elif (found := piece.call(context)) is None:
            made |= {"state": STOPPED, "said": "goes on with the next call", "attempts": 0}
        else:
            made |= {"state": DONE if found.right else WRONG, "said": found.said, "figures": found.figures}
    except ModuleNotFoundError as error:
        made |= {"state": SKIPPED, "said": f"{error.name} is not installed"}
    except Exception as error:  # of one piece: the others may be right
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        # A step that found too little memory may find more at another time.
        lacking = (
            isinstance(error.__cause__, ModuleNotFoundError)
            or "could not be compiled" in said
            or (is_out_of_memory(error.__cause__ or error) and not piece.name.startswith("used/"))
        )
        made |= {"state": SKIPPED if lacking else FAILED, "said": said, "more": str(error).splitlines()[1:]}
        fault = "CUDA error" in said
    made["seconds"] = round(time.monotonic() - started, 1)
    if context.device.type == "cuda" and not fault:
        measure.forget_earlier(context.device)  # processes of later pieces need the memory
    context.save()
    print(f"{made['state']:>7}  {piece.name}  {made['said']}  ({made['seconds']} s)", flush=True)
    if fault:  # this process can use the device no more
        words = [sys.executable, *sys.argv, "--minutes", f"{max(context.left, 0) / 60:.2f}"]
        os.execv(sys.executable, words)


def _has_bf16(device: torch.device) -> bool:
    return device.type == "cpu" or torch.cuda.is_bf16_supported(including_emulation=False)


def _summary(chosen: Sequence[Piece], context: Context) -> str:
    """What came out, part by part: how many pieces in which state, and what is not as it should be."""
    lines = [
        "",
        *(
            f"{row['what']:<20}{row['variant']:<44}{row['precision']:<6}{row['median']:>12,g} {row['unit']:<11}{row['note']}"
            for row in context.rows
        ),
        "",
        *(f"{key}: {value}" for key, value in context.machine.items()),
    ]
    parts = dict.fromkeys(piece.name.partition("/")[0] for piece in chosen)
    for part in parts:
        found = [
            (piece.name, context.pieces.get(piece.name, {"state": "left", "said": ""}))
            for piece in chosen
            if piece.name.partition("/")[0] == part
        ]
        states = [made["state"] for _, made in found]
        counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
        lines += ["", f"{part}: {counts}"]
        lines += [
            f"  {made['state']}: {name}: {made['said']}"
            for name, made in found
            if made["state"] in (WRONG, FAILED, SKIPPED)
        ]
    return "\n".join([*lines, "", *context.conclusions])


if __name__ == "__main__":
    sys.exit(main())
