"""What a preset has taken here, by its manifests: seconds by rule and by cause, and the row of the
table in docs/running.md.

    uv run python benchmarks/presets.py mini

It is called in the project's folder, after the preset was run with `--notemp`: without it random-crop features are deleted after their last reader, and are not counted.
Seconds of CPUs, of all jobs of a rule:

start
    Python, the command line and the plan, before the step begins.
import
    What the step computes with, torch among it: the jobs times what the first one takes in a process now, at most all of the step.
work
    The rest: data, computation, writing and digests.
"""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vsepp.base.components import module_name
from vsepp.base.manifest import MANIFEST, read_manifest
from vsepp.base.spec import from_dict
from vsepp.base.words import bytes_text, table
from vsepp.pipeline.steps import STEPS

HEADER = ("rule", "jobs", "wall s", "CPU s", "start", "import", "work", "written", "peak memory")
_TIMED = (
    "import gc, sys, time, vsepp.apps.cli; from importlib import import_module; gc.set_threshold(100_000); "
    "before = time.process_time(); "
    "[import_module(name) for name in sys.argv[1:]]; print(time.process_time() - before)"
)


def bytes_in(*folders: Path) -> int:
    return sum(file.stat().st_size for folder in folders for file in folder.rglob("*") if file.is_file())


def rule_of(manifest: dict[str, Any]) -> str:
    """The step; of a training also which images it reads."""
    kind, spec = manifest["step"], manifest["spec"]
    if kind != "run":
        return str(kind)
    run = from_dict(STEPS[kind].spec, spec)
    return f"run, {'fine-tuned' if run.finetuned else run.trainset}"


def import_seconds(manifest: dict[str, Any]) -> float:
    """CPU seconds of importing what a step computes with, after the command line."""
    step = STEPS[manifest["step"]]
    spec = from_dict(step.spec, manifest["spec"])
    names = [*step.modules(spec), *(module_name(*component) for component in step.components(spec))]
    command = [sys.executable, "-c", _TIMED, *names]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def rule_row(rule: str, jobs: Sequence[tuple[Path, dict[str, Any]]]) -> tuple[str, ...]:
    """A row of the table by rule: folders and manifests of its jobs."""
    manifests = [manifest for _, manifest in jobs]
    wall, start, step = (
        sum(manifest.get(key, 0) for manifest in manifests)
        for key in ("wall_seconds", "start_cpu_seconds", "cpu_seconds")
    )
    imports = min(step, len(jobs) * import_seconds(manifests[0]))
    seconds = (wall, start + step, start, imports, step - imports)
    written = bytes_text(bytes_in(*(folder for folder, _ in jobs)))
    peak = bytes_text(max(manifest["peak_memory_bytes"] for manifest in manifests))
    return rule, str(len(jobs)), *(f"{value:,.1f}" for value in seconds), written, peak


def preset_row(folders: Sequence[Path], manifests: Sequence[dict[str, Any]]) -> str:
    """A row of Markdown: bytes of downloads, bytes of results and reports, hours, CPU hours."""
    hours = (
        sum(manifest[seconds] for manifest in manifests) / 3600 for seconds in ("wall_seconds", "cpu_seconds")
    )
    sizes = bytes_text(bytes_in(Path("resources", "downloads"))), bytes_text(bytes_in(*folders))
    return f"| {' | '.join([*sizes, *(f'{number:.2f}' for number in hours)])} |"


def main(preset: str) -> None:
    """Print both."""
    folders = Path("results", preset), Path("reports", preset)
    files = [file for folder in folders for file in folder.rglob(MANIFEST)]
    files += Path("resources").glob(f"scenes-*/{MANIFEST}") if preset == "mini" else ()
    by_rule = defaultdict(list)
    for file in files:
        manifest = read_manifest(file.parent)
        by_rule[rule_of(manifest)].append((file.parent, manifest))
    rows = [rule_row(rule, jobs) for rule, jobs in sorted(by_rule.items())]
    print("\n".join(table([HEADER, *rows], "l" + "r" * (len(HEADER) - 1))))
    manifests = [manifest for jobs in by_rule.values() for _, manifest in jobs]
    print(f"\n{preset}: {preset_row(folders, manifests)}")


if __name__ == "__main__":
    main(sys.argv[1])
