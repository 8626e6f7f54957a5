"""Sizes of corpora and models: images, captions, steps, weights.

An unknown number is `None`, never a guess.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from vsepp.components import describe
from vsepp.provenance.artefacts import Work
from vsepp.spec import CorpusSpec, EncoderSpec, ModelSpec, RunSpec

# Words of a vocabulary where a word must be seen four times: COCO and Flickr30K have about 10,000.
ASSUMED_WORDS = 12_000


def product(*factors: int | None) -> int | None:
    """The product, which is unknown where a factor is."""
    known = [factor for factor in factors if factor is not None]
    return math.prod(known) if len(known) == len(factors) else None


def images_of(corpus: CorpusSpec | None, splits: Iterable[str] | None = None) -> int | None:
    """Images of some splits, all by default; `None` where the data set's entry does not say."""
    if corpus is None or not corpus.expected_images:
        return None
    wanted = corpus.expected_images if splits is None else splits
    counts = {split: corpus.expected_images.get(split, 0) for split in wanted}
    return sum(min(count, corpus.first_images.get(split, count)) for split, count in counts.items())


def captions_of(corpus: CorpusSpec | None, splits: Iterable[str] | None = None) -> int | None:
    """Captions of some splits, all by default."""
    return product(images_of(corpus, splits), corpus.captions_per_image) if corpus else None


def steps_of(spec: RunSpec, pairs: int | None) -> int | None:
    """Steps of an epoch; the last one may be smaller."""
    return None if pairs is None else math.ceil(pairs / spec.schedule.batch_size)


def pairs_embedded(spec: RunSpec, pairs: int | None) -> int | None:
    """Pairs that go through the model in an epoch: more than there are where negatives are added to each batch."""
    size = spec.schedule.negative_set or 0
    if pairs is None or size <= spec.schedule.batch_size:
        return pairs
    return product(steps_of(spec, pairs), min(size, pairs))


def encoder_size(encoder: EncoderSpec) -> tuple[int | None, int | None]:
    """D_φ and the number of weights, as the encoder's family declares for the network; unknown where it does not."""
    family, _, network = encoder.architecture.partition("/")
    return describe("image encoder", family).constants.get("SIZES", {}).get(network, (None, None))


def text_dims(model: ModelSpec) -> tuple[int, int] | None:
    """Sizes of a word and of the state, D_ψ; `None` for a text encoder that has other options."""
    options = describe("text encoder", model.text.name).options(**model.text.options)
    dims = getattr(options, "word_dim", None), getattr(options, "dim", None)
    return None if None in dims else dims  # type: ignore[return-value]


def model_numbers(spec: RunSpec) -> int | None:
    """Number of weights of a run's model; a GRU and the size of the vocabulary are assumed."""
    (features, encoder), model, dims = encoder_size(spec.encoder), spec.model, text_dims(spec.model)
    if features is None or encoder is None or dims is None:
        return None
    word_dim, dim = dims
    gru = 3 * dim * (word_dim + dim + 2)
    image_map = model.joint_dim * (features + model.image_bias)
    caption_map = model.joint_dim * dim if model.caption_projection else 0
    head = ASSUMED_WORDS * word_dim + gru + image_map + caption_map
    return head + (encoder if spec.live_encoder else 0)


def encoder_pass(encoder: EncoderSpec, images: int | None, precision: str) -> Work:
    """Images through a frozen encoder."""
    return Work("tape", encoder.variant, precision, images)
