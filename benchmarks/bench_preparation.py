"""COCO's metadata at full size → captions, tokens and vocabulary: seconds and peak memory of each step.

    python benchmarks/bench_preparation.py                    # made-up files of the real size
    python benchmarks/bench_preparation.py --files DOWNLOADS  # the real ones, named as their sources name them
    python benchmarks/bench_preparation.py --profile 12       # and which functions take the time
    python benchmarks/bench_preparation.py --json PATH

Timed are `vsepp corpus` and `vsepp tokens` as the workflow calls them, each in a process of its own, started from
cold: reading of the archives, checks, tokenizer, vocabulary of `train`, files and manifests. The made-up archives
of photographs have every member, and no bytes in them, so the digest of 20 GB of JPEGs is not among the figures.
"""

from __future__ import annotations

import argparse
import cProfile
import io
import json
import os
import platform
import pstats
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "rehearsal"))

from fullsize import FULL, corpus_spec, write_archives, write_metadata

from vsepp.cli import main as vsepp
from vsepp.spec import VocabularySpec, to_json

LIMIT_SECONDS, LIMIT_BYTES = 120, 5 * 10**9


def commands(files: Path, out: Path) -> dict[str, list[str]]:
    """Step → arguments of `vsepp`, in their order."""
    corpus = out / "corpus"
    spec = to_json(corpus_spec("coco", files))
    words = to_json(VocabularySpec(splits=("train",), threshold=4))
    return {
        "corpus": ["corpus", "--spec", spec, "--output", str(corpus)],
        "tokens": ["tokens", "--spec", words, "--corpus", str(corpus), "--output", str(out / "tokens")],
    }


def measured(arguments: list[str]) -> dict[str, float]:
    """Seconds, CPU seconds and peak memory of one call of `vsepp`."""
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "vsepp.cli", *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"vsepp {arguments[0]} failed with status {os.waitstatus_to_exitcode(status)}")
    return {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        # Of this process or the largest of those that it started.
        "peak_bytes": usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
    }


def profiled(arguments: list[str], functions: int) -> list[str]:
    """The functions of one call of `vsepp` that take the most time of their own, one line each."""
    profile = cProfile.Profile()
    if profile.runcall(vsepp, arguments):
        raise SystemExit(f"vsepp {arguments[0]} failed")
    stream = io.StringIO()
    pstats.Stats(profile, stream=stream).sort_stats("tottime").print_stats(functions)
    lines = [line for line in stream.getvalue().splitlines() if line.strip()]
    first = next(row for row, line in enumerate(lines) if line.split()[0] == "ncalls")
    return lines[first:]


def measure(files: Path, out: Path) -> dict:
    """Run both steps and add up."""
    steps = {step: measured(arguments) for step, arguments in commands(files, out).items()}
    manifests = {step: json.loads((out / step / "manifest.json").read_text()) for step in steps}
    return {
        "what": "COCO metadata to captions, tokens and vocabulary",
        "steps": steps,
        "seconds": sum(step["seconds"] for step in steps.values()),
        "peak_bytes": max(step["peak_bytes"] for step in steps.values()),
        "images": manifests["corpus"]["facts"]["images"],
        "captions": manifests["corpus"]["facts"]["captions"],
        "words": manifests["tokens"]["facts"]["words"],
        "tokens": manifests["tokens"]["facts"]["tokens"],
        "raw_bytes": {path.name: path.stat().st_size for path in sorted(files.glob("*.zip"))},
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0],
    }


def main() -> None:
    """Parse the arguments, make the files, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=Path, help="folder of COCO's and Karpathy's archives")
    parser.add_argument("--profile", type=int, default=0, metavar="N", help="list the N costliest functions")
    parser.add_argument("--json", type=Path, help="write the figures here")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        files = arguments.files
        if files is None:
            files = Path(scratch) / "raw"
            started = time.perf_counter()
            write_metadata(files)
            write_archives(files, FULL, seed=0, images=None, jpegs=[b""])
            print(f"files made up in {time.perf_counter() - started:.0f} s")
        figures = measure(files, Path(scratch) / "measured")
        for step, cost in figures["steps"].items():
            print(
                f"{step}: {cost['seconds']:.1f} s, {cost['cpu_seconds']:.1f} CPU s, "
                f"{cost['peak_bytes'] / 1e9:.2f} GB"
            )
        print(
            f"both: {figures['seconds']:.1f} s (limit {LIMIT_SECONDS}), {figures['peak_bytes'] / 1e9:.2f} GB "
            f"(limit {LIMIT_BYTES / 1e9:.0f}); {figures['words']} words, {figures['tokens']} tokens, "
            f"load {figures['load_average']:.1f}"
        )
        if arguments.json:
            arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        if arguments.profile:
            for step, call in commands(files, Path(scratch) / "profiled").items():
                print("", step, *profiled(call, arguments.profile), sep="\n")


if __name__ == "__main__":
    main()
