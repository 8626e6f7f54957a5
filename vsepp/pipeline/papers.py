"""Papers, the folders of `params/papers/`: runs, tables, published numbers, and values of their own under each fidelity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from vsepp.base.errors import VseppError, did_you_mean
from vsepp.pipeline.files import M, Mistakes, read_model
from vsepp.pipeline.settings import (
    PaperFidelity,
    PaperFidelityFile,
    ReleasedFile,
    ReleasedKeys,
    RunsFile,
)
from vsepp.reporting.claims import Claim, ClaimsFile, Difference
from vsepp.reporting.entries import TablesFile
from vsepp.reporting.published import Published, read_published


@dataclass(frozen=True)
class Paper:
    """One folder of `params/papers/`."""

    name: str
    folder: Path
    entries: dict[str, dict[str, Any]]
    """Entries of its `runs.yaml`, abstract ones too."""
    fidelity: dict[str, PaperFidelity]
    """Fidelity → values that the paper's own components and entries follow; empty without a `fidelity.yaml`."""
    tables: TablesFile = None  # type: ignore[assignment]
    """Like `rows`, `released` and `claims`, filled only for a paper that is reproduced."""
    rows: dict[str, str] = field(default_factory=dict)
    """Row of its published tables → `trained` or `quoted`."""
    released: dict[str, ReleasedKeys] = field(default_factory=dict)
    """Checkpoints of its authors."""
    claims: dict[str, Claim] = field(default_factory=dict)
    """Claims that it makes about its runs; empty without a `claims.yaml`."""

    @property
    def runs_file(self) -> Path:
        """Where its runs stand."""
        return self.folder / "runs.yaml"

    @property
    def tables_file(self) -> Path:
        """Where its tables and figures stand."""
        return self.folder / "tables.yaml"

    @property
    def claims_file(self) -> Path:
        """Where its claims stand."""
        return self.folder / "claims.yaml"

    @property
    def published(self) -> Path:
        """Where its numbers stand."""
        return self.folder / "published.csv"

    def selected(self, tables: Mapping[str, list[str]]) -> list[str]:
        """Tables and figures of its report: the ones that a preset chooses, or all."""
        return tables.get(self.name, [*self.tables.tables, *self.tables.figures])


def read_papers(folder: Path, reproduced: list[str], mistakes: Mistakes) -> dict[str, Paper]:
    """Read every paper; of a paper that is not reproduced, read only the entries, which others may inherit.

    Parameters
    ----------
    folder
        `params/papers`.
    reproduced
        Names of the papers whose tables are made.
    mistakes
        Collects missing folders and files, and ids that two papers use.
    """
    there = sorted(path.parent.name for path in folder.glob("[!._]*/runs.yaml"))
    there = sorted({*there, *(name for name in reproduced if (folder / name).is_dir())})
    for name in reproduced:
        if name not in there:
            mistakes.add(
                "papers",
                f"got {name!r}, but there is no folder {folder / name}; there are {', '.join(there)}"
                + did_you_mean(name, there),
            )
    papers = {name: _read(folder / name, name in reproduced, mistakes) for name in there}
    for kind, file in (("entries", "runs.yaml"), ("released", "released.yaml")):
        first: dict[str, Paper] = {}
        for paper in papers.values():
            for name in getattr(paper, kind):
                if other := first.get(name):
                    mistakes.add(
                        f"{paper.folder / file}: {name}",
                        f"is also in {other.folder / file}; an id may be used by one paper only",
                    )
                first[name] = paper
    return papers


def _read(folder: Path, whole: bool, mistakes: Mistakes) -> Paper:
    runs = read_model(RunsFile, folder / "runs.yaml", mistakes, "runs")
    own = _if_there(PaperFidelityFile, folder / "fidelity.yaml", mistakes)
    paper = Paper(
        folder.name, folder, runs.runs if runs else {}, {"paper": own.paper, "code": own.code} if own else {}
    )
    if not whole:
        return paper
    published: Published = {}
    try:
        published = read_published(paper.published)
    except VseppError as error:
        mistakes.found.append(str(error))
    released = _if_there(ReleasedFile, folder / "released.yaml", mistakes, "released")
    claims = _if_there(ClaimsFile, paper.claims_file, mistakes, "claims")
    for name, claim in claims.claims.items() if claims and published else ():
        row = claim.row if isinstance(claim, Difference) else None
        for metric in claim.published if row else ():
            if not published.get(("", row or ""), {}).get(metric):
                mistakes.add(
                    f"{paper.claims_file}: claims.{name}.row",
                    f"{paper.published.name} prints no {metric} of a row {row!r}",
                )
    return replace(
        paper,
        tables=read_model(TablesFile, paper.tables_file, mistakes),  # type: ignore[arg-type]
        rows={row["row"]: row["kind"] for row in published.values()},
        released=released.released if released else {},
        claims=claims.claims if claims else {},
    )


def _if_there(model: type[M], path: Path, mistakes: Mistakes, inside: str | None = None) -> M | None:
    """A file that a paper need not have."""
    return read_model(model, path, mistakes, inside) if path.is_file() else None
