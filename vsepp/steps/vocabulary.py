"""Captions of a corpus in shards → its vocabulary, which the jobs that encode its captions share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from vsepp.provenance.artefacts import Facts, Inputs, Job
from vsepp.spec import VocabularySpec
from vsepp.steps import tokens


def run(spec: VocabularySpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Count the words of a corpus."""
    from vsepp.data.captions import build_vocabulary, tokenize_in_parts
    from vsepp.data.tables import read_tables

    _, captions = read_tables(inputs["captions"].parent)
    vocabulary = build_vocabulary(captions, spec, tokenize_in_parts(captions))
    vocabulary.write(out)
    return {"words": len(vocabulary)}


STEP = replace(
    tokens.STEP,
    kind="vocabulary",
    run=run,
    title="vocabulary",
    folder="results/{preset}/tokens/{name}-counted",
    reads={"captions": tokens.CAPTIONS},
    known_raw=None,
    files=("vocabulary.json",),
    rows=None,
)
