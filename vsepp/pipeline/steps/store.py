"""Images → the image store: every image decoded and resized once."""

from __future__ import annotations

from pathlib import Path

from vsepp.base.spec import CorpusSpec, StoreSpec, from_dict, with_files
from vsepp.pipeline.step import Artefacts, Facts, Inputs, Job, Role, Step
from vsepp.pipeline.steps.corpus import SCENES

IMAGES = Role("the table images.parquet of the corpus", "images.parquet")


def run(spec: StoreSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Decode and resize every image once, into the image cache."""
    from vsepp.base.manifest import read_manifest
    from vsepp.data.store import build_store
    from vsepp.data.tables import read_tables

    images, _ = read_tables(inputs["images"].parent)
    corpus = from_dict(CorpusSpec, read_manifest(inputs["images"])["spec"])
    return build_store(
        images,
        with_files(corpus, job.raw),
        spec,
        out,
        job.state,
        job.threads or 1,
    )


def name(spec: StoreSpec, inputs: Artefacts, label: str) -> str:
    """The corpus, and how its images are resized."""
    turned = "-turned" * (spec.orientation == "applied")
    return f"{inputs['images'].name}-{spec.resize}{spec.side}{turned}"


STEP = Step(
    "store",
    StoreSpec,
    run,
    phase="corpus",
    folder="results/{preset}/stores/{name}",
    modules=("vsepp.data.store",),
    name=name,
    reads={"images": IMAGES, "scenes": SCENES},
    known_raw=lambda spec, raw: {},
    files=("images.npy", "sizes.npy"),
    versioned=False,
    resumes=True,
    takes=("threads",),
)
