"""Find a component that a run names: a module of a package, imported when it is asked for.

There is no registry: a module that lists all losses would tie every run to all of them, and an edit of one
loss would retrain the runs of every other.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from vsepp.errors import VseppError


def component(package: str, name: str, attribute: str) -> Any:
    """Give `attribute` of the module `package.name`.

    Parameters
    ----------
    package
        Dotted name, such as `vsepp.losses`.
    name
        A module in it, such as `max_of_hinges`.
    attribute
        What such a module must define; modules without it are helpers and not components.

    Raises
    ------
    VseppError
        When there is no such component, with a list of those there are.
    """
    modules = [module.name for module in pkgutil.iter_modules(importlib.import_module(package).__path__)]
    if name in modules:
        module = importlib.import_module(f"{package}.{name}")
        if hasattr(module, attribute):
            return getattr(module, attribute)
    known = [other for other in modules if hasattr(importlib.import_module(f"{package}.{other}"), attribute)]
    raise VseppError(f"{package}: no component named {name!r}; expected one of {', '.join(sorted(known))}")
