"""The leaderboard: submissions as a page, a table for each test set and truth, in groups of models that no test tells apart."""

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
    """Write `index.html` of the submissions below a folder, and return what was written, in words.

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
    by_test: dict[tuple[Any, ...], list[Submission]] = {}
    for one in found:
        for truth, test in one.card.truths.items():
            key = one.card.data_set, truth, test.digest, test.fold_size
            by_test.setdefault(key, []).append(one)
    tables = [_table(data_set, truth, some) for (data_set, truth, *_), some in sorted(by_test.items())]
    data = sorted({name for one in found for name in one.card.training_datasets})
    values = {"tables": tables, "data": data, "directions": DIRECTIONS, "git": git_state()}
    write_page(out / "index.html", "leaderboard.html.j2", **values)
    return f"{len(found)} submissions in {len(tables)} tables"


def _table(data_set: str, truth: str, some: Sequence[Submission]) -> dict[str, Any]:
    """What a table shows: all rows rank the same queries and gallery, and the same items are correct."""
    by_name = {one.card.name: one for one in some}
    values = {
        name: [image_values(model, truth, "rsum") for model in one.models] for name, one in by_name.items()
    }
    if len({len(seed) for seeds in values.values() for seed in seeds}) > 1:
        raise VseppError(
            f"{data_set}, {truth}: submissions of one digest have other queries: {', '.join(values)}"
        )
    # Seeds of two models have nothing in common, so the first seed of one model is held against the first of the other; a model
    # without seeds stands beside each seed.
    most = max(map(len, values.values()))
    seeds = {
        name: of * (most if "ranks.npz" in by_name[name].card.files else 1) for name, of in values.items()
    }
    chance = {name: any(truth in model.at_chance for model in one.models) for name, one in by_name.items()}
    trouble = {name: AT_CHANCE if found else "" for name, found in chance.items()}
    by_seed = {name: dict(enumerate(of)) for name, of in seeds.items()}
    found = standings({"rsum": by_seed}, trouble, many=True)["rsum"]
    groups = letters(found)
    metrics = ["r1", "r5", "r10"] + ["mapr"] * (truth not in PROTOCOLS)
    rows = []
    for standing in found:
        one = by_name[standing.label]
        scores = {
            key: float(np.mean([image_values(model, truth, key) for model in one.models]))
            for key in (f"{direction}_{metric}" for direction in DIRECTIONS for metric in metrics)
        }
        rows.append((standing, groups[standing.label], one, scores))
    test = some[0].card.truths[truth]
    return {"data_set": data_set, "truth": truth, "test": test, "metrics": metrics, "rows": rows}
