"""Arrays of `.npz` files; nothing is unpickled."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np

from vsepp.errors import did_you_mean, refuse
from vsepp.user_files import reading, require_file


def own_arrays(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an `.npz` that vsepp wrote; damage raises what it raises."""
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)


def read_arrays(path: Path, known: Collection[str], expected: str) -> dict[str, np.ndarray]:
    """All arrays of an `.npz` that others wrote.

    Parameters
    ----------
    path
        The file.
    known
        Names that arrays may have; any may be missing.
    expected
        What the file should be, for messages: `an .npz of embeddings`.

    Raises
    ------
    VseppError
        If it is no whole archive of arrays of these names, or one of them holds Python objects.
    """
    require_file(path, expected)
    found = {}
    with reading(path, expected), np.load(path, allow_pickle=False) as arrays:
        unknown = [f"{name}{did_you_mean(name, known)}" for name in arrays.files if name not in known]
        refuse(unknown, f"{path}: arrays of no known name", f"Expected {', '.join(known)}.")
        for name in arrays.files:
            with reading(f"{path}: {name}", "a whole array, without Python objects"):
                found[name] = arrays[name]
    return found
