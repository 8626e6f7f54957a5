"""Image store → the features of every image under a fixed crop: one pass of a frozen encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vsepp.base.spec import EncoderSpec, FeaturesSpec
from vsepp.pipeline.making import take_machine
from vsepp.pipeline.step import Artefacts, Facts, Inputs, Job, Role, Step

READS = {"store": Role("folder of the image store"), "encoder": Role("folder of the encoder")}


def run(spec: FeaturesSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Compute the 1C or 10C features of every image, or those of its regions."""
    from vsepp.features.extract import extract_features

    device, images, encoder, facts = open_pass(spec.encoder, inputs, job, "features", grid=spec.grid)
    extract_features(images, encoder, spec.crop, out, job.state, device=device)
    return facts


def open_pass(
    spec: EncoderSpec, inputs: Inputs, job: Job, kind: str, *, grid: bool = False
) -> tuple[Any, Any, Any, Facts]:
    """Inputs of a pass of a frozen encoder: the device, the images, the encoder; and the facts."""
    from vsepp.base.placement import Placing
    from vsepp.data.store import open_store
    from vsepp.features.crops import place_images, place_of_images
    from vsepp.models.encoder import load_encoder

    device, facts = take_machine(job, kind)
    images = place_images(open_store(inputs["store"]), Placing(device, job.data_on, job.device_share))
    facts["data_on"] = {"image store": place_of_images(images)}
    return device, images, load_encoder(spec, inputs["encoder"], grid=grid), facts


def name(spec: FeaturesSpec, inputs: Artefacts, label: str) -> str:
    """The store, the encoder and the crop, or the grid."""
    return f"{inputs['store'].name}-{inputs['encoder'].name}-{_images_as(spec)}"


def _images_as(spec: FeaturesSpec) -> str:
    return "grid" if spec.grid else spec.crop.kind


STEP = Step(
    "features",
    FeaturesSpec,
    run,
    phase="features",
    folder="results/{preset}/features/{name}",
    modules=("vsepp.features.extract",),
    components=lambda spec: [spec.encoder.component],
    name=name,
    reads=READS,
    files=("features.npy",),
    resumes=True,
    takes=("device", "device_share", "threads", "data_on"),
)
