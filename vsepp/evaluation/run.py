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
from vsepp.evaluation.encode import SplitRows, encode_split, split_rows
from vsepp.evaluation.evaluate import Evaluation, Rerank, evaluate, save
from vsepp.evaluation.rerank import Reranker
from vsepp.evaluation.scores import DOT, EmbeddingScores
from vsepp.evaluation.test_set import TestSet
from vsepp.evaluation.truth import own_captions
from vsepp.features.captions import CaptionStates, open_captions
from vsepp.features.images import EvalImages, open_eval_images
from vsepp.models.joint import JointEmbedding, load_joint


def evaluate_run(
    spec: EvaluationSpec,
    folders: Mapping[str, Path],
    out: Path,
    device: torch.device,
) -> list[Evaluation]:
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
    tested = encode_split(*opened, device=device)
    rerank = None if model.matcher is None else Reranker.of(*opened, device=device).best
    return _evaluated(tested, spec, folders, out, rerank)


def evaluate_ensemble(
    spec: EvaluationSpec,
    inputs: Mapping[str, Path],
    out: Path,
) -> list[Evaluation]:
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
    tested = mean_of_scores(*(TestSet.read(inputs[role], of_corpus=True) for role in ("first", "second")))
    return _evaluated(tested, spec, inputs, out)


def mean_of_scores(first: TestSet, second: TestSet) -> TestSet:
    """Embeddings that score as the mean of two models' scores: both models' vectors side by side, image vectors halved.

    Raises
    ------
    VseppError
        If a similarity is not the inner product, or the two models embedded different images or captions.
    """
    one, other = first.scores, second.scores
    for scores in (one, other):
        if not isinstance(scores, EmbeddingScores) or scores.similarity != DOT:
            raise VseppError(
                f"ensemble: expected the similarity dot of both runs, got {scores.words}; only inner products add up"
            )
    assert isinstance(one, EmbeddingScores) and isinstance(other, EmbeddingScores)
    if not np.array_equal(first.caption_to_image, second.caption_to_image):
        raise VseppError("ensemble: the runs embedded other images or captions; evaluate both on one split")
    images = np.concatenate([one.images, other.images], axis=1) / 2
    captions = np.concatenate([one.captions, other.captions], axis=1)
    return TestSet(EmbeddingScores(images, captions), first.caption_to_image, of_corpus=True)


def _evaluated(
    tested: TestSet,
    spec: EvaluationSpec,
    inputs: Mapping[str, Path],
    out: Path,
    rerank: Rerank | None = None,
) -> list[Evaluation]:
    """Write embeddings, and their results under each protocol and truth."""
    if spec.truths:
        tested = _with_ids(tested, inputs["corpus"], spec.split)
    tested.save(out / "embeddings.npz")
    truths = [
        own_captions(tested.caption_to_image, protocol, spec.fold_size)
        for protocol in spec.protocols
        if protocol not in spec.truths
    ]
    for name in spec.truths:
        module = components.load("truth", name)
        truths.append(module.read({role: inputs[f"{name}_{role}"] for role in module.FILES}))
    results = evaluate(tested, truths, rerank)
    save(results, out)
    return results


def _with_ids(tested: TestSet, corpus: Path, split: str) -> TestSet:
    """The same test set with the ids of COCO's images and captions."""
    images, captions = read_tables(corpus)
    rows = split_rows(images, captions, split)
    expected = "whole numbers of COCO, which truths know images by"
    if other := [name for name in images["image_id"][rows.images] if not name.isdecimal()]:
        raise VseppError(f"{corpus}: its images have ids such as {other[0]!r}; expected {expected}")
    image_ids = images["image_id"][rows.images].astype(np.int64)
    return replace(tested, image_ids=image_ids, caption_ids=captions["caption_id"][rows.captions])


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
    model = load_joint(run, folders["run"] / "model.safetensors", len(vocabulary)).to(device)
    if "tokens" in folders:
        texts = open_captions(folders, len(captions))
    else:
        texts = Tokens.from_captions(captions, vocabulary)
    rows = split_rows(images, captions, split)
    return model, inputs, texts, rows
