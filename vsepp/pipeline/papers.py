"""Papers, the folders of `params/papers/`: runs, tables, published numbers, and values of their own under each fidelity."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vsepp.base.errors import VseppError, did_you_mean
from vsepp.pipeline.files import M, Mistakes, read_model, read_yaml, validate
from vsepp.pipeline.settings import (
    Overlay,
    PaperFidelityFile,
    ReleasedFile,
    ReleasedKeys,
)
from vsepp.report.claims import Difference
from vsepp.report.claims_base import OF_ITS_OWN
from vsepp.report.entries import Claim, ClaimsFile, TablesFile
from vsepp.report.published import Published, read_published


@dataclass(frozen=True, kw_only=True)
class Entries:
    """What others may inherit of a paper, a folder of `params/papers/`."""

    folder: Path
    runs: Overlay
    """Its `runs.yaml`."""
    fidelity: dict[str, Overlay]
    """Fidelity → values that the paper's own components and entries follow; empty without a `fidelity.yaml`."""

    @property
    def entries(self) -> dict[str, dict[str, Any]]:
        """Entries of its `runs.yaml`, abstract ones too."""
        return self.runs.runs

    @property
    def name(self) -> str:
        """Name of its folder."""
        return self.folder.name

    @property
    def runs_file(self) -> Path:
        """Where its runs stand."""
        return self.folder / "runs.yaml"


@dataclass(frozen=True, kw_only=True)
class Paper(Entries):
    """A paper that is reproduced."""

    tables: TablesFile
    rows: dict[str, str] = field(default_factory=dict)
    """Row of its published tables → `trained` or `quoted`."""
    released: dict[str, ReleasedKeys] = field(default_factory=dict)
    """Checkpoints of its authors."""
    claims: dict[str, Claim] = field(default_factory=dict)
    """Claims that it makes about its runs; empty without a `claims.yaml`."""

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


_ENTRY = re.compile(r"""^["']?([a-z0-9][a-z0-9_.+-]*)["']? *:""", re.MULTILINE)


def owners_of_entries(folder: Path) -> dict[str, Path]:
    """Entry → the paper's `runs.yaml` that has it, by the lines that entries begin: most papers are not parsed.

    Parameters
    ----------
    folder
        `params/papers`.
    """
    files = sorted(folder.glob("[!._]*/runs.yaml"), reverse=True)
    texts = {file: file.read_text(encoding="utf-8", errors="replace") for file in files}
    return {entry: file for file, text in texts.items() for entry in _ENTRY.findall(text)}


def read_papers(
    folder: Path, reproduced: list[str], owners: Mapping[str, Path], mistakes: Mistakes
) -> tuple[dict[str, Paper], dict[str, Entries]]:
    """The papers that are reproduced; and all that are parsed: these, and those whose entries they inherit from.

    Parameters
    ----------
    folder
        `params/papers`.
    reproduced
        Names of the papers whose tables are made.
    owners
        As `owners_of_entries` finds them.
    mistakes
        Collects missing folders and files, and ids that two papers use.
    """
    for name in reproduced:
        if not (folder / name).is_dir():
            existing = sorted({file.parent.name for file in owners.values()})
            mistakes.add(
                "papers",
                f"got {name!r}, but there is no folder {folder / name}; there are {', '.join(existing)}"
                + did_you_mean(name, existing),
            )
    parsed = {name: _entries(folder / name, mistakes) for name in reproduced if (folder / name).is_dir()}
    papers = {name: _paper(entries, mistakes) for name, entries in parsed.items()}
    while more := {
        owners[base].parent
        for paper in parsed.values()
        for entry, keys in paper.entries.items()
        for base in bases_of(entry, keys)
        if base in owners and not any(base in other.entries for other in parsed.values())
    } - {paper.folder for paper in parsed.values()}:
        parsed |= {path.name: _entries(path, mistakes) for path in more}
    _require_one_owner(parsed.values(), "entries", "runs.yaml", mistakes)
    _require_one_owner(papers.values(), "released", "released.yaml", mistakes)
    return papers, parsed


def bases_of(entry: str, keys: Mapping[str, Any]) -> list[str]:
    """The entries that an entry inherits from, in the end `default`."""
    base = keys.get("base")
    return [base] if isinstance(base, str) else list(base or ([] if entry == "default" else ["default"]))


def _require_one_owner(papers: Iterable[Entries], kind: str, file: str, mistakes: Mistakes) -> None:
    """Note ids of entries, or of released checkpoints, that two papers use."""
    first: dict[str, Entries] = {}
    for paper in papers:
        for name in getattr(paper, kind):
            if other := first.get(name):
                mistakes.add(
                    f"{paper.folder / file}: {name}",
                    f"is also in {other.folder / file}; an id may be used by one paper only",
                )
            first[name] = paper


def _entries(folder: Path, mistakes: Mistakes) -> Entries:
    runs = read_model(Overlay, folder / "runs.yaml", mistakes, "runs")
    own = _optional_model(PaperFidelityFile, folder / "fidelity.yaml", mistakes)
    fidelity = {"paper": own.paper, "code": own.code} if own else {}
    return Entries(folder=folder, runs=runs or Overlay(), fidelity=fidelity)


def _paper(entries: Entries, mistakes: Mistakes) -> Paper:
    folder = entries.folder
    published: Published = {}
    try:
        published = read_published(folder / "published.csv")
    except VseppError as error:
        mistakes.messages.append(str(error))
    released = _optional_model(ReleasedFile, folder / "released.yaml", mistakes, "released")
    claims = _claims(folder, mistakes)
    for name, claim in claims.claims.items() if claims and published else ():
        row = claim.row if isinstance(claim, Difference) else None
        for metric in claim.published if row else ():
            if not published.get(("", row or ""), {}).get(metric):
                mistakes.add(
                    f"{folder / 'claims.yaml'}: claims.{name}.row",
                    f"published.csv prints no {metric} of a row {row!r}",
                )
    return Paper(
        **vars(entries),
        tables=read_model(TablesFile, folder / "tables.yaml", mistakes),  # type: ignore[arg-type]  # `None` is a mistake
        rows={row["row"]: row["kind"] for row in published.values()},
        released=released.released if released else {},
        claims=claims.claims if claims else {},
    )


def _claims(folder: Path, mistakes: Mistakes) -> ClaimsFile | None:
    """Claims of a paper, with what they inherit of the claims that they quote."""
    file = folder / "claims.yaml"
    content = read_yaml(file, mistakes) if file.is_file() else None
    if content is None:
        return None
    whole = {}
    for name, claim in content.items():
        quotes = claim.get("quotes") if isinstance(claim, dict) else None
        if isinstance(quotes, str):
            claim = _with_quoted(claim, quotes, folder.parent, f"{file}: claims.{name}", mistakes)
        whole[name] = claim
    return validate(ClaimsFile, {"claims": whole}, str(file), mistakes)


def _with_quoted(
    claim: dict[str, Any], quotes: str, papers: Path, where: str, mistakes: Mistakes
) -> dict[str, Any]:
    """A claim with what it inherits of the claim that it quotes, `<paper>/<claim>`; notes what it states otherwise."""
    paper, _, name = quotes.partition("/")
    file = papers / paper / "claims.yaml"
    known = (read_yaml(file, mistakes) or {}) if file.is_file() else {}
    quoted = known.get(name)
    if not isinstance(quoted, dict):
        claims = f"{file} has {', '.join(known)}" if known else f"there is no {file}"
        mistakes.add(
            f"{where}.quotes",
            f"got {quotes!r}; expected <paper>/<claim>: {claims}{did_you_mean(name, known)}",
        )
        return claim
    for key, value in claim.items():
        if key not in OF_ITS_OWN and value != quoted.get(key):
            has = f"has {quoted[key]!r}" if key in quoted else "has none"
            mistakes.add(f"{where}.{key}", f"got {value!r}; {quotes}, which it quotes, {has}: leave it out")
    # What it is compared with, and where it stands, is its own.
    return {**{key: value for key, value in quoted.items() if key not in ("runs", "row", "place")}, **claim}


def _optional_model(model: type[M], path: Path, mistakes: Mistakes, inside: str | None = None) -> M | None:
    """A file that a paper need not have."""
    return read_model(model, path, mistakes, inside) if path.is_file() else None
