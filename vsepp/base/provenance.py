"""What a manifest says of the code, the machine and the cost of this process."""

from __future__ import annotations

import os
import platform
import re
import resource
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

# Paths whose content decides what is computed and shown: an edit elsewhere makes nothing dirty.
_DECIDING = ("vsepp", "params", "workflow", "profiles", "reports/templates", "Snakefile", "pyproject.toml")
_CODE = Path(__file__).resolve().parents[2]
_VERSIONS_OF = ("vsepp", "torch", "torchvision", "numpy", "pyarrow", "pillow", "nltk", "snakemake")


@cache
def git_state(root: Path = _CODE) -> dict[str, Any]:
    """Commit, and whether code or parameters differ from it; the variable VSEPP_GIT_COMMIT if git does
    not track this code."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True, timeout=20
        ).stdout.strip()

    try:
        # An installed package may be in a folder that some other repository ignores.
        git("ls-files", "--error-unmatch", "vsepp/__init__.py")
        # Without files that are written while results are made: DVC's lock, and checksums of first downloads.
        but = [f":(exclude){name}" for name in ("dvc.lock", "params/sources.lock.yaml")]
        changed = git("status", "--porcelain", "--untracked-files=all", "--", *_DECIDING, *but)
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(changed)}
    except (OSError, subprocess.SubprocessError):
        return {"commit": os.environ.get("VSEPP_GIT_COMMIT", "unknown"), "dirty": None}


def versions() -> dict[str, str]:
    """Versions of the packages that numbers may depend on."""
    # Not at start-up: it imports sockets and mail.
    from importlib.metadata import PackageNotFoundError, version

    installed = {}
    for name in _VERSIONS_OF:
        with suppress(PackageNotFoundError):
            installed[name] = version(name)
    return installed


def machine() -> dict[str, Any]:
    """The machine that this process runs on."""
    return {
        "platform": platform.platform(),
        "processor": processor(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }


def processor() -> str:
    """Name of this machine's processor."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def peak_memory() -> int:
    """The most memory that this process has taken since it was started, in bytes."""
    # On Linux, `getrusage` also counts memory from before this program was executed: of the
    # process that started it.
    with suppress(OSError):
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        if match := re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE):
            return int(match[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def cpu_seconds() -> float:
    """Seconds of processors that this process took since it was started, with its
    children that have ended."""
    return sum(os.times()[:4])
