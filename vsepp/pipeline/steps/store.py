"""Images → the image store: every image decoded and resized once."""

from __future__ import annotations

from pathlib import Path

from vsepp.base.spec import StoreSpec
from vsepp.pipeline.step import Facts, Inputs, Job, Step, no_raw


def run(spec: StoreSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Decode and resize every image once, into the image store."""
    from vsepp.data.decode import make_store

    return make_store(spec, inputs["corpus"].parent, inputs, out, job.state, job.threads or 1)


def name(spec: StoreSpec, label: str) -> str:
    """The corpus, and how its images are resized."""
    return f"{label}-{spec.resize}{spec.side}{'-turned' * (spec.orientation == 'applied')}"


STEP = Step(
    "store",
    StoreSpec,
    run,
    phase="corpus",
    folder="results/{preset}/stores/{name}",
    modules=lambda spec: ["vsepp.data.decode"],
    name=name,
    reads={"corpus": "images.parquet", "scenes": ""},
    recorded=no_raw,
    files=lambda spec: ["images.npy", "sizes.npy"],
    versioned=False,
    threads="all",
    resumes=True,
)
