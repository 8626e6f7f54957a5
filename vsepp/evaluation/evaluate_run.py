"""Embeddings of a split, as a run has them → ranks and recalls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from vsepp.base import components
from vsepp.base.errors import VseppError
from vsepp.base.publish import EMBEDDINGS
from vsepp.base.run_spec import EvaluationSpec
from vsepp.evaluation.embedding_scores import DOT, EmbeddingScores
from vsepp.evaluation.evaluate import Evaluation, Rerank, evaluate, save
from vsepp.evaluation.test_set import TestSet
from vsepp.evaluation.truth import own_captions


def evaluate_run(
    spec: EvaluationSpec,
    inputs: Mapping[str, Path],
    out: Path,
    rerank: Rerank | None = None,
    tested: TestSet | None = None,
) -> list[Evaluation]:
    """Rank a split by a run's embeddings, or by the mean of two runs' scores, under each protocol and truth.

    Parameters
    ----------
    spec
        The run, the ensemble and the protocols.
    inputs
        Role → folder: `run`, with its `embeddings.npz`; of an ensemble also `second`, and `corpus` and `second_corpus`, which the two
        runs embedded; of truths `corpus`, and `<truth>_<role>` → raw file.
    out
        Folder that gets `metrics.json` and `ranks.npz`; of an ensemble and of `tested` also `embeddings.npz`, of a model with a matcher
        `best.npz`.
    rerank
        How a matcher scores the best again.
    tested
        The split as the run embeds it now; `None`: as it did when it was trained.

    Raises
    ------
    VseppError
        If the split is too small for a protocol, or for re-ranking, or the corpus has other ids than a truth; of an ensemble also as
        `mean_of_scores`, and if the runs embedded other captions or in another order.
    """
    has_embeddings = tested is None and not spec.ensemble
    if tested is None:
        tested = _embedded(inputs["run"])
        if spec.ensemble:
            _require_same_captions(spec, inputs)
            tested = mean_of_scores(tested, _embedded(inputs["second"]))
    if spec.truths:
        tested = _with_ids(tested, inputs["corpus"], spec.split)
    if not has_embeddings:
        tested.save(out / EMBEDDINGS)
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


def _embedded(run: Path) -> TestSet:
    return TestSet.read(run / EMBEDDINGS, of_corpus=True)


def mean_of_scores(first: TestSet, second: TestSet) -> TestSet:
    """Embeddings that score as the mean of two models' scores: both models' vectors side by side, image vectors halved.

    Raises
    ------
    VseppError
        If a similarity is not the inner product, or the two models embedded different images or captions.
    """
    members = []
    for scores in (first.scores, second.scores):
        if not isinstance(scores, EmbeddingScores) or scores.similarity != DOT:
            raise VseppError(
                f"ensemble: expected the similarity dot of both runs, got {scores.words}; only inner products add up"
            )
        members.append(scores)
    if not np.array_equal(first.caption_to_image, second.caption_to_image):
        raise VseppError("ensemble: the runs embedded other images or captions; evaluate both on one split")
    images = np.concatenate([scores.images for scores in members], axis=1) / 2
    captions = np.concatenate([scores.captions for scores in members], axis=1)
    return TestSet(EmbeddingScores(images, captions), first.caption_to_image, of_corpus=True)


def _with_ids(tested: TestSet, corpus: Path, split: str) -> TestSet:
    """The same test set, with the ids of COCO's images and captions, by which truths know them."""
    from vsepp.data.tables import read_tables, split_rows  # other evaluations read no tables

    images, captions = read_tables(corpus)
    rows = split_rows(images, captions, split)
    expected = "whole numbers of COCO, which truths know images by"
    if other := [name for name in images["image_id"][rows.images] if not name.isdecimal()]:
        raise VseppError(f"{corpus}: its images have ids such as {other[0]!r}; expected {expected}")
    image_ids = images["image_id"][rows.images].astype(np.int64)
    return replace(tested, image_ids=image_ids, caption_ids=captions["caption_id"][rows.captions])


def _require_same_captions(spec: EvaluationSpec, inputs: Mapping[str, Path]) -> None:
    """Refuse an ensemble of runs that embedded other captions."""
    texts = [_texts(inputs[role], spec.split) for role in ("corpus", "second_corpus")]
    differing = next((row for row, pair in enumerate(zip(*texts, strict=False)) if len({*pair}) > 1), None)
    if differing is not None:
        raise VseppError(
            f"ensemble {spec.ensemble}: caption {differing} of {inputs['corpus']} is {texts[0][differing]!r}, of "
            f"{inputs['second_corpus']} {texts[1][differing]!r}; the two runs must embed the same captions in the same order"
        )


def _texts(corpus: Path, split: str) -> list[str]:
    """Letters and digits of a split's captions: published features come with captions that were split into words before."""
    from vsepp.data.tables import read_tables

    _, captions = read_tables(corpus)
    rows = zip(captions["text"], captions["split"], strict=True)
    texts = [text for text, part in rows if part == split]
    return ["".join(filter(str.isalnum, text.lower())) for text in texts]
