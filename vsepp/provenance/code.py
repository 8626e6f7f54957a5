"""Which modules each step computes with: the step's own, and those that its spec names.

The modules a step imports are found by following imports; modules looked up by name at run time are added here.
"""

from __future__ import annotations

from vsepp.provenance.digests import code_digest
from vsepp.spec import CorpusSpec, EncoderSpec, RunSpec


def scenes_code() -> str:
    """Digest for generating scenes."""
    return code_digest("vsepp.scenes.layouts")


def corpus_code(spec: CorpusSpec) -> str:
    """Digest for reading a corpus."""
    return code_digest("vsepp.data.corpora", f"vsepp.data.readers.{spec.reader}")


def tokens_code() -> str:
    """Digest for tokenising captions."""
    return code_digest("vsepp.data.captions")


def store_code() -> str:
    """Digest for building an image store."""
    return code_digest("vsepp.data.store")


def pretraining_code(specs: list[EncoderSpec]) -> str:
    """Digest for pretraining encoders on scenes."""
    return code_digest("vsepp.scenes.pretrain", *map(_family, specs))


def encoder_code(spec: EncoderSpec) -> str:
    """Digest for an encoder with imported weights."""
    return code_digest("vsepp.models.image.pretrained", _family(spec))


def features_code(spec: EncoderSpec) -> str:
    """Digest for extracting features of whole corpora."""
    return code_digest("vsepp.features.extract", _family(spec))


def precomputed_code(spec: CorpusSpec) -> str:
    """Digest for taking over published features."""
    return code_digest("vsepp.features.precomputed")


def tape_code(spec: EncoderSpec) -> str:
    """Digest for writing random-crop features."""
    return code_digest("vsepp.features.tape_writer", _family(spec))


def train_code(run: RunSpec) -> str:
    """Digest for training: the loop and only the components that the run names."""
    named = [*_model(run), f"vsepp.losses.{run.loss.name}"]
    if run.loss.curriculum > 0:
        named.append("vsepp.losses.sum_of_hinges")
    if run.trainset == "RC" and run.rc_features == "inline":
        named.append(_family(run.encoder))
    return code_digest("vsepp.training.loop", *named)


def released_code(run: RunSpec) -> str:
    """Digest for turning a released checkpoint into a run."""
    return code_digest("vsepp.released.convert", *_model(run))


def encode_code(run: RunSpec) -> str:
    """Digest for encoding a split with a trained run."""
    return code_digest("vsepp.evaluation.encode", *_model(run))


def evaluate_code() -> str:
    """Digest for ranking and recalls."""
    return code_digest("vsepp.evaluation.protocols")


def report_code() -> str:
    """Digest for tables, figures and pages."""
    return code_digest("vsepp.reporting.pages")


def _family(spec: EncoderSpec) -> str:
    return f"vsepp.models.image.{spec.architecture.partition('/')[0]}"


def _model(run: RunSpec) -> list[str]:
    named = [f"vsepp.similarity.{run.model.similarity}", f"vsepp.models.text.{run.model.text_encoder}"]
    return [*named, _family(run.encoder)] if run.live_encoder else named
