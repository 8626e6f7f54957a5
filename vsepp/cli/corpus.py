"""Raw files → tables, word ids, decoded images."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from vsepp.cli.common import add_folders, add_output, add_spec, add_step
from vsepp.provenance import code
from vsepp.provenance.manifest import artefact_digest, recorded
from vsepp.provenance.publish import state_folder
from vsepp.spec import CorpusSpec, ScenesSpec, StoreSpec, VocabularySpec, from_json, to_dict


def add_steps(steps: Any) -> None:
    """Add `scenes`, `corpus`, `tokens`, `store` and `precomputed`."""
    parser = add_step(
        steps, "scenes", scenes, "draw scenes and write them in the layouts of COCO and Flickr30K"
    )
    add_spec(parser, "ScenesSpec")
    add_output(parser)
    parser.add_argument("--workers", type=int, default=1, help="processes that draw")

    parser = add_step(steps, "corpus", corpus, "read splits and captions from the raw files")
    add_spec(parser, "CorpusSpec")
    add_output(parser)

    parser = add_step(steps, "tokens", tokens, "build a vocabulary and turn captions into word ids")
    add_spec(parser, "VocabularySpec")
    add_folders(
        parser,
        corpus="folder of the corpus",
        vocabulary="optional: folder of a vocabulary that is taken instead of counting one",
    )
    add_output(parser)

    parser = add_step(steps, "store", store, "decode and resize every image once")
    add_spec(parser, "StoreSpec")
    _add_corpus(parser)
    parser.add_argument("--workers", type=int, default=1, help="processes that decode")

    parser = add_step(
        steps, "precomputed", precomputed, "take over the features that were published with the captions"
    )
    _add_corpus(parser)


def _add_corpus(parser: argparse.ArgumentParser) -> None:
    """Add what the steps take that go from a corpus back to its raw files."""
    parser.add_argument("--corpus-spec", required=True, help="JSON of a CorpusSpec, or a file that holds it")
    add_folders(parser, corpus="folder of the corpus")
    add_output(parser)


def scenes(given: argparse.Namespace) -> None:
    """Generate the embedded corpus."""
    from vsepp.scenes.layouts import generate

    spec = from_json(ScenesSpec, given.spec)
    with recorded(
        given.output, "scenes", spec=to_dict(spec), inputs={}, code=code.scenes_code(), seed=spec.seed
    ) as facts:
        facts.update(generate(spec, given.output, given.workers))


def corpus(given: argparse.Namespace) -> None:
    """Read a corpus and write its two tables."""
    from vsepp.data.corpora import read_corpus
    from vsepp.data.tables import write_tables

    spec = from_json(CorpusSpec, given.spec)
    raw = _raw_inputs(spec)
    given.output.mkdir(parents=True, exist_ok=True)
    with recorded(
        given.output, "corpus", spec=to_dict(spec), inputs=raw, code=code.corpus_code(spec)
    ) as facts:
        images, captions = read_corpus(spec)
        write_tables(given.output, images, captions)
        facts.update(images.attrs["facts"])


def tokens(given: argparse.Namespace) -> None:
    """Build a vocabulary, or take one over, and encode all captions with it."""
    from vsepp.data.captions import (
        build_vocabulary,
        encode_captions,
        multi_sentence_share,
        tokenize_captions,
    )
    from vsepp.data.tables import read_tables
    from vsepp.data.vocabulary import FILE, Vocabulary

    spec = from_json(VocabularySpec, given.spec)
    inputs = {"captions": given.corpus / "captions.parquet"}
    if given.vocabulary is not None:
        inputs["vocabulary"] = given.vocabulary / FILE
    given.output.mkdir(parents=True, exist_ok=True)
    with recorded(
        given.output, "tokens", spec=to_dict(spec), inputs=inputs, code=code.tokens_code()
    ) as facts:
        _, captions = read_tables(given.corpus)
        tokenized = tokenize_captions(captions)
        if given.vocabulary is None:
            vocabulary = build_vocabulary(captions, spec, tokenized)
        else:
            vocabulary = Vocabulary.read(given.vocabulary)
        encoded = encode_captions(captions, vocabulary, tokenized)
        vocabulary.write(given.output)
        encoded.save(given.output)
        facts["words"] = len(vocabulary)
        facts["tokens"] = int(encoded.offsets[-1])
        # Captions whose words a sentence splitter before the word tokenizer would change, as the released code has it.
        facts["several_sentences"] = multi_sentence_share(captions["text"])


def store(given: argparse.Namespace) -> None:
    """Decode every image of a corpus into one array."""
    from vsepp.data.store import build_store
    from vsepp.data.tables import read_tables

    spec = from_json(StoreSpec, given.spec)
    corpus_spec = from_json(CorpusSpec, given.corpus_spec)
    images, _ = read_tables(given.corpus)
    table = given.corpus / "images.parquet"
    with (
        state_folder(
            given.output, spec=to_dict(spec), corpus=to_dict(corpus_spec), code=code.store_code()
        ) as state,
        recorded(
            given.output, "store", spec=to_dict(spec), inputs={"images": table}, code=code.store_code()
        ) as facts,
    ):
        facts.update(build_store(images, corpus_spec, spec, given.output, state, given.workers))


def precomputed(given: argparse.Namespace) -> None:
    """Turn published features into those of the corpus's images."""
    from vsepp.data.tables import read_tables
    from vsepp.features.precomputed import import_precomputed, raw_features

    spec = from_json(CorpusSpec, given.corpus_spec)
    images, _ = read_tables(given.corpus)
    raw = raw_features(spec)
    inputs = {"images": given.corpus / "images.parquet", **raw}
    digest = code.precomputed_code(spec)
    # Sizes and times say that the raw files are those of a killed step without reading them an extra time.
    state_of = {str(path): [path.stat().st_size, path.stat().st_mtime_ns] for path in raw.values()}
    given.output.mkdir(parents=True, exist_ok=True)
    with (
        state_folder(
            given.output,
            spec=to_dict(spec),
            images=artefact_digest(inputs["images"]),
            files=state_of,
            code=digest,
        ) as state,
        recorded(given.output, "precomputed", spec=to_dict(spec), inputs=inputs, code=digest) as facts,
    ):
        facts.update(import_precomputed(spec, images, given.output, state))


def _raw_inputs(spec: CorpusSpec) -> dict[str, Path]:
    """Raw files to digest into the manifest; folders of photographs are known by their store."""
    return {role: Path(path) for role, path in spec.files.items() if Path(path).is_file()}
