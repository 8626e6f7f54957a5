"""List the trained models that are here."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vsepp.cli.common import add_step
from vsepp.cli.parameters import add_plan_options, plan_of
from vsepp.errors import VseppError

if TYPE_CHECKING:
    from vsepp.config import Plan


def add_steps(steps: Any) -> None:
    """Add `models`."""
    parser = add_step(steps, "models", models, "list trained models with their metrics and digests")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    add_plan_options(parser)


def models(given: argparse.Namespace) -> None:
    """List the models that are there."""
    found = list_models(plan_of(given))
    if given.json:
        print(json.dumps(found, indent=1))
        return
    if not found:
        raise VseppError("no trained models here; train them (dvc repro) or get them (vsepp sync)")
    columns = {
        "run": "run", "seed": "seed", "protocol": "protocol", "i2t_r1": "caption R@1", "t2i_r1": "image R@1",
        "rsum": "rsum", "best_epoch": "best epoch", "megabytes": "MB", "digest": "digest", "commit": "commit",
    }  # fmt: skip
    rows = [list(columns.values()), *([_cell(entry[key]) for key in columns] for entry in found)]
    widths = [max(len(row[k]) for row in rows) for k in range(len(columns))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    if any(entry["commit"].endswith("+") for entry in found):
        print("\n+ made with uncommitted changes of code or parameters, or from something that was")


def _cell(value: Any) -> str:
    return "–" if value is None else f"{value:.1f}" if isinstance(value, float) else str(value)


def list_models(plan: Plan) -> list[dict[str, Any]]:
    """Models of a plan that are there, an entry for each protocol that they were evaluated under.

    Returns
    -------
    list
        `run`, `seed`, `folder`, `digest` (first twelve digits of that of the weights), `commit` (with `+` where some
        code or parameters were not committed), `uncommitted` (what of its making that was: `itself`, or roles such as `features`),
        `best_epoch`, `megabytes`, and `protocol`, `i2t_r1`, `t2i_r1`, `rsum`, which are `None`
        where the model was not evaluated since it was trained.
    """
    from vsepp.config.artefacts import metrics_folder, run_folder
    from vsepp.provenance.manifest import MANIFEST, dirty_parts, read_manifest

    found = []
    for name in plan.models:
        for seed in plan.seeds_of(name):
            folder = run_folder(plan, name, seed)
            weights = folder / "model.safetensors"
            if not (folder / MANIFEST).is_file() or not weights.is_file():  # not trained, or not to its end
                continue
            manifest = read_manifest(folder)
            entry = {
                "run": name,
                "seed": seed,
                "folder": str(folder),
                "digest": manifest["outputs"]["model.safetensors"][:12],
                "commit": str(manifest["git"]["commit"])[:10] + ("+" if dirty_parts(manifest) else ""),
                "uncommitted": dirty_parts(manifest),
                "best_epoch": manifest["facts"].get("best_epoch"),
                "megabytes": weights.stat().st_size / 1e6,
            }
            metrics = metrics_folder(plan, name, seed) / "metrics.json"
            found += [{**entry, **scores} for scores in _scores(metrics, folder)]
    return found


def _scores(metrics: Path, run: Path) -> list[dict[str, Any]]:
    """Recalls under each protocol, of this very model: those of an earlier training of it are no recalls of it."""
    from vsepp.provenance.manifest import artefact_digest, read_manifest

    if not metrics.is_file() or read_manifest(metrics)["inputs"].get("run") != artefact_digest(run):
        return [dict.fromkeys(("protocol", "i2t_r1", "t2i_r1", "rsum"))]
    content = json.loads(metrics.read_text(encoding="utf-8"))
    return [
        {
            "protocol": protocol,
            "i2t_r1": values["image_to_text"]["r1"],
            "t2i_r1": values["text_to_image"]["r1"],
            "rsum": values["rsum"],
        }
        for protocol, values in content.items()
    ]
