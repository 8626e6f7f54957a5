"""The paper's own numbers."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from vsepp.errors import VseppError


def read_published(path: Path) -> pd.DataFrame:
    """The paper's cells, indexed by table and row; empty cells are NaN or an empty string.

    Raises
    ------
    VseppError
        When the file is missing or a table has a row twice.
    """
    if not path.is_file():
        raise VseppError(f"{path}: no such file; it holds the paper's numbers and belongs to the repository")
    texts = ["table", "row", "kind", "system", "encoder", "finetuned", "dataset", "trainset", "protocol"]
    published = pd.read_csv(path, dtype=dict.fromkeys([*texts, "citation", "note"], str))
    published = published.fillna(dict.fromkeys([*texts, "citation", "note"], ""))
    twice = published.duplicated(["table", "row"])
    if twice.any():
        found = published.loc[twice, "row"].iloc[0]
        raise VseppError(f"{path}: row {found} is there twice in one table; keep one")
    return published.set_index(["table", "row"])
