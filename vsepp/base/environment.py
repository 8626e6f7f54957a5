"""The environment that libraries and child processes need, whatever a machine or a container gives."""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import sys
import tempfile
from pathlib import Path


def environment() -> dict[str, str]:
    """Variables to set: a home folder that can be written to, a user's name, and a path with the
    programs of this Python.

    Snakemake and NLTK ask for the first two when they are imported. A container may run under a
    number that has no name.
    """
    variables = {"PATH": os.pathsep.join(_with_programs(os.environ.get("PATH", os.defpath)))}
    home = os.environ.get("HOME", "")
    if not (home and Path(home).is_dir() and os.access(home, os.W_OK)):
        variables["HOME"] = tempfile.mkdtemp(prefix="vsepp-home-")
        variables["XDG_CACHE_HOME"] = str(Path(variables["HOME"], ".cache"))
        atexit.register(shutil.rmtree, variables["HOME"], ignore_errors=True)
    if not any(os.environ.get(name) for name in ("LOGNAME", "USER")) and not _has_name(os.getuid()):
        variables["USER"] = variables["LOGNAME"] = str(os.getuid())
    return variables


def _with_programs(path: str) -> list[str]:
    """Folders of a search path; the folder of this Python's programs first."""
    programs = str(Path(sys.executable).parent)
    return [programs, *(folder for folder in path.split(os.pathsep) if folder and folder != programs)]


def _has_name(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True
