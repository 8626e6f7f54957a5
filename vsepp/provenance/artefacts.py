"""An artefact as the plan has it: what it is made with and from, and where it lies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PHASES = ("corpus", "features", "models", "results")
"""Of dvc.yaml, each made by the target `all_<phase>` of the workflow."""


@dataclass(frozen=True, eq=False)
class Artefact:
    """One row of the table that the rules, `verify`, `sync`, `plan` and the report look up."""

    kind: str
    """`corpus`, `tokens`, `store`, `run`, ...: also the wildcard of the rule that makes it."""
    name: str
    """One of its kind."""
    folder: Path
    """Where it lies, relative to the working folder."""
    phase: str
    """One of `PHASES`."""
    spec: Any
    """All that decides what is computed, besides code and inputs: a dataclass of `vsepp.spec` or `vsepp.reporting.specs`."""
    code: str
    """Digest of the computing modules."""
    files: tuple[str, ...] = ()
    """Names of the files in `folder` that others read; none where the folder as a whole is the artefact."""
    inputs: Mapping[str, Path] = field(default_factory=dict)
    """Role → what it is made from: the folder of another artefact, or one file of it."""
    raw: Mapping[str, Path] = field(default_factory=dict)
    """Role → raw file or folder. What is packed here may have been unpacked where a result comes from."""
    seed: int | None = None
    versioned: bool = True
    """Whether DVC keeps it. What it does not keep may be absent, and is verified where it is there."""

    @property
    def targets(self) -> list[Path]:
        """What Snakemake is asked for, and what depends on it."""
        return [self.folder / name for name in self.files] or [self.folder]
