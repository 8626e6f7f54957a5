"""The leaderboard: submissions as a page, a table for each test set and truth, in groups of those that no test tells apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vsepp.errors import VseppError
from vsepp.evaluation.protocols import PROTOCOLS
from vsepp.provenance.manifest import git_state
from vsepp.reporting.groups import letters, standings
from vsepp.reporting.pages import write_page
from vsepp.reporting.records import AT_CHANCE, image_values
from vsepp.reporting.report_specs import DIRECTIONS
from vsepp.reporting.submissions import CARD, Submission, read_submission


def write_leaderboard(folder: Path, out: Path) -> str:
    """Write `index.html` of the submissions below a folder; what was written, in words.

    Raises
    ------
    VseppError
        If a submission has mistakes, or two have one name.
    """
    found = [read_submission(card.parent) for card in sorted(folder.glob(f"*/{CARD}"))]
    folders: dict[str, Path] = {}
    for one in found:
        if (other := folders.setdefault(one.card.name, one.folder)) != one.folder:
            raise VseppError(f"{one.folder}: is called {one.card.name}, as {other} is; give it another name")
    by_test: dict[tuple[str, str, str], list[Submission]] = {}
    for one in found:
        for truth, test in one.card.truths.items():
            by_test.setdefault((one.card.data_set, truth, test.digest), []).append(one)
    tables = [_table(*test, some) for test, some in sorted(by_test.items())]
    data = sorted({name for one in found for name in one.card.training_datasets})
    write_page(
        out / "index.html",
        "leaderboard.html.j2",
        directions=DIRECTIONS,
        tables=tables,
        data=data,
        git=git_state(),
    )
    return f"{len(found)} submissions in {len(tables)} tables"


def _table(data_set: str, truth: str, digest: str, some: Sequence[Submission]) -> dict[str, Any]:
    """What a table shows: all rows rank the same queries and gallery, and the same items are correct."""
    # Seeds of two models have nothing in common, so the first of one is held against the first of the other.
    values = {one.card.name: [image_values(model, truth, "rsum") for model in one.models] for one in some}
    most = max(map(len, values.values()))
    for one in some:
        if "ranks.npz" in one.card.files:  # of a model without seeds, which stands beside each
            values[one.card.name] *= most
    at_chance = {one.card.name: any(truth in model.at_chance for model in one.models) for one in some}
    trouble = {name: AT_CHANCE if found else "" for name, found in at_chance.items()}
    standing = standings({"rsum": {name: dict(enumerate(of)) for name, of in values.items()}}, trouble)[
        "rsum"
    ]
    groups = letters(standing)
    by_name = {one.card.name: one for one in some}
    metrics = ["r1", "r5", "r10"] + ["mapr"] * (truth not in PROTOCOLS)
    shown = [f"{direction}_{metric}" for direction in DIRECTIONS for metric in metrics]

    def mean(one: Submission, metric: str) -> float:
        return float(np.mean([image_values(model, truth, metric) for model in one.models]))

    return {
        "data_set": data_set,
        "truth": truth,
        "test": some[0].card.truths[truth],
        "metrics": metrics,
        "rows": [
            (
                one,
                groups[one.label],
                by_name[one.label],
                {key: mean(by_name[one.label], key) for key in shown},
            )
            for one in standing
        ],
    }
