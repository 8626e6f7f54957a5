"""Installed packages that offer a component, as pip leaves them."""

from pathlib import Path

from vsepp.components import KINDS


def write_package(folder: Path, kind: str, name: str, source: str) -> Path:
    """Write a module with its entry point below `folder`, which is to be on `sys.path`; gives the folder."""
    module = f"{name}_of_others"
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{KINDS[kind]}]\n{name} = {module}\n")
    (folder / f"{module}.py").write_text(source)
    return folder
