"""Numbers of every model in plain files, for `dvc metrics` and `dvc plots` and anyone's own tools."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from vsepp.provenance.manifest import write_text
from vsepp.reporting.records import SECTIONS
from vsepp.reporting.specs import TrainedSpec

MEASURES = ("r1", "r10")


def write_exports(models: Iterable[TrainedSpec], folder: Path) -> None:
    """Write `metrics/<model>.json` and `curves/<run>-seed-<seed>.csv`.

    The metrics are `<protocol>: {i2t_r1, i2t_r10, t2i_r1, t2i_r10, rsum}`, recalls in per cent, means over the seeds;
    with several seeds the sample standard deviation of rsum is `rsum_sd`. Files of models that are not given are deleted:
    `dvc metrics` and `dvc plots` show all that lies there.
    """
    written = set()
    for name in ("metrics", "curves"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for model, seeds in groupby(models, key=lambda trained: trained.model):
        trained = list(seeds)
        found = [_read(Path(one.metrics) / "metrics.json") for one in trained]
        summary = {protocol: _summary([metrics[protocol] for metrics in found]) for protocol in found[0]}
        written.add(_write(folder / "metrics" / f"{model}.json", json.dumps(summary, indent=1) + "\n"))
        for one in trained:
            if one.trained:
                history = (Path(one.run) / "history.csv").read_text(encoding="utf-8")
                written.add(_write(folder / "curves" / f"{model}-seed-{one.seed}.csv", history))
    for path in [*(folder / "metrics").glob("*.json"), *(folder / "curves").glob("*.csv")]:
        if path not in written:
            path.unlink()


def _write(path: Path, text: str) -> Path:
    write_text(path, text)
    return path


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def _summary(seeds: list[dict[str, Any]]) -> dict[str, float]:
    values = {
        f"{direction}_{measure}": mean(metrics[section][measure] for metrics in seeds)
        for direction, section in SECTIONS.items()
        for measure in MEASURES
    }
    values["rsum"] = mean(metrics["rsum"] for metrics in seeds)
    if len(seeds) > 1:
        values["rsum_sd"] = stdev(metrics["rsum"] for metrics in seeds)
    return values
