"""Embeddings → number of items that score above the correct items, for a range of the images: several jobs share a ranking."""

from __future__ import annotations

from pathlib import Path

from vsepp.provenance.artefacts import Facts, Inputs, Job, Role, Step
from vsepp.spec import CountsSpec


def run(spec: CountsSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Count what scores above the correct items, among a range of the images."""
    import numpy as np

    from vsepp.data.arrays import mapped_arrays
    from vsepp.evaluation.blocks import Vectors
    from vsepp.evaluation.pieces import FILE, counts_of_images

    arrays = mapped_arrays(inputs["embeddings"])
    vectors = Vectors(arrays["image_embeddings"], arrays["caption_embeddings"], spec.similarity)
    images = range(len(vectors.image_embeddings))[job.rows]
    counts = counts_of_images(vectors, arrays["caption_to_image"], slice(images.start, images.stop))
    np.save(out / FILE, counts[None])
    return {"images": len(images)}


def rows(spec: CountsSpec, inputs: Inputs) -> int:
    """Images that were embedded."""
    from vsepp.data.arrays import mapped_arrays

    return len(mapped_arrays(inputs["embeddings"])["image_embeddings"])


STEP = Step(
    "counts",
    CountsSpec,
    run,
    title="counts of what is ranked above",
    phase="results",
    folder="results/{preset}/{variant}/counts/{name}",
    modules=("vsepp.evaluation.pieces",),
    components=lambda spec: [("similarity", spec.similarity.name)],
    name=lambda spec, inputs, label: inputs["embeddings"].name,
    reads={"embeddings": Role("embeddings of all images and captions", "embeddings.npz")},
    files=("counts.npy",),
    rows=rows,
    versioned=False,
    takes=("threads",),
    # How many captions there are is unknown before they are embedded.
    size=lambda spec, corpus: 0,
)
