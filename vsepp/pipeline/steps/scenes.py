"""The embedded corpus: rendered scenes with captions, in the raw layouts of COCO and Flickr30K."""

from __future__ import annotations

from pathlib import Path

from vsepp.base.spec import ScenesSpec
from vsepp.pipeline.step import Facts, Inputs, Job, Step


def run(spec: ScenesSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Draw scenes and write them in the layouts of COCO and Flickr30K."""
    from vsepp.scenes.layouts import generate

    return generate(spec, out, job.threads or 1)


STEP = Step(
    "scenes",
    ScenesSpec,
    run,
    phase="corpus",
    folder="resources/{name}",
    modules=lambda spec: ["vsepp.scenes.layouts"],
    name=lambda spec, label: "scenes",
    versioned=False,
    seed=lambda spec: spec.seed,
    threads="all",
)
