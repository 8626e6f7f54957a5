"""Raw files → two tables: images with their splits, and captions with their images."""

from __future__ import annotations

from pathlib import Path

from vsepp.base.spec import CorpusSpec
from vsepp.pipeline.step import Facts, Inputs, Job, Step


def run(spec: CorpusSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Read splits and captions from the raw files."""
    from vsepp.data.corpus import make_tables

    return make_tables(spec, inputs, out, job.test_images)


STEP = Step(
    "corpus",
    CorpusSpec,
    run,
    phase="corpus",
    folder="results/{preset}/corpora/{name}",
    modules=lambda spec: ["vsepp.data.corpus"],
    components=lambda spec: [("reader", spec.reader.name)],
    reads={"scenes": ""},
    files=lambda spec: ["images.parquet", "captions.parquet"],
)
