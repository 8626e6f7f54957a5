"""Rows of a plan's table that no parameters made."""

from dataclasses import replace

from vsepp.pipeline.step import Artefact, Input
from vsepp.pipeline.steps import STEPS


def artefact(kind, folder, spec, code, inputs=None, raw=None, files=()):
    """An artefact of a kind with a digest of code, named as its folder; others read these files of it."""
    step = replace(STEPS[kind], files=lambda spec: files)
    read = {role: Input(path) for role, path in (inputs or {}).items()}
    read |= {role: Input(path, raw=True) for role, path in (raw or {}).items()}
    return with_code(Artefact(step, folder.name, folder, spec, read), code)


def changed(made, *, code=None, inputs=None, **changes):
    """The same artefact with other values."""
    read = {} if inputs is None else {"inputs": {role: Input(path) for role, path in inputs.items()}}
    return with_code(replace(made, **read, **changes), code or made.code)


def with_code(made, code):
    """An artefact with a digest of code of one's own."""
    made.__dict__["code"] = code
    return made
