"""Image store → small pictures of the test images with their captions, for people to look at."""

from __future__ import annotations

from pathlib import Path

from vsepp.base.spec import PicturesSpec
from vsepp.pipeline.step import Facts, Inputs, Job, Step


def run(spec: PicturesSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Make small pictures of the test images, with captions, for pages."""
    from vsepp.data.store import open_store
    from vsepp.data.tables import read_tables
    from vsepp.data.thumbnails import make_pictures

    images, captions = read_tables(inputs["corpus"])
    return {"images": make_pictures(spec, images, captions, open_store(inputs["store"]), out)}


STEP = Step(
    "pictures",
    PicturesSpec,
    run,
    phase="features",
    folder="results/{preset}/pictures/{name}",
    modules=lambda spec: ["vsepp.data.thumbnails"],
    reads={"corpus": "", "store": ""},
    files=lambda spec: ["pictures.npz", "captions.json"],
)
