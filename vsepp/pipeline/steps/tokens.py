"""Captions → a vocabulary and the ids of words, or of pieces of words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vsepp.base.declared import PIECES, WORDS
from vsepp.base.errors import VseppError
from vsepp.base.spec import VocabularySpec
from vsepp.pipeline.step import Artefacts, Facts, Inputs, Job, Role, Step

if TYPE_CHECKING:
    from vsepp.data.vocabulary import Vocabulary

CAPTIONS = Role("the table captions.parquet of the corpus", "captions.parquet")


def run(spec: VocabularySpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Build a vocabulary, or take one over, and encode all captions with it."""
    from vsepp.data.captions import build_vocabulary, encode_captions, tokenize_captions
    from vsepp.data.tables import read_tables

    _, captions = read_tables(inputs["captions"].parent)
    tokenized = tokenize_captions(captions) if spec.kind == WORDS else None
    vocabulary = _given_vocabulary(spec, job) or build_vocabulary(captions, spec, tokenized)
    tokens = encode_captions(captions, vocabulary, tokenized)
    vocabulary.write(out)
    tokens.save(out)
    return {"words": len(vocabulary), "tokens": int(tokens.offsets[-1])}


def _given_vocabulary(spec: VocabularySpec, job: Job) -> Vocabulary | None:
    """A vocabulary that need not be counted."""
    from vsepp.data.vocabulary import Vocabulary
    from vsepp.data.wordpieces import minilm_file

    if spec.kind == WORDS and not spec.file:
        return None
    role = "vocabulary" if spec.kind == WORDS else "pieces"
    if spec.file and role not in job.raw:
        raise VseppError(f"tokens: no {spec.file} was given; expected --raw {role}=FILE")
    if spec.kind == WORDS:
        from vsepp.released.convert import read_vocabulary

        return read_vocabulary(job.raw[role])
    return Vocabulary.of_pieces(job.raw[role] if spec.file else minilm_file("vocab.txt"))


def name(spec: VocabularySpec, inputs: Artefacts, label: str) -> str:
    """The corpus, the splits whose words are counted, and how often a word must occur; or the file of words or pieces of words."""
    corpus = inputs["captions"].name
    if spec.kind == PIECES or spec.file:
        return f"{corpus}-{spec.kind}-{spec.file.replace('/', '-') or 'minilm'}"
    return f"{corpus}-{'-'.join(spec.splits)}-min{spec.threshold}{'-mask' if spec.mask else ''}"


STEP = Step(
    "tokens",
    VocabularySpec,
    run,
    phase="corpus",
    folder="results/{preset}/tokens/{name}",
    modules=("vsepp.data.captions",),
    more_modules=lambda spec: ("vsepp.released.convert",) if spec.kind == WORDS and spec.file else (),
    name=name,
    reads={"captions": CAPTIONS},
    known_raw=lambda spec, raw: raw,
    files=("tokens.npz", "vocabulary.json"),
)
