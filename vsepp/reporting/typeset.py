"""A report's `paper.tex` → `paper.pdf`, where a TeX engine is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from vsepp.errors import VseppError
from vsepp.runtime.files import whole_file

ENGINE = "pdflatex"
PDF = "paper.pdf"
TEX_WANTED = (
    "For a PDF install pdflatex, on Debian and Ubuntu: apt-get install texlive-latex-base "
    "texlive-latex-recommended lmodern"
)
# Packages that an installation may lack.
_PACKAGES = ("booktabs.sty", "caption.sty", "microtype.sty")
# References need a second run; a third one moves nothing.
_RUNS = 2


def has_tex() -> bool:
    """Whether there is a TeX engine, with the packages that `paper.tex` needs."""
    if not all(map(shutil.which, (ENGINE, "kpsewhich"))):
        return False
    found = subprocess.run(["kpsewhich", *_PACKAGES], capture_output=True, check=False).stdout
    return len(found.splitlines()) == len(_PACKAGES)


def typeset(report: Path) -> Path:
    """Write `paper.pdf` beside `paper.tex`. Equal reports give equal bytes under the same TeX engine.

    Parameters
    ----------
    report
        Folder of a report, with `paper.tex` and the figures that it shows.

    Returns
    -------
    Path
        The PDF.

    Raises
    ------
    VseppError
        Without a TeX engine, without `paper.tex`, and where TeX fails: its first error.
    """
    source = report / "paper.tex"
    if not source.is_file():
        raise VseppError(f"{source}: no such file; write the report first")
    if not has_tex():
        raise VseppError(
            f"{source} cannot be typeset here: there is no {ENGINE}, or a package is missing. {TEX_WANTED}"
        )
    # Neither a date nor a folder's name gets into the file.
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "0", "FORCE_SOURCE_DATE": "1", "max_print_line": "1000"}
    with tempfile.TemporaryDirectory() as name:
        command = [ENGINE, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape"]
        command += [f"-output-directory={name}", source.name]
        for _ in range(_RUNS):
            done = subprocess.run(command, cwd=report, env=environment, capture_output=True, check=False)
            if done.returncode:
                raise VseppError(f"{source}: {ENGINE} failed: {_first_error(done.stdout)}")
        with whole_file(report / PDF) as partial:
            shutil.copyfile(Path(name) / PDF, partial)
    return report / PDF


def _first_error(output: bytes) -> str:
    """The first error of a TeX engine's output, with its line; where a package is missing, what to install too."""
    text = output.decode("utf-8", errors="replace")
    found = re.search(r"^!.*?(?:^l\.\d+[^\n]*|\Z)", text, re.MULTILINE | re.DOTALL)
    said = " ".join((found[0] if found else text[-300:]).split())
    return f"{said} {TEX_WANTED}" if "not found" in said else said
