"""Captions → a vocabulary and the ids of words, or of pieces of words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vsepp.declared import PIECES, WORDS
from vsepp.errors import VseppError
from vsepp.provenance.artefacts import Artefacts, Facts, Inputs, Job, Role, Step
from vsepp.spec import VocabularySpec

if TYPE_CHECKING:
    from vsepp.data.vocabulary import Vocabulary

CAPTIONS = Role("the table captions.parquet of the corpus", "captions.parquet")


def run(spec: VocabularySpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Build a vocabulary, or take one over, and encode all captions with it."""
    from vsepp.data.captions import build_vocabulary, encode_captions, tokenize_captions
    from vsepp.data.tables import read_tables

    _, captions = read_tables(inputs["captions"].parent)
    tokenized = tokenize_captions(captions) if spec.kind == WORDS else None
    vocabulary = _given_vocabulary(spec, inputs, job) or build_vocabulary(captions, spec, tokenized)
    tokens = encode_captions(captions, vocabulary, tokenized)
    vocabulary.write(out)
    tokens.save(out)
    return {"words": len(vocabulary), "tokens": int(tokens.offsets[-1])}


def _given_vocabulary(spec: VocabularySpec, inputs: Inputs, job: Job) -> Vocabulary | None:
    """A vocabulary that need not be counted."""
    from vsepp.data.vocabulary import Vocabulary
    from vsepp.data.wordpieces import minilm_file

    if "vocabulary" in inputs:
        return Vocabulary.read(inputs["vocabulary"].parent)
    if spec.kind == WORDS:
        return None
    if spec.file and "pieces" not in job.raw:
        raise VseppError(f"tokens: no {spec.file} was given; expected --raw pieces=FILE")
    return Vocabulary.of_pieces(job.raw["pieces"] if spec.file else minilm_file("vocab.txt"))


def name(spec: VocabularySpec, inputs: Artefacts, label: str) -> str:
    """The corpus, the splits whose words are counted, and how often a word must occur; or the file of pieces of words."""
    corpus = inputs["captions"].name
    if spec.kind == PIECES:
        return f"{corpus}-{spec.kind}-{spec.file.replace('/', '-') or 'minilm'}"
    return f"{corpus}-{'-'.join(spec.splits)}-min{spec.threshold}{'-mask' if spec.mask else ''}"


STEP = Step(
    "tokens",
    VocabularySpec,
    run,
    phase="corpus",
    folder="results/{preset}/tokens/{name}",
    modules=("vsepp.data.captions",),
    name=name,
    reads={
        "captions": CAPTIONS,
        "vocabulary": Role(
            "a vocabulary.json to use instead of counting the words", "vocabulary.json", optional=True
        ),
    },
    known_raw=lambda spec, raw: raw,
    files=("tokens.npz", "vocabulary.json"),
)
