"""An artefact in the plan: what it is made with and from, and its folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PHASES = ("corpus", "features", "models", "results")
"""Phases of dvc.yaml; the workflow's target `all_<phase>` makes each."""


@dataclass(frozen=True, eq=False)
class Artefact:
    """One row of the table that the rules, `verify`, `sync`, `plan` and the report look up."""

    kind: str
    """`corpus`, `tokens`, `store`, `run`, ...: also the wildcard of the rule that makes it."""
    name: str
    """Name, unique within the kind."""
    folder: Path
    """Its folder, relative to the working folder."""
    phase: str
    """One of `PHASES`."""
    spec: Any
    """All that decides what is computed, besides code and inputs: a dataclass of `vsepp.spec` or `vsepp.reporting.specs`."""
    code: str
    """Digest of the computing modules."""
    files: tuple[str, ...] = ()
    """Names of the files in `folder` that others read; none if the folder as a whole is the artefact."""
    inputs: Mapping[str, Path] = field(default_factory=dict)
    """Role → what it is made from: the folder of another artefact, or one file of it."""
    raw: Mapping[str, Path] = field(default_factory=dict)
    """Role → raw file or folder. An archive here may have been an unpacked folder on another machine."""
    seed: int | None = None
    versioned: bool = True
    """Whether DVC keeps it. Otherwise it may be absent, and is verified if present."""

    @property
    def targets(self) -> list[Path]:
        """The files that Snakemake is asked for, and that others depend on."""
        return [self.folder / name for name in self.files] or [self.folder]
