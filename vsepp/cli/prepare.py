"""Raw files → tables, word ids, decoded images; encoders and their features."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vsepp.cli.common import (
    Making,
    add_machine,
    add_making,
    add_raw,
    add_step,
    add_threads,
    given_inputs,
    making,
    raw_files,
)
from vsepp.spec import (
    CorpusSpec,
    EncoderSpec,
    FeaturesSpec,
    PicturesSpec,
    PretrainedSpec,
    ScenesSpec,
    StoreSpec,
    TapeSpec,
    VectorsSpec,
    VocabularySpec,
    from_dict,
)

if TYPE_CHECKING:
    from vsepp.runtime.placing import Placing

_SCENES = "optional: folder of the generated scenes that the raw files lie in"
_IMAGES = "the table images.parquet of the corpus"
_CAPTIONS = "the table captions.parquet of the corpus"


def add_steps(steps: Any) -> None:
    """Add the steps up to features and tapes."""
    parser = add_step(
        steps, "scenes", scenes, "draw scenes and write them in the layouts of COCO and Flickr30K"
    )
    add_making(parser, ScenesSpec)
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes that draw")

    parser = add_step(steps, "corpus", corpus, "read splits and captions from the raw files")
    add_making(parser, CorpusSpec, scenes=_SCENES)
    add_raw(parser)
    parser.add_argument(
        "--test-images",
        type=int,
        default=0,
        metavar="N",
        help="fewest test images that the folds of later evaluations need; by default any number will do",
    )

    parser = add_step(steps, "tokens", tokens, "build a vocabulary and turn captions into word ids")
    add_making(
        parser,
        VocabularySpec,
        captions=_CAPTIONS,
        vocabulary="optional: a vocabulary.json to use instead of counting the words",
    )

    parser = add_step(steps, "store", store, "decode and resize every image once (the image store)")
    add_making(parser, StoreSpec, images=_IMAGES, scenes=_SCENES)
    add_raw(parser)
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes that decode")

    parser = add_step(
        steps, "pictures", pictures, "make small pictures of a split, with its captions, to look at"
    )
    add_making(parser, PicturesSpec, corpus="folder of the corpus", store="folder of the image store")

    parser = add_step(
        steps, "pretrain", pretrain, "train a small image encoder on labelled single-object scenes"
    )
    add_making(parser, PretrainedSpec)
    add_threads(parser)

    parser = add_step(steps, "encoder", encoder, "convert an image encoder's weights, without its last layer")
    add_making(parser, EncoderSpec)
    add_raw(parser)

    parser = add_step(steps, "features", features, "compute the 1C or 10C features of every image")
    roles = {"store": "folder of the image store", "encoder": "folder of the encoder"}
    add_making(parser, FeaturesSpec, **roles)
    add_machine(parser, data_on=True)

    parser = add_step(
        steps,
        "precomputed",
        precomputed,
        "convert the features that the authors published with their captions",
    )
    add_making(parser, CorpusSpec, images=_IMAGES)
    add_raw(parser)

    parser = add_step(
        steps, "vectors", vectors, "compute vectors of all captions, for losses that compare them"
    )
    add_making(parser, VectorsSpec, captions=_CAPTIONS)

    parser = add_step(
        steps, "tape", tape, "compute the random-crop features of every training caption and epoch (the tape)"
    )
    add_making(parser, TapeSpec, **roles, captions=_CAPTIONS)
    add_machine(parser, data_on=True)


def scenes(given: argparse.Namespace) -> None:
    """Generate the embedded corpus."""
    from vsepp.scenes.layouts import generate

    with making(given, seed=given.spec.seed) as made:
        made.facts.update(generate(given.spec, made.folder, given.workers))


def corpus(given: argparse.Namespace) -> None:
    """Read a corpus and write its two tables."""
    from vsepp.data.corpora import read_corpus, require_test_images
    from vsepp.data.tables import write_tables

    raw = raw_files(given)
    # Folders of photographs are known by their store.
    inputs = given_inputs(given) | {role: path for role, path in raw.items() if path.is_file()}
    with making(given, inputs) as made:
        images, captions = read_corpus(_with_files(given.spec, raw))
        require_test_images(images, given.spec.name, given.test_images)
        write_tables(made.folder, images, captions)
        made.facts.update(images.attrs["facts"])


def tokens(given: argparse.Namespace) -> None:
    """Build a vocabulary, or take one over, and encode all captions with it."""
    from vsepp.data.captions import (
        build_vocabulary,
        encode_captions,
        multi_sentence_share,
        tokenize_captions,
    )
    from vsepp.data.tables import read_tables
    from vsepp.data.vocabulary import Vocabulary

    with making(given) as made:
        _, captions = read_tables(given.captions.parent)
        tokenized = tokenize_captions(captions)
        if given.vocabulary is None:
            vocabulary = build_vocabulary(captions, given.spec, tokenized)
        else:
            vocabulary = Vocabulary.read(given.vocabulary.parent)
        encoded = encode_captions(captions, vocabulary, tokenized)
        vocabulary.write(made.folder)
        encoded.save(made.folder)
        made.facts["words"] = len(vocabulary)
        made.facts["tokens"] = int(encoded.offsets[-1])
        # Captions whose words a sentence splitter before the word tokenizer would change, as the released code has it.
        made.facts["several_sentences"] = multi_sentence_share(captions["text"])


def store(given: argparse.Namespace) -> None:
    """Decode every image of a corpus into one array."""
    from vsepp.data.store import build_store
    from vsepp.data.tables import read_tables

    images, _ = read_tables(given.images.parent)
    of = _with_files(_corpus_of(given.images), raw_files(given))
    with making(given, resumes=True) as made:
        made.facts.update(build_store(images, of, given.spec, made.folder, made.state, given.workers))


def pictures(given: argparse.Namespace) -> None:
    """Make the small pictures of a corpus."""
    from vsepp.data.pictures import make_pictures

    with making(given) as made:
        made.facts["images"] = make_pictures(given.spec, given.corpus, given.store, made.folder)


def pretrain(given: argparse.Namespace) -> None:
    """Train a mini encoder, on the CPU."""
    from vsepp.runtime.machine import use_cpu
    from vsepp.scenes.pretrain import pretrain as pretrain_encoder

    spec = given.spec
    with making(given, seed=spec.pretraining.seed) as made:
        made.facts.update(use_cpu(given.threads))
        made.facts.update(pretrain_encoder(spec.encoder, spec.pretraining, made.folder))


def encoder(given: argparse.Namespace) -> None:
    """Import an encoder's weights."""
    from vsepp.models.encoder import save_encoder
    from vsepp.models.pretrained import import_weights

    raw = raw_files(given)
    with making(given, raw) as made:
        imported = import_weights(given.spec, raw.get("weights"))
        save_encoder(imported, made.folder)
        made.facts["dim"] = imported.dim


def features(given: argparse.Namespace) -> None:
    """Extract 1C or 10C features."""
    from vsepp.features.passes import make_features

    with making(given, resumes=True) as made:
        placing = _machine(given, made)
        made.facts["data_on"] = make_features(
            given.spec, given.store, given.encoder, made.folder, made.state, placing
        )


def vectors(given: argparse.Namespace) -> None:
    """Compute the captions' vectors."""
    from vsepp.data.tables import read_tables
    from vsepp.data.vectors import caption_vectors

    with making(given) as made:
        _, captions = read_tables(given.captions.parent)
        found = caption_vectors(captions, given.spec)
        found.save(made.folder)
        made.facts["captions"] = len(found)


def tape(given: argparse.Namespace) -> None:
    """Write a tape."""
    from vsepp.features.passes import make_tape

    with making(given, resumes=True) as made:
        placing, corpus = _machine(given, made), given.captions.parent
        made.facts["data_on"] = make_tape(
            given.spec, given.store, given.encoder, corpus, made.folder, made.state, placing
        )


def _machine(given: argparse.Namespace, made: Making) -> Placing:
    """Take the device that was asked for and note it; where the images shall lie."""
    from vsepp.runtime.machine import use_machine
    from vsepp.runtime.placing import Placing

    device, facts = use_machine(
        given.device, share=given.device_share, threads=given.threads, job=f"{given.step} {given.output}"
    )
    made.facts.update(facts)
    return Placing(device, given.data_on, given.device_share)


def precomputed(given: argparse.Namespace) -> None:
    """Turn published features into those of the corpus's images."""
    from vsepp.data.tables import read_tables
    from vsepp.features.precomputed import import_precomputed, raw_features

    of = _with_files(given.spec, raw_files(given))
    images, _ = read_tables(given.images.parent)
    raw = raw_features(of)
    # Sizes and times say that the raw files are those of a killed step without reading them an extra time.
    known_by = {role: [str(path), path.stat().st_size, path.stat().st_mtime_ns] for role, path in raw.items()}
    with making(given, {"images": given.images, **raw}, resumes=True, known_by=known_by) as made:
        made.facts.update(import_precomputed(of, images, made.folder, made.state))


def _corpus_of(table: Path) -> CorpusSpec:
    """The corpus that a table belongs to, as its manifest has it."""
    from vsepp.provenance.manifest import read_manifest

    return from_dict(CorpusSpec, read_manifest(table)["spec"])


def _with_files(spec: CorpusSpec, raw: dict[str, Path]) -> CorpusSpec:
    return replace(spec, files={role: str(path) for role, path in raw.items()})
