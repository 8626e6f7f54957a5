"""Image store → the random-crop features of every training caption and epoch (the tape): one pass of a frozen encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vsepp.provenance.artefacts import Artefact, Job, Step, Work, short_digest
from vsepp.spec import CorpusSpec, TapeSpec
from vsepp.steps.features import READS
from vsepp.steps.making import take_machine
from vsepp.steps.sizes import captions_of, encoder_pass, encoder_size, product
from vsepp.steps.tokens import CAPTIONS


def run(spec: TapeSpec, inputs: Mapping[str, Path], out: Path, job: Job) -> Mapping[str, Any]:
    """Compute the random-crop features of every training caption and epoch (the tape)."""
    import numpy as np

    from vsepp.data.store import open_store
    from vsepp.data.tables import read_tables
    from vsepp.features.crops import CaptionCrops, place_images, place_of_images
    from vsepp.features.tape_writer import write_tape
    from vsepp.models.encoder import load_encoder
    from vsepp.runtime.placement import Placing

    device, facts = take_machine(job, "tape")
    _, captions = read_tables(inputs["captions"].parent)
    crops = CaptionCrops.from_table(captions, spec.crop, spec.draw)
    trained = np.flatnonzero(np.isin(captions["split"], spec.splits))
    images = place_images(open_store(inputs["store"]), Placing(device, job.data_on, job.device_share))
    encoder = load_encoder(spec.encoder, inputs["encoder"])
    write_tape(images, encoder, crops, trained, spec.epochs, out, job.state, device=device)
    return {**facts, "data_on": {"image store": place_of_images(images)}}


def name(spec: TapeSpec, inputs: Mapping[str, Artefact], label: str) -> str:
    """The store, the encoder, the crops and the epochs."""
    drawn = f"draw{spec.draw}-{spec.epochs}epochs"
    return f"{inputs['store'].name}-{inputs['encoder'].name}-{short_digest(spec.crop)}-{drawn}"


def rows(spec: TapeSpec, corpus: CorpusSpec | None) -> int | None:
    """Crops in all epochs."""
    return product(captions_of(corpus, spec.splits), spec.epochs)


def work(spec: TapeSpec, corpus: CorpusSpec | None) -> Sequence[Work]:
    """Crops through the encoder."""
    return [encoder_pass(spec.encoder, rows(spec, corpus), spec.encoder.precision)]


STEP = Step(
    "tape",
    TapeSpec,
    run,
    title="random-crop features",
    phase="models",
    folder="results/{preset}/tapes/{name}",
    modules=("vsepp.features.tape_writer",),
    components=lambda spec: [spec.encoder.component],
    name=name,
    reads={**READS, "captions": CAPTIONS},
    versioned=False,
    resumes=True,
    takes=("device", "device_share", "threads", "data_on"),
    size=lambda spec, corpus: product(rows(spec, corpus), encoder_size(spec.encoder)[0], 2),
    work=work,
    label=lambda spec: f"{spec.encoder.name} {spec.crop.kind}",
)
