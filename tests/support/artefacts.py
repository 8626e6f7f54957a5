"""Rows of a plan's table that no parameters made, and tables of them."""

from dataclasses import replace
from pathlib import Path

from vsepp.pipeline.settings import ResourceKeys
from vsepp.pipeline.step import Artefact, Input
from vsepp.pipeline.steps import STEPS
from vsepp.pipeline.table import ArtefactTable, SourceFile


def artefact(kind, folder, spec, code, inputs=None, raw=None, files=()):
    """An artefact of a kind with a digest of code, named as its folder; others read these files of it."""
    step = replace(STEPS[kind], files=lambda spec: files)
    read = {role: Input(path) for role, path in (inputs or {}).items()}
    read |= {role: Input(path, raw=path.name) for role, path in (raw or {}).items()}
    return with_code(Artefact(step, folder.name, folder, spec, read), code)


def changed(original, *, code=None, inputs=None, **changes):
    """The same artefact with other values."""
    read = {} if inputs is None else {"inputs": {role: Input(path) for role, path in inputs.items()}}
    return with_code(replace(original, **read, **changes), code or original.code)


def with_code(original, code):
    """An artefact with a digest of code of one's own."""
    original.__dict__["code"] = code
    return original


def row(kind, folder, spec, raw=None, **inputs):
    """An artefact in a folder, of inputs and raw files of one's own."""
    read = {role: Input(Path(path)) for role, path in inputs.items()}
    read |= {role: Input(Path(path), raw=role) for role, path in (raw or {}).items()}
    return Artefact(STEPS[kind], folder.name, folder, spec, read)


def written(folder, *artefacts, sources=None, lock="sources.lock.yaml"):
    """The file of a table of these artefacts, and of raw files: source → where it is fetched to."""
    files = {source.file: SourceFile(source, path, False) for source, path in (sources or {}).items()}
    table = {(row.kind, row.name): row for row in artefacts}
    resources = ResourceKeys(threads=1, memory_mb=1, keep_tapes=True)
    return ArtefactTable("own", "own", Path(lock), resources, files, table).write(folder)
