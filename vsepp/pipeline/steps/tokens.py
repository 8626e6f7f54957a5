"""Captions → a vocabulary and the ids of words, or of pieces of words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vsepp.base.declared import PIECES, WORDS
from vsepp.base.spec import VocabularySpec
from vsepp.pipeline.step import Facts, Inputs, Job, Step


def run(spec: VocabularySpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Build a vocabulary, or take one over, and encode all captions with it."""
    from vsepp.data.captions import make_tokens

    if not _is_released(spec):
        return make_tokens(spec, inputs["captions"].parent, out, pieces=inputs.get("pieces"))
    from vsepp.models.released import read_vocabulary

    return make_tokens(spec, inputs["captions"].parent, out, vocabulary=read_vocabulary(inputs["vocabulary"]))


def _is_released(spec: VocabularySpec) -> bool:
    return spec.kind == WORDS and bool(spec.file)


def modules(spec: VocabularySpec) -> Sequence[str]:
    """What counts and encodes, and what reads the vocabulary of a released model."""
    return ["vsepp.data.captions", *(["vsepp.models.released"] if _is_released(spec) else [])]


def name(spec: VocabularySpec, label: str) -> str:
    """The corpus, the splits whose words are counted, and how often a word must occur; or the file of words or pieces of words."""
    if spec.kind == PIECES or spec.file:
        return f"{label}-{spec.kind}-{spec.file.replace('/', '-') or 'minilm'}"
    return f"{label}-{'-'.join(spec.splits)}-min{spec.threshold}{'-mask' if spec.mask else ''}"


STEP = Step(
    "tokens",
    VocabularySpec,
    run,
    phase="corpus",
    folder="results/{preset}/tokens/{name}",
    modules=modules,
    name=name,
    reads={"captions": "captions.parquet"},
    files=lambda spec: ["tokens.npz", "vocabulary.json"],
)
