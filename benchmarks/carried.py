"""Pydantic on a machine without it and without a network: installed from wheels that were carried there."""

import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

WHEELS = Path(__file__).with_name("wheels")
_TO_CARRY = "python -m pip download --only-binary :all: --dest benchmarks/wheels pydantic"


def bring_pydantic(wheels: Path = WHEELS) -> None:
    """Let this process, and those that it starts, import pydantic; ends the process where that cannot be done."""
    with suppress(PackageNotFoundError):
        if int(version("pydantic").split(".")[0]) >= 2:
            return
    if not wheels.is_dir():
        sys.exit(
            f"pydantic is missing, and no wheels of it are in {wheels}: make them where there is a network ({_TO_CARRY})"
        )
    target = tempfile.mkdtemp(prefix="vsepp-pydantic-")
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--find-links",
        wheels,
        "--target",
        target,
    ]
    if subprocess.run([*command, "pydantic"], check=False).returncode:
        sys.exit(
            f"{wheels}: these wheels are not for this Python, {sys.version.split()[0]}; make them with it ({_TO_CARRY})"
        )
    sys.path.insert(0, target)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (target, os.environ.get("PYTHONPATH"))))
