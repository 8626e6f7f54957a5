"""Metrics and training curves → tables, figures and pages."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vsepp.cli.common import add_output, add_spec, add_step
from vsepp.errors import VseppError
from vsepp.provenance import code
from vsepp.provenance.manifest import MANIFEST, recorded, require_input, require_intact
from vsepp.spec import from_json, to_dict

if TYPE_CHECKING:
    from vsepp.reporting.specs import ReportSpec, TrainedSpec

_MADE = {
    "run": "the model behind it was trained",
    "embeddings": "its embeddings were made",
    "metrics": "it was measured",
}


def add_steps(steps: Any) -> None:
    """Add `report`."""
    parser = add_step(steps, "report", report, "write all tables and figures and the page that holds them")
    add_spec(parser, "ReportSpec")
    add_output(parser)


def report(given: argparse.Namespace) -> None:
    """Write the report, and its headline beside it and on standard output."""
    from vsepp.provenance.manifest import write_text
    from vsepp.reporting.entry import DEFAULT_VARIANT, write_entry
    from vsepp.reporting.render import make_report
    from vsepp.reporting.specs import ReportSpec

    spec = from_json(ReportSpec, given.spec)
    for model in spec.models:
        require_model(model)
    given.output.mkdir(parents=True, exist_ok=True)
    with recorded(
        given.output, "report", spec=to_dict(spec), inputs=report_inputs(spec), code=code.report_code()
    ):
        headline = make_report(spec, given.output)
        write_text(given.output / "headline.txt", headline + "\n")
    if spec.context.variant == DEFAULT_VARIANT:
        write_entry(given.output)
    print(headline)


def report_inputs(spec: ReportSpec) -> dict[str, Path]:
    """What a report is made of: metrics and histories of every model, and the paper's numbers."""
    inputs = {"published": Path(spec.published)}
    for model in spec.models:
        name = f"{model.model}/seed-{model.seed}"
        inputs[f"metrics/{name}"] = Path(model.metrics)
        if model.trained:
            inputs[f"history/{name}"] = Path(model.run) / "history.csv"
    return inputs


def require_model(model: TrainedSpec) -> None:
    """Refuse metrics and curves of another model than the one that the present parameters and code make.

    Raises
    ------
    VseppError
        Where a manifest or a file was changed, or the model behind it is another one.
    """
    metrics, run = Path(model.metrics), Path(model.run)
    of_metrics = require_intact(metrics)
    for name in ("run", "embeddings"):
        _require_same(model, name, metrics, of_metrics["ancestors"].get(name, {}))
    _require_same(model, "metrics", metrics, of_metrics)
    if (run / MANIFEST).is_file():
        require_input(metrics, "run", run)
    if model.trained:
        _require_same(model, "run", run, require_intact(run, "history.csv"))


def _require_same(model: TrainedSpec, name: str, folder: Path, made: Mapping[str, Any]) -> None:
    """Refuse a model's weights, embeddings or metrics that present parameters and code would make otherwise."""
    maker = model.made_by[name]
    for what, key, wanted in (
        ("parameters", "spec_digest", maker.spec_digest),
        ("code", "code_digest", maker.code_digest),
    ):
        if made.get(key) != wanted:
            commit = str({**made, **made.get("git", {})}.get("commit"))[:10]
            raise VseppError(
                f"{folder}: {_MADE[name]} with other {what} than the present ones (expected digest {wanted[:12]}, got "
                f"{str(made.get(key))[:12]}, commit {commit}), as a checkout of another commit can leave it. Get what "
                f"belongs to this commit: vsepp sync; or make it: snakemake --cores all --forcerun {maker.target} -- "
                f"{model.metrics}/metrics.json"
            )
