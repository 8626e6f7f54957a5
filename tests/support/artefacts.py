"""Rows of a plan's table that no parameters made."""

from dataclasses import replace

from vsepp.pipeline.step import Artefact
from vsepp.pipeline.steps import STEPS


def artefact(kind, folder, spec, code, inputs=None, raw=None, files=()):
    """An artefact of a kind, named as its folder; others read these files of it."""
    step = replace(STEPS[kind], files=files)
    return Artefact(step, folder.name, folder, spec, code, inputs or {}, raw or {})
