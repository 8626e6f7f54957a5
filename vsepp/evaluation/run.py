"""A trained run → embeddings of a split → ranks and recalls."""

from __future__ import annotations

import logging
from pathlib import Path

import pandas as pd
import torch

from vsepp.data.tables import read_tables
from vsepp.data.tokens import Tokens
from vsepp.data.vocabulary import FILE, Vocabulary
from vsepp.errors import VseppError
from vsepp.evaluation import protocols
from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.encode import encode_split, eval_images, required, split_rows
from vsepp.models.encoder import ImageEncoder, build_encoder, load_encoder
from vsepp.models.joint import ENCODER_PREFIX, load_joint, read_weights
from vsepp.runtime.memory import out_of_memory_explained
from vsepp.spec import EvaluationSpec, RunSpec

log = logging.getLogger("vsepp")


def evaluate_run(
    spec: EvaluationSpec,
    out: Path,
    *,
    run: Path,
    corpus: Path,
    tokens: Path | None = None,
    features: Path | None = None,
    eval_store: Path | None = None,
    encoder: Path | None = None,
    device: torch.device,
) -> list[protocols.Evaluation]:
    """Embed a split with the best snapshot of a run, rank it under each protocol, and write what was found.

    Parameters
    ----------
    spec
        The run's spec, the split and the protocols.
    out
        Folder that gets `embeddings.npz`, `metrics.json` and `ranks.npz`.
    run, corpus, tokens, features, eval_store, encoder, device
        As for `encode_run`.

    Raises
    ------
    VseppError
        As `encode_run`, and on a protocol that the split is too small for.
    """
    places = {"tokens": tokens, "features": features, "eval_store": eval_store, "encoder": encoder}
    embeddings = encode_run(spec.run, spec.split, run=run, corpus=corpus, **places, device=device)
    embeddings.save(out / "embeddings.npz")
    found = [protocols.evaluate(embeddings, protocol, spec.fold_size) for protocol in spec.protocols]
    protocols.save(found, out)
    return found


def encode_run(
    spec: RunSpec,
    split: str,
    *,
    run: Path,
    corpus: Path,
    tokens: Path | None = None,
    features: Path | None = None,
    eval_store: Path | None = None,
    encoder: Path | None = None,
    device: torch.device,
) -> Embeddings:
    """Embed a split with the best snapshot of a trained run.

    Parameters
    ----------
    spec
        The run's spec.
    split
        `test`, `val`, ...
    run
        Folder of its results: `model.safetensors` and the `vocabulary.json` that it was trained with.
    corpus
        Folder of the corpus's tables.
    tokens
        Folder of the word ids of all its captions under the run's vocabulary; without it they are made.
    features
        Folder of the features under the run's validation and test crop, for a frozen encoder.
    eval_store, encoder
        Folders of the image store and of the encoder, for an encoder that is part of the model. The latter may be `None`
        where the run's weights hold all of the encoder's.
    device
        Where to compute.

    Raises
    ------
    VseppError
        On a missing or ill-fitting artefact, and where memory runs out.
    """
    with out_of_memory_explained(f"run {spec.id}, split {split}", device, _what_to_lower(spec, device)):
        images, captions = read_tables(corpus)
        vocabulary = Vocabulary.read(run)
        words = _words(captions, run, vocabulary) if tokens is None else Tokens.load(tokens)
        if len(words) != len(captions):
            raise VseppError(
                f"{tokens}: has word ids of {len(words)} captions, expected {len(captions)} as in {corpus}; make the word "
                "ids from this corpus"
            )
        weights = run / "model.safetensors"
        network = _network(spec, weights, encoder) if spec.live_encoder else None
        model = load_joint(spec.model, weights, len(vocabulary), network).to(device)
        inputs = eval_images(spec, features=features, eval_store=eval_store, n_images=len(images)).rows
        return encode_split(model, inputs, words, split_rows(images, captions, split), device=device)


def _words(captions: pd.DataFrame, run: Path, vocabulary: Vocabulary) -> Tokens:
    """Word ids of a corpus' captions under the vocabulary that lies beside a run's weights."""
    from vsepp.data.captions import TOKENIZER, encode_captions

    if vocabulary.tokenizer != TOKENIZER:
        said = "%s: its words were split by %r, captions are split by %r here"
        log.warning(said, run / FILE, vocabulary.tokenizer, TOKENIZER)
    return encode_captions(captions, vocabulary)


def _network(spec: RunSpec, weights: Path, encoder: Path | None) -> ImageEncoder:
    """The encoder to load a run's weights into: with its own weights, or with none where the run's replace them all."""
    if encoder is None and any(key.startswith(ENCODER_PREFIX) for key in read_weights(weights)):
        return build_encoder(spec.encoder)
    return load_encoder(spec.encoder, required(encoder, "encoder", spec))


def _what_to_lower(spec: RunSpec, device: torch.device) -> list[str]:
    """What to change where a split is embedded with too little memory."""
    advice = [f"take a smaller encoder than {spec.encoder.architecture}"] if spec.live_encoder else []
    if device.type == "cuda":
        advice += ["lower resources.runs_per_gpu, the jobs that share a GPU", "embed on the CPU"]
    return advice
