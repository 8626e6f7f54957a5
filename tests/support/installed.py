"""A package that is installed beside this one and offers a component."""

import importlib
import textwrap
from functools import cache

from vsepp import components


def install(monkeypatch, folder, kind, name, source):
    """Put a module with its entry point on the path; `kind` is the group, such as `vsepp.similarity`."""
    (folder / f"{name}.py").write_text(textwrap.dedent(source), encoding="utf-8")
    facts = folder / f"{name}-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (facts / "entry_points.txt").write_text(f"[{kind}]\n{name} = {name}\n", encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    importlib.invalidate_caches()
    # What is installed is looked up once a process: here before the package came, and again after it has gone.
    monkeypatch.setattr(components, "_entry_points", cache(components._entry_points.__wrapped__))
