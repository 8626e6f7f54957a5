"""The table of a plan: all artefacts of one invocation, and what a job may use of the machine.

It is written whole when the workflow is read, and a job reads its row there: parameters that are edited meanwhile change nothing that
is under way.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from vsepp.base.declared import FOLDS
from vsepp.base.devices import visible_gpus
from vsepp.base.digests import value_digest
from vsepp.base.errors import VseppError, did_you_mean
from vsepp.base.files import read_json, reading, write_text
from vsepp.base.manifest import MANIFEST, manifest_if_intact
from vsepp.base.spec import SourceSpec, from_dict, to_dict
from vsepp.pipeline.making import make
from vsepp.pipeline.settings import ResourceKeys
from vsepp.pipeline.step import Artefact, Input, owner_of
from vsepp.pipeline.steps import STEPS

PLANS = Path("results") / ".state" / "plans"
"""Folder of the written tables, each named by its digest."""

LOST = Path("results") / ".state" / "lost"
"""File that is newer than an artefact whose manifest was lost."""

_EXPECTED = "the plan of a workflow, of this version of vsepp: `snakemake` writes it when it is called"


@dataclass(frozen=True)
class SourceFile:
    """A raw file that something reads, and where it is."""

    spec: SourceSpec
    path: Path
    """Where it is, or will be fetched to."""
    own: bool
    """Whether it was found in the user's own folder, under its name or a name that its source accepts."""


@dataclass(frozen=True)
class ArtefactTable:
    """What one invocation makes, and with what."""

    preset: str
    variant: str
    lock: Path
    """File of the checksums that first downloads recorded."""
    resources: ResourceKeys
    files: dict[str, SourceFile]
    """Name → raw file, the user's own files included."""
    table: Mapping[tuple[str, str], Artefact]
    """Kind and name → artefact, in the order of making."""

    @property
    def results(self) -> Path:
        """Folder of the artefacts that the variants of the preset share, relative to the working folder."""
        return Path("results") / self.preset

    def of_kind(self, kind: str) -> dict[str, Artefact]:
        """Name → artefact of a kind."""
        return {name: self.table[of, name] for of, name in self.table if of == kind}

    def row(self, kind: str, name: str) -> Artefact:
        """An artefact by its name.

        Raises
        ------
        VseppError
            If the table has none of that name.
        """
        if (kind, name) not in self.table:
            named = self.of_kind(kind)
            near = did_you_mean(name, named) or f"; there are {', '.join(named) or 'none'}"
            raise VseppError(f"{name}: no {kind} of preset {self.preset}{near}")
        return self.table[kind, name]

    def owner(self, path: Path) -> Artefact | None:
        """As `owner_of`, among the artefacts of the table."""
        return owner_of(path, self._by_folder)

    def behind(self, artefact: Artefact) -> Collection[Artefact]:
        """All artefacts that an artefact is made from, directly or indirectly."""
        ancestors: dict[Path, Artefact] = {}
        for source in self._sources(artefact):
            if source.folder not in ancestors:
                ancestors |= {ancestor.folder: ancestor for ancestor in (source, *self.behind(source))}
        return ancestors.values()

    def _sources(self, artefact: Artefact) -> list[Artefact]:
        """The artefacts of the table that an artefact reads."""
        return [owner for path in artefact.paths.values() if (owner := self.owner(path))]

    def needed(self, ends: Iterable[Artefact] = ()) -> list[Artefact]:
        """`ends`, by default the evaluations of all models, and all artefacts that they are made from."""
        needed: set[Artefact] = set()
        for end in ends or self.of_kind("evaluation").values():
            needed |= {end, *self.behind(end)}
        return [artefact for artefact in self.table.values() if artefact in needed]

    @cached_property
    def _by_folder(self) -> dict[Path, Artefact]:
        return {artefact.folder: artefact for artefact in self.table.values()}

    @property
    def downloads(self) -> dict[str, SourceFile]:
        """Files that are fetched, or lie where they would be fetched to."""
        return {name: file for name, file in self.files.items() if not file.own}

    @property
    def was_fetched(self) -> bool:
        """Whether results are here and the workflow was never read here: Snakemake takes them for out of date."""
        manifests = (artefact.folder / MANIFEST for artefact in self.table.values())
        return not PLANS.is_dir() and any(manifest.is_file() for manifest in manifests)

    def lost(self, artefact: Artefact, note: Path = LOST) -> list[str]:
        """A file that is written now, where an artefact is here and its manifest is missing or broken; else none."""
        if not artefact.folder.is_dir() or manifest_if_intact(artefact.folder):
            return []
        with suppress(OSError):  # as of `write`
            write_text(note, f"{time.time_ns()}\n")  # Snakemake compares contents, too
        return [str(note)]

    def gpu_parts(self, artefact: Artefact) -> int:
        """Parts of a GPU that a job takes; a GPU has `runs_per_gpu` of them."""
        return {"none": 0, "part": 1, "whole": self.resources.runs_per_gpu}[artefact.step.gpu(artefact.spec)]

    def gpu_share(self, artefact: Artefact) -> int:
        """How many jobs like this one share a GPU."""
        return self.resources.runs_per_gpu if artefact.step.gpu(artefact.spec) == "part" else 1

    def threads(self, artefact: Artefact, cores: int) -> int:
        """Cores of a job on a machine with so many; jobs that share a GPU share the cores of one job, too."""
        preset = self.resources.threads
        if visible_gpus():
            preset = max(1, preset // self.gpu_share(artefact))
        return min(cores, {"one": 1, "preset": preset, "all": cores}[artefact.step.threads])

    def priority(self, artefact: Artefact) -> int:
        """Of jobs that wait, the job with the largest number goes first: what takes all cores, before other jobs hold some of them; then
        what lies on the longest way from raw files to a report, counted in steps."""
        if artefact.step.threads == "all":
            return 1 + max(self._ways.values())
        return self._ways[artefact.folder]

    @cached_property
    def _ways(self) -> dict[Path, int]:
        read = {
            artefact.folder: [source.folder for source in self._sources(artefact)]
            for artefact in self.table.values()
        }
        before, after = dict.fromkeys(read, 0), dict.fromkeys(read, 0)
        for folder, sources in read.items():
            before[folder] = max((before[source] + 1 for source in sources), default=0)
        for folder, sources in reversed(read.items()):
            for source in sources:
                after[source] = max(after[source], after[folder] + 1)
        return {folder: before[folder] + after[folder] for folder in read}

    def make(self, kind: str, name: str, *, threads: int | None = None, device: str = "auto") -> None:
        """Make an artefact by its name, as its rule does; VseppError if there is none of that name."""
        artefact = self.row(kind, name)
        make(
            artefact,
            device=device,
            device_share=self.gpu_share(artefact),
            threads=threads or self.threads(artefact, len(os.sched_getaffinity(0))),
            data_on=self.resources.data_on,
            checkpoint_seconds=self.resources.checkpoint_seconds,
            test_images=self.test_images(artefact),
        )

    def test_images(self, corpus: Artefact) -> int:
        """Smallest number of test images with which all folds of a corpus's evaluations are full; 0 of any other artefact."""
        if corpus.kind != "corpus":
            return 0
        return max(
            (
                FOLDS.get(name, 0) * evaluation.spec.fold_size
                for evaluation in self.of_kind("evaluation").values()
                if self.corpus_of(evaluation) == corpus
                for name in evaluation.spec.protocols
            ),
            default=0,
        )

    def corpus_of(self, evaluation: Artefact) -> Artefact | None:
        """The corpus whose test split a model embedded."""
        run = self.owner(evaluation.inputs["run"].path)
        return self.owner(run.inputs["corpus"].path) if run else None

    def write(self, folder: Path = PLANS) -> Path:
        """Write the table into a folder where no equal one was written before; its path."""
        rows = [
            {
                "kind": artefact.kind,
                "name": artefact.name,
                "folder": str(artefact.folder),
                "spec": to_dict(artefact.spec),
                "inputs": {role: [str(read.path), read.raw] for role, read in artefact.inputs.items()},
                "digest": artefact.digest,
            }
            for artefact in self.table.values()
        ]
        files = {name: [to_dict(file.spec), str(file.path), file.own] for name, file in self.files.items()}
        written = {
            "preset": self.preset,
            "variant": self.variant,
            "lock": str(self.lock),
            "resources": self.resources.model_dump(mode="json"),
            "files": files,
            "rows": rows,
        }
        path, text = folder / f"{value_digest(written)[:16]}.json", json.dumps(written) + "\n"
        # A folder that cannot be written to has no work to begin.
        with suppress(OSError):
            if not path.is_file() or path.read_text(encoding="utf-8") != text:
                write_text(path, text)
        return path


def read_table(path: Path) -> ArtefactTable:
    """Read a table that `ArtefactTable.write` wrote.

    Raises
    ------
    VseppError
        If the file is missing or damaged.
    """
    written = read_json(path, _EXPECTED)
    with reading(path, _EXPECTED):
        if value_digest(written)[:16] != path.stem:
            raise VseppError(f"is not as it was written; expected {_EXPECTED}")
        return ArtefactTable(
            preset=written["preset"],
            variant=written["variant"],
            lock=Path(written["lock"]),
            resources=ResourceKeys(**written["resources"]),
            files={
                name: SourceFile(from_dict(SourceSpec, spec), Path(file), own)
                for name, (spec, file, own) in written["files"].items()
            },
            table=_WrittenRows(path, {(row["kind"], row["name"]): row for row in written["rows"]}),
        )


class _WrittenRows(Mapping[tuple[str, str], Artefact]):
    """Rows of a written table. Each is read when it is looked up, since a job needs hardly any but its own."""

    def __init__(self, path: Path, rows: dict[tuple[str, str], dict[str, Any]]) -> None:
        self._path, self._rows, self._read = path, rows, dict[tuple[str, str], Artefact]()

    def __getitem__(self, key: tuple[str, str]) -> Artefact:
        row = self._rows[key]
        if key not in self._read:
            with reading(self._path, _EXPECTED):
                self._read[key] = _artefact(row)
        return self._read[key]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def _artefact(row: dict[str, Any]) -> Artefact:
    step = STEPS[row["kind"]]
    inputs = {role: Input(Path(path), raw) for role, (path, raw) in row["inputs"].items()}
    artefact = Artefact(step, row["name"], Path(row["folder"]), from_dict(step.spec, row["spec"]), inputs)
    # Of the code with which the work began.
    artefact.__dict__["digest"] = row["digest"]
    return artefact
