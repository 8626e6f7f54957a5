"""Image store → the features of every image under a fixed crop: one pass of a frozen encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vsepp.provenance.artefacts import Artefact, Job, Role, Step, Work
from vsepp.spec import CorpusSpec, FeaturesSpec
from vsepp.steps.making import take_machine
from vsepp.steps.sizes import encoder_pass, encoder_size, images_of, product

READS = {"store": Role("folder of the image store"), "encoder": Role("folder of the encoder")}


def run(spec: FeaturesSpec, inputs: Mapping[str, Path], out: Path, job: Job) -> Mapping[str, Any]:
    """Compute the 1C or 10C features of every image."""
    from vsepp.data.store import open_store
    from vsepp.features.crops import place_images, place_of_images
    from vsepp.features.extract import extract_features
    from vsepp.models.encoder import load_encoder
    from vsepp.runtime.placement import Placing

    device, facts = take_machine(job, "features")
    images = place_images(open_store(inputs["store"]), Placing(device, job.data_on, job.device_share))
    encoder = load_encoder(spec.encoder, inputs["encoder"])
    extract_features(images, encoder, spec.crop, out, job.state, device=device)
    return {**facts, "data_on": {"image store": place_of_images(images)}}


def name(spec: FeaturesSpec, inputs: Mapping[str, Artefact], label: str) -> str:
    """The store, the encoder and the crop."""
    return f"{inputs['store'].name}-{inputs['encoder'].name}-{spec.crop.kind}"


def work(spec: FeaturesSpec, corpus: CorpusSpec | None) -> Sequence[Work]:
    """Crops through the encoder."""
    crops = 10 if spec.crop.kind == "10C" else 1
    return [encoder_pass(spec.encoder, product(images_of(corpus), crops), spec.encoder.precision)]


STEP = Step(
    "features",
    FeaturesSpec,
    run,
    title="features",
    phase="features",
    folder="results/{preset}/features/{name}",
    modules=("vsepp.features.extract",),
    components=lambda spec: [spec.encoder.component],
    name=name,
    reads=READS,
    files=("features.npy",),
    resumes=True,
    takes=("device", "device_share", "threads", "data_on"),
    size=lambda spec, corpus: product(images_of(corpus), encoder_size(spec.encoder)[0], 4),
    work=work,
    label=lambda spec: f"{spec.encoder.name} {spec.crop.kind}",
)
