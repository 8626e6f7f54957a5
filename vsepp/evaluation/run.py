"""A trained run → embeddings of a split → ranks and recalls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from vsepp.base import components
from vsepp.base.errors import VseppError
from vsepp.base.spec import EvaluationSpec, RunSpec
from vsepp.data.captions import Tokens, Vocabulary
from vsepp.data.tables import read_tables
from vsepp.evaluation import evaluate as protocols
from vsepp.evaluation.embeddings import Embeddings, mean_of_scores
from vsepp.evaluation.encode import SplitRows, encode_split, split_rows
from vsepp.evaluation.rerank import Reranker
from vsepp.evaluation.scores import ScoredSet
from vsepp.features.captions import CaptionStates, open_captions
from vsepp.features.images import EvalImages, open_eval_images
from vsepp.models.encoder import build_encoder
from vsepp.models.joint import JointEmbedding, load_joint


def evaluate_run(
    spec: EvaluationSpec,
    folders: Mapping[str, Path],
    out: Path,
    device: torch.device,
) -> list[protocols.Scored]:
    """Embed a split with the best snapshot of a run, rank it under each protocol, and write the results.

    Parameters
    ----------
    spec
        The run's spec, the split and the protocols.
    folders
        Role → folder: `run`, with `model.safetensors` and the `vocabulary.json` that it was trained with; `corpus`, the tables;
        what `open_eval_images` and `open_captions` name, `tokens` made here if not given; and `<truth>_<role>` → raw file of a truth.
    out
        Folder that gets `embeddings.npz`, `metrics.json` and `ranks.npz`; of a model with a matcher also `best.npz`.
    device
        Where to embed.

    Raises
    ------
    VseppError
        If an artefact does not fit the run, or the split is too small for a protocol, or for re-ranking.
    """
    model, *_ = opened = _opened(spec.run, spec.split, folders, device)
    embeddings = encode_split(*opened, device=device)
    rerank = None if model.matcher is None else Reranker.of(*opened, device=device).best
    return _ranked(embeddings, spec, folders, out, rerank)


def evaluate_ensemble(
    spec: EvaluationSpec,
    inputs: Mapping[str, Path],
    out: Path,
) -> list[protocols.Scored]:
    """Rank a split by the mean of two runs' scores under each protocol, and write the results as `evaluate_run` does.

    Parameters
    ----------
    spec
        The protocols.
    inputs
        Role → `first` and `second`, the `embeddings.npz` of the two runs; `corpus` and `second_corpus`, which the runs embedded; raw
        files of truths as for `evaluate_run`.
    out
        Folder of the results.

    Raises
    ------
    VseppError
        As `mean_of_scores`, if the runs embedded other captions or in another order, and if the split is too small for a protocol.
    """
    texts = [_texts(inputs[role], spec.split) for role in ("corpus", "second_corpus")]
    differing = next((k for k, (one, other) in enumerate(zip(*texts, strict=False)) if one != other), None)
    if differing is not None:
        raise VseppError(
            f"ensemble {spec.ensemble}: caption {differing} of {inputs['corpus']} is {texts[0][differing]!r}, of "
            f"{inputs['second_corpus']} {texts[1][differing]!r}; the two runs must embed the same captions in the same order"
        )
    embeddings = mean_of_scores(*(Embeddings.load(inputs[role]) for role in ("first", "second")))
    return _ranked(embeddings, spec, inputs, out)


def _ranked(
    embeddings: Embeddings,
    spec: EvaluationSpec,
    inputs: Mapping[str, Path],
    out: Path,
    rerank: protocols.Rerank | None = None,
) -> list[protocols.Scored]:
    """Write embeddings, and their results under each protocol and truth."""
    if spec.truths:
        embeddings = _with_ids(embeddings, inputs["corpus"], spec.split)
    embeddings.save(out / "embeddings.npz")
    results: list[protocols.Scored] = [
        protocols.evaluate(embeddings, protocol, spec.fold_size, rerank)
        for protocol in spec.protocols
        if protocol not in spec.truths
    ]
    tested: Embeddings | ScoredSet = embeddings
    if spec.truths and rerank:
        owner, ids = embeddings.caption_to_image, (embeddings.image_ids, embeddings.caption_ids)
        best = rerank(embeddings, slice(0, len(embeddings.image_embeddings)), np.arange(len(owner)))
        tested = ScoredSet(best, owner, embeddings.similarity.name, *ids)
    for name in spec.truths:
        module = components.load("truth", name)
        results.append(
            module.judge(tested, module.read({role: inputs[f"{name}_{role}"] for role in module.FILES}))
        )
    protocols.save(results, out)
    return results


def _with_ids(embeddings: Embeddings, corpus: Path, split: str) -> Embeddings:
    """The same embeddings with the ids of COCO's images and captions."""
    images, captions = read_tables(corpus)
    rows = split_rows(images, captions, split)
    expected = "whole numbers of COCO, which truths know images by"
    if other := [name for name in images["image_id"][rows.images] if not name.isdecimal()]:
        raise VseppError(f"{corpus}: its images have ids such as {other[0]!r}; expected {expected}")
    image_ids = images["image_id"][rows.images].astype(np.int64)
    return replace(embeddings, image_ids=image_ids, caption_ids=captions["caption_id"][rows.captions])


def _texts(corpus: Path, split: str) -> list[str]:
    """Letters and digits of a split's captions: published features come with captions that were split into words before."""
    _, captions = read_tables(corpus)
    chosen = zip(captions["text"], captions["split"], strict=True)
    return ["".join(filter(str.isalnum, text.lower())) for text, of in chosen if of == split]


def _opened(
    run: RunSpec, split: str, folders: Mapping[str, Path], device: torch.device
) -> tuple[JointEmbedding, EvalImages, Tokens | CaptionStates, SplitRows]:
    """A trained model and its inputs for a split, as `encode_split` takes them."""
    images, captions = read_tables(folders["corpus"])
    inputs = open_eval_images(run, folders, len(images))
    vocabulary = Vocabulary.read(folders["run"])
    # Trained weights include those of an encoder inside the model.
    encoder = build_encoder(run.encoder, grid=run.grid) if run.live_encoder else None
    model = load_joint(run.model, folders["run"] / "model.safetensors", len(vocabulary), encoder).to(device)
    if "tokens" in folders:
        texts = open_captions(folders, len(captions))
    else:
        texts = Tokens.from_captions(captions, vocabulary)
    rows = split_rows(images, captions, split)
    return model, inputs, texts, rows
