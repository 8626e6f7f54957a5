"""The manifest beside every artefact: what it was made from, by which code, where and at what cost."""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from vsepp.errors import VseppError
from vsepp.provenance.digests import path_digest, value_digest

MANIFEST = "manifest.json"
_VERSIONS_OF = ("vsepp", "torch", "torchvision", "numpy", "pandas", "pyarrow", "pillow", "nltk", "snakemake")


@contextmanager
def recorded(
    folder: Path,
    step: str,
    *,
    spec: Mapping[str, Any],
    inputs: Mapping[str, Path],
    code: str = "",
    seed: int | None = None,
) -> Iterator[dict[str, Any]]:
    """Write `folder/manifest.json` once the body has succeeded.

    Yields a dictionary; what the body puts into it (device, counts, warnings) is kept under `facts`.

    Parameters
    ----------
    folder
        Where the step publishes its outputs; every file in it is digested.
    step
        The command that ran.
    spec
        All that decides what the step computes.
    inputs
        Role → artefact that was read.
    code
        Digest of the computing modules.
    seed
        The seed, where the step has one.
    """
    started = time.monotonic()
    facts: dict[str, Any] = {}
    git = dict(git_state())  # of the code that runs, whatever is checked out by the time it ends
    yield facts
    manifest = {
        "step": step,
        "spec": dict(spec),
        "spec_digest": value_digest(spec),
        "code_digest": code,
        "inputs": {role: artefact_digest(path) for role, path in inputs.items()},
        "outputs": {
            path.name: path_digest(path)
            for path in sorted(folder.iterdir())
            if path.name != MANIFEST and not path.name.startswith(".")
        },
        "seed": seed,
        "git": git,
        "versions": dict(versions()),
        "machine": {
            "platform": platform.platform(),
            "processor": processor(),
            "python": platform.python_version(),
            "cores": os.cpu_count(),
        },
        "wall_seconds": time.monotonic() - started,
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "facts": facts,
    }
    write_text(folder / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True) + "\n")


def read_manifest(artefact: Path) -> dict[str, Any]:
    """Manifest of an artefact: of the folder itself, or of the folder that a file lies in."""
    folder = artefact if artefact.is_dir() else artefact.parent
    path = folder / MANIFEST
    if not path.is_file():
        raise VseppError(
            f"{path}: missing, so {artefact} has no provenance; run the step that makes it again"
        )
    return json.loads(path.read_text(encoding="utf-8"))


def sidecar_path(path: Path) -> Path:
    """Where the manifest of a single file lies: of a download, beside which nothing else was made."""
    return path.with_name(f"{path.name}.{MANIFEST}")


def read_sidecar(path: Path) -> dict[str, Any] | None:
    """Manifest of a single file, or `None` where there is none or the file was written to since."""
    try:
        noted = json.loads(sidecar_path(path).read_text(encoding="utf-8"))
        status = path.stat()
    except (OSError, ValueError):
        return None
    if not isinstance(noted, dict) or "sha256" not in noted:
        return None
    same = (noted.get("size"), noted.get("mtime_ns")) == (status.st_size, status.st_mtime_ns)
    return noted if same else None


def artefact_digest(path: Path) -> str:
    """Digest of an input: the one its own manifest records, or that of the bytes where there is none."""
    if path.is_dir() and (path / MANIFEST).is_file():
        return value_digest(read_manifest(path)["outputs"])
    if (path.parent / MANIFEST).is_file():
        outputs = read_manifest(path)["outputs"]
        if path.name in outputs:
            return outputs[path.name]
    if path.is_file() and (noted := read_sidecar(path)):
        return noted["sha256"]
    return path_digest(path)


def require_input(artefact: Path, role: str, used: Path) -> None:
    """Refuse an artefact that was made from another version of `used`.

    Raises
    ------
    VseppError
        Naming both artefacts and the command that mends it.
    """
    recorded_digest = read_manifest(artefact)["inputs"].get(role)
    present = artefact_digest(used)
    if recorded_digest != present:
        raise VseppError(
            f"{artefact} was made from another {role} than {used}: expected digest {present[:12]}, its manifest "
            f"says {str(recorded_digest)[:12]}. Run the step that makes it again: "
            f"snakemake --cores all --forcerun {artefact}"
        )


def write_text(path: Path, text: str) -> None:
    """Write a file so that it is either there whole or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


@cache
def git_state() -> tuple[tuple[str, Any], ...]:
    """Commit and whether tracked files differ from it; the environment's VSEPP_GIT_COMMIT where there is no git."""
    root = Path(__file__).resolve().parent.parent.parent

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True, timeout=20
        ).stdout.strip()

    try:
        return (("commit", git("rev-parse", "HEAD")), ("dirty", bool(git("status", "--porcelain", "-uno"))))
    except (OSError, subprocess.SubprocessError):
        return (("commit", os.environ.get("VSEPP_GIT_COMMIT", "unknown")), ("dirty", None))


@cache
def versions() -> tuple[tuple[str, str], ...]:
    """Versions of the packages that a number may depend on."""
    found = []
    for name in _VERSIONS_OF:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return tuple(found)


@cache
def processor() -> str:
    """Name of this machine's processor."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()
