"""The features that the authors published with their captions → the features of a corpus's images."""

from __future__ import annotations

from pathlib import Path

from vsepp.base.spec import CorpusSpec, with_files
from vsepp.pipeline.step import Facts, Inputs, Job, Step
from vsepp.pipeline.steps.store import IMAGES


def run(spec: CorpusSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Convert the features that the authors published with their captions."""
    from vsepp.data.tables import read_tables
    from vsepp.features.precomputed import import_precomputed

    images, _ = read_tables(inputs["images"].parent)
    return import_precomputed(with_files(spec, job.raw), images, out)


def feature_files(spec: CorpusSpec, raw: Inputs) -> Inputs:
    """The raw files that hold features."""
    from vsepp.features.precomputed import raw_features

    return raw_features(with_files(spec, raw))


STEP = Step(
    "published",
    CorpusSpec,
    run,
    phase="features",
    folder="results/{preset}/features/{name}",
    modules=("vsepp.features.precomputed",),
    name=lambda spec, inputs, label: f"{inputs['images'].name}-published",
    reads={"images": IMAGES},
    known_raw=feature_files,
    files=("features.npy",),
    takes=("threads",),
    # The number of features is unknown before they are read.
)
