"""Image store → the random-crop features of every training caption and epoch (the tape): one pass of a frozen encoder."""

from __future__ import annotations

from pathlib import Path

from vsepp.base.spec import TapeSpec
from vsepp.pipeline.step import Artefacts, Facts, Inputs, Job, Step, short_digest
from vsepp.pipeline.steps.features import READS, open_pass
from vsepp.pipeline.steps.tokens import CAPTIONS


def run(spec: TapeSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Compute the features of random crops for every training caption and epoch (feature cache)."""
    import numpy as np

    from vsepp.data.tables import read_tables
    from vsepp.features.crops import CaptionCrops
    from vsepp.features.tape_writer import write_tape

    device, images, encoder, facts = open_pass(spec.encoder, inputs, job, "tape")
    _, captions = read_tables(inputs["captions"].parent)
    crops = CaptionCrops.from_table(captions, spec.crop, spec.draw)
    trained = np.flatnonzero(np.isin(captions["split"], spec.splits))
    write_tape(images, encoder, crops, trained, spec.epochs, out, job.state, device=device)
    return facts


def name(spec: TapeSpec, inputs: Artefacts, label: str) -> str:
    """The store, the encoder, the crops and the epochs."""
    drawn = f"draw{spec.draw}-{spec.epochs}epochs"
    return f"{inputs['store'].name}-{inputs['encoder'].name}-{short_digest(spec.crop)}-{drawn}"


STEP = Step(
    "tape",
    TapeSpec,
    run,
    phase="models",
    folder="results/{preset}/tapes/{name}",
    modules=("vsepp.features.tape_writer",),
    components=lambda spec: [spec.encoder.component],
    name=name,
    reads={**READS, "captions": CAPTIONS},
    versioned=False,
    resumes=True,
    takes=("device", "device_share", "threads", "data_on"),
)
