"""Captions → vectors whose inner products say how alike two captions are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vsepp.provenance.artefacts import Artefact, Job, Step
from vsepp.spec import CorpusSpec, VectorsSpec
from vsepp.steps.sizes import captions_of, product
from vsepp.steps.tokens import CAPTIONS

# Bytes a caption: ten words, a column and a weight each; 384 numbers of 16 bits.
_BYTES_PER_CAPTION = {"tfidf": 90, "minilm": 768}


def run(spec: VectorsSpec, inputs: Mapping[str, Path], out: Path, job: Job) -> Mapping[str, Any]:
    """Compute vectors of all captions, for losses that compare them."""
    from vsepp.data.tables import read_tables
    from vsepp.data.vectors import caption_vectors

    _, captions = read_tables(inputs["captions"].parent)
    vectors = caption_vectors(captions, spec)
    vectors.save(out)
    return {"captions": len(vectors)}


def name(spec: VectorsSpec, inputs: Mapping[str, Artefact], label: str) -> str:
    """The corpus and the encoder."""
    return f"{inputs['captions'].name}-captions-{spec.encoder}"


def size(spec: VectorsSpec, corpus: CorpusSpec | None) -> int | None:
    """Bytes of all vectors."""
    return product(captions_of(corpus), _BYTES_PER_CAPTION[spec.encoder])


STEP = Step(
    "vectors",
    VectorsSpec,
    run,
    title="caption vectors",
    phase="features",
    folder="results/{preset}/features/{name}",
    modules=("vsepp.data.vectors",),
    name=name,
    reads={"captions": CAPTIONS},
    files=("vectors.npz",),
    size=size,
    label=lambda spec: f"captions {spec.encoder}",
)
