"""The steps, one module each: what is made, from what, and how.

A module below declares `STEP`; there is no list of steps.
The rules of the workflow call `vsepp make KIND NAME`. Declarations are read at every start, so a step imports the modules that it
computes with inside its `run`.
"""

from __future__ import annotations

import importlib
import pkgutil

from vsepp.pipeline.step import Step


def _declared() -> dict[str, Step]:
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    steps = [module.STEP for module in modules if hasattr(module, "STEP")]
    return {step.kind: step for step in steps}


STEPS = _declared()
"""Kind of artefact → its step."""
