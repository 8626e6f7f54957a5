"""First light on a new machine: is everything right there, how fast is it, how is it set, and the
runs that wait for a GPU.

    python benchmarks/first_light.py --minutes 9

Called again, it goes on where it was. All of it in small, to see whether it works:

    python benchmarks/first_light.py --minutes 3 --device cpu --tiny

Fine-tuning on Flickr8k needs word ids, tables and specs, which are made elsewhere, with the
whole package installed:

    python benchmarks/first_light.py --prepare prepared --data FOLDER
    python benchmarks/first_light.py --minutes 9 --data FOLDER --prepared prepared

FOLDER has Flickr8k_Dataset.zip and Flickr8k_text.zip.

It writes `first-light.json` with all that came out, `first-light.csv` with the rows for
benchmarks/results.csv, and `records/` of the models that it trained. What it needs on the
machine: docs/running.md.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import checks
import made_up
import measure
import study
import torch
from checks import Finding

from vsepp.base.errors import VseppError
from vsepp.base.files import write_text
from vsepp.base.machine import use_cpu
from vsepp.base.provenance import processor

FIRST = (
    "reference-1c/4096/*",
    "step-1c/4096/*",
    "sharing-?/4096/*",
    "store/256/*",
    "*/torchvision/vgg19@224/*",
    "*/torchvision/resnet152@224/*",
)
"""Cases of benchmarks/measure.py, the most useful first."""
LATER = ("step-*/1024/*", "*/torchvision/*", "*/lite/*")
"""Cases that come after the runs that wait for a GPU. All other cases are left out."""


@dataclass(frozen=True)
class Piece:
    """Something that is done in one go and kept."""

    name: str
    do: Callable[[], Finding | None]
    """Returns `None` where the time was too short: the next call goes on with the piece."""
    seconds: float
    """Rough time on a GPU: the piece is not begun where less is left."""


def correct(device: torch.device, tiny: bool) -> Iterator[Piece]:
    """Checks of what is computed."""
    small = made_up.base_run("mini/vgg_mini", 24, 28, *((6, 8, 8) if tiny else (64, 256, 128)))
    dim, images = (12, 16) if tiny else (512, 640)
    for system, changed in checks.SYSTEMS.items():
        model = replace(small.model, **changed["model"])
        for precision in ("fp32", "bf16"):
            run = replace(small, loss=changed["loss"], model=model, precision=precision)
            check = partial(checks.steps, run, dim, images, device)
            yield Piece(f"correct/steps/{system}/{precision}", check, 15)
    networks = [network for network in measure.NETWORKS if network[0].startswith("torchvision/")]
    full = [small] if tiny else [made_up.base_run(*network[:3], 300, 1024) for network in networks]
    for run in full:
        for precision in measure.PRECISIONS[device.type]:
            encoder = replace(run.encoder, precision=precision)
            check = partial(checks.features, replace(run, encoder=encoder), device)
            yield Piece(f"correct/features/{measure.variant_of(encoder)}/{encoder.precision}", check, 20)


def measured(device: torch.device, tiny: bool, patterns: Sequence[str], results: Results) -> Iterator[Piece]:
    """Cases that match one of some patterns, the first pattern's cases first."""
    cases = measure.cases(device.type, tiny)
    for pattern in patterns:
        for name, case in cases.items():
            if measure.matches(name, [pattern]):
                yield Piece(f"measured/{name}", partial(_measure, case, device, tiny, results), 12)


def _measure(case: measure.Case, device: torch.device, tiny: bool, results: Results) -> Finding:
    seconds = 0.001 if tiny else 1.5
    row = measure.measure(case, device, torch.get_num_threads(), seconds, results.rows())
    return Finding(True, measure.summary(row), row)


class Results:
    """Results of the pieces, kept in a file."""

    def __init__(self, folder: Path, machine: dict[str, Any]) -> None:
        self.folder, self.machine = folder, machine
        self.pieces: dict[str, dict[str, Any]] = {}
        """Name → whether it is `done`, `WRONG` or `FAILED`, the message, the figures, the seconds."""
        path = folder / "first-light.json"
        if path.is_file():
            kept = json.loads(path.read_text(encoding="utf-8"))
            if kept["machine"] != machine:
                raise VseppError(
                    f"{path}: is of {kept['machine']}, this is {machine}; name another folder as --out"
                )
            self.pieces = kept["pieces"]

    def is_done(self, name: str) -> bool:
        return self.pieces.get(name, {}).get("state") == "done"

    def rows(self) -> list[dict[str, Any]]:
        """Rows of the table."""
        names = [name for name in self.pieces if name.startswith("measured/") and self.is_done(name)]
        return [self.pieces[name]["figures"] for name in names]

    def keep(self, name: str, state: str, finding: Finding, seconds: float = 0.0) -> None:
        """Keep the result of a piece."""
        kept = {"state": state, "message": finding.message, "figures": finding.figures}
        self.pieces[name] = {**kept, "seconds": round(seconds, 1)}
        self.save()

    def save(self) -> None:
        """Write both files anew."""
        self.folder.mkdir(parents=True, exist_ok=True)
        kept = {"machine": self.machine, "pieces": self.pieces}
        text = json.dumps(kept, indent=1, ensure_ascii=False) + "\n"
        write_text(self.folder / "first-light.json", text)
        table = self.folder / "first-light.csv"
        table.unlink(missing_ok=True)
        for row in self.rows():
            measure.append(row, table)

    def do(self, piece: Piece) -> None:
        """Do a piece and keep its result."""
        # Kept before it begins: a piece that ends the process comes after the others the next time.
        self.keep(piece.name, "FAILED", Finding(False, "ended the process, or was stopped"))
        started = time.monotonic()
        try:
            finding = piece.do()
            state = "done" if finding and finding.right else "WRONG"
        except Exception as error:  # an error of one piece: the others may be right
            state, finding = "FAILED", Finding(False, f"{type(error).__name__}: {error}")
        seconds = time.monotonic() - started
        if finding is None:
            del self.pieces[piece.name]
            self.save()
            print(f"stopped  {piece.name}  ({seconds:.1f} s)", flush=True)
        else:
            self.keep(piece.name, state, finding, seconds)
            print(f"{state:>7}  {piece.name}  {finding.message}  ({seconds:.1f} s)", flush=True)

    def advice(self) -> list[str]:
        """Lines of YAML for a preset: each encoder's fastest way with right features; how many
        trainings share a GPU."""
        encoders: dict[str, dict[str, Any]] = {}
        sharing: dict[str, Any] = {}
        for row in self.rows():
            if row["what"].startswith("sharing-"):
                sharing = max(sharing or row, row, key=lambda other: other["median"])
            if row["what"] == "tape" and self.is_done(
                f"correct/features/{row['variant']}/{row['precision']}"
            ):
                network = row["variant"]
                encoders[network] = max(encoders.get(network, row), row, key=lambda other: other["median"])
        lines = ["encoders:    # by network; bf16 only where recalls over three seeds allow it"]
        for network, row in encoders.items():
            lines.append(f"  {network}: {{precision: {row['precision']}}}    # {row['median']:,.0f} images/s")
        if sharing:
            count = sharing["what"].removeprefix("sharing-")
            lines.append(
                f"resources: {{runs_per_gpu: {count}}}    # {sharing['median']:,.0f} pairs/s together"
            )
        return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what there is time for: 0 if all is done and right, 1 if something is not, 2 on bad input, 3
    if something is left."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=9.0, help="that this call may take; 9 by default")
    parser.add_argument("--out", type=Path, default=Path("first-light"), help="folder of what comes out")
    parser.add_argument("--data", type=Path, help="folder of Flickr8k's two archives")
    parser.add_argument("--prepared", type=Path, help="folder that --prepare wrote")
    parser.add_argument("--prepare", type=Path, help="write what the runs on Flickr8k need, and end")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--tiny", action="store_true", help="sizes that take no time and say nothing")
    parser.add_argument("--only", nargs="+", default=["*"], help="names of pieces, or patterns: 'correct/*'")
    options = parser.parse_args(arguments)
    ends = time.monotonic() + 60 * options.minutes
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # processes that it started are ended, too
    try:
        if options.prepare:
            study.prepare(options.prepare, options.data, tiny=options.tiny)
            return 0
        results, chosen = _begin(options, ends)
    except VseppError as error:
        print(f"first_light: {error}", file=sys.stderr)
        return 2
    # Pieces that were wrong or failed are tried again, after the new ones.
    for piece in sorted(chosen, key=lambda piece: piece.name in results.pieces):
        needed = 2 if options.tiny else piece.seconds
        if not results.is_done(piece.name) and ends - time.monotonic() > needed:
            results.do(piece)
            if "CUDA error" in results.pieces.get(piece.name, {}).get("message", ""):
                break  # this process can use the device no more
    print("\n".join(["", *results.advice()]))
    bad = [name for name in results.pieces if not results.is_done(name)]
    for name in bad:
        print(f"{results.pieces[name]['state']}: {name}: {results.pieces[name]['message']}")
    left = sum(piece.name not in results.pieces for piece in chosen)
    goes_on = "; the same command goes on" if left else ""
    print(f"{len(chosen) - left} of {len(chosen)} pieces were tried, {len(bad)} are not right{goes_on}.")
    return 3 if left else int(bool(bad))


def _begin(options: argparse.Namespace, ends: float) -> tuple[Results, list[Piece]]:
    """Results of earlier calls, and the chosen pieces in their order."""
    if options.device == "cuda" and not torch.cuda.is_available():
        raise VseppError("torch finds no GPU: see nvidia-smi, or try the script with --device cpu --tiny")
    device = torch.device(options.device, 0) if options.device == "cuda" else torch.device("cpu")
    use_cpu(1 if options.tiny else None)
    name = torch.cuda.get_device_name(device) if options.device == "cuda" else "cpu"
    cpu = f"{processor()}, {os.cpu_count()} cores"
    machine = {"device": name, "processor": cpu, "torch": torch.__version__, "tiny": options.tiny}
    results = Results(options.out, machine)
    pieces = [*correct(device, options.tiny)]
    pieces += measured(device, options.tiny, ["*"] if options.tiny else FIRST, results)
    if options.data and not options.prepared:
        raise VseppError("--data needs --prepared, the folder that --prepare wrote")
    for job in study.jobs(options.prepared) if options.data else []:
        run = partial(study.run, job, options.prepared, options.data, device, ends, options.out / "records")
        pieces.append(Piece(f"used/{job.kind} {job.name}", run, 15))
    pieces += [] if options.tiny else measured(device, False, LATER, results)
    unique: dict[str, Piece] = {}
    for piece in pieces:
        unique.setdefault(piece.name, piece)
    return results, [piece for piece in unique.values() if measure.matches(piece.name, options.only)]


if __name__ == "__main__":
    sys.exit(main())
