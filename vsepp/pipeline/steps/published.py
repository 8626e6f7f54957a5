"""The features that the authors published with their captions → the features of a corpus's images."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from vsepp.base.spec import CorpusSpec
from vsepp.pipeline.step import Facts, Input, Inputs, Job, Step, no_raw


def run(spec: CorpusSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Convert the features that the authors published with their captions."""
    from vsepp.features.published import make_published

    return make_published(spec, inputs["corpus"].parent, inputs, out)


def recorded(spec: CorpusSpec, inputs: Mapping[str, Input]) -> Inputs:
    """The corpus, and the raw files that hold features, in a folder too."""
    from vsepp.features.published import raw_features

    return {**no_raw(spec, inputs), **raw_features({role: read.path for role, read in inputs.items()})}


STEP = Step(
    "published",
    CorpusSpec,
    run,
    phase="features",
    folder="results/{preset}/features/{name}",
    modules=lambda spec: ["vsepp.features.published"],
    name=lambda spec, label: f"{label}-published",
    reads={"corpus": "images.parquet"},
    recorded=recorded,
    # The number of features is unknown before they are read.
    files=lambda spec: ["features.npy"],
)
