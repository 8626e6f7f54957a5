"""TREC runs and qrels. A line of a run: query, Q0, document, rank, score, tag.

As in trec_eval the score ranks and the column of ranks is not read. Unlike there, half of the items with equal scores
count as above.
"""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path

import numpy as np

from vsepp.errors import VseppError
from vsepp.evaluation.blocks import EmbeddingScores
from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.ranks import scores_of
from vsepp.evaluation.scores import BestLists, ScoredSet, ScoreMatrix, best_items
from vsepp.evaluation.truth import own_captions
from vsepp.runtime.files import write_text
from vsepp.user_files import text_of

DEPTH = 100
"""Number of results that are written for each query."""
_RUN = "lines of a TREC run: query, Q0, document, rank, score, tag"


def read_runs(folder: Path, image_ids: np.ndarray, caption_ids: np.ndarray) -> BestLists:
    """The lists of `i2t.run` and `t2i.run` of a folder; ids `(n,)` are the gallery's, by row.

    A query may have fewer results than others; unlisted items are tied below.

    Raises
    ------
    VseppError
        Naming file and line, on a malformed line, an unknown id, a document that is listed twice or a score that is not finite; and if a
        query has no result.
    """
    images, captions = ({str(one): row for row, one in enumerate(ids)} for ids in (image_ids, caption_ids))
    i2t = _lists(folder / "i2t.run", images, captions)
    return BestLists(i2t, _lists(folder / "t2i.run", captions, images))


def _lists(path: Path, queries: dict[str, int], documents: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """Items and scores `(n_queries, k)`, the best first, -1 where a list is shorter."""
    found: list[dict[int, float]] = [{} for _ in queries]
    for number, line in enumerate(text_of(path, _RUN).split("\n"), start=1):
        if not (fields := line.split()):
            continue
        where = f"{path}: line {number}: expected"
        if len(fields) != 6:
            raise VseppError(f"{where} {_RUN}; got {len(fields)} fields")
        query, _, document, _, score, _ = fields
        for kind, one, known in (("query", query, queries), ("document", document, documents)):
            if one not in known:
                raise VseppError(f"{where} ids of the test set, got {kind} {one}, which it has not")
        of_query, item = found[queries[query]], documents[document]
        if item in of_query:
            raise VseppError(f"{where} each document once, but query {query} lists {document} twice")
        with suppress(ValueError):
            of_query[item] = float(score)
        if not math.isfinite(of_query.get(item, math.nan)):
            raise VseppError(f"{where} a finite score, got {score}")
    if lacking := [query for query, row in queries.items() if not found[row]]:
        raise VseppError(
            f"{path}: expected results of all {len(found)} queries, got none of {lacking[0]} ({len(lacking)} have none)"
        )
    items = np.full((len(found), max(map(len, found))), -1)
    scores = np.zeros(items.shape)
    for row, of_query in enumerate(found):
        best = sorted(of_query, key=of_query.__getitem__, reverse=True)
        items[row, : len(best)], scores[row, : len(best)] = best, [of_query[item] for item in best]
    return items, scores


def write_trec(tested: Embeddings | ScoredSet, folder: Path) -> None:
    """Write `i2t.run` and `t2i.run`, the `DEPTH` best of the whole gallery, and `i2t.qrels` and `t2i.qrels` of own captions.

    Images and captions have their ids or, where these are not known, their rows. trec_eval holds scores in float32 and orders equal ones
    by id, so its metrics are ours where no scores are equal in float32.

    Raises
    ------
    VseppError
        If an id is empty or has a space in it, which the format cannot hold.
    """
    scores, truth = scores_of(tested), own_captions(tested.caption_to_image)
    known = zip((tested.image_ids, tested.caption_ids), scores.shape, strict=True)
    images, captions = ([str(one) for one in (range(n) if ids is None else ids)] for ids, n in known)
    if wrong := [one for one in (*images, *captions) if one.split() != [one]]:
        raise VseppError(f"{folder}: expected ids without spaces for TREC runs, got {wrong[0]!r}")
    names = {"i2t": (images, captions), "t2i": (captions, images)}
    for task, (items, values) in (scores.lists if isinstance(scores, BestLists) else _best(scores)).items():
        queries, documents = names[task]
        order = np.argsort(np.where(items < 0, np.inf, -values), axis=1, kind="stable")[:, :DEPTH]
        best = (np.take_along_axis(part, order, axis=1).tolist() for part in (items, values))
        run = [
            f"{query} Q0 {documents[item]} {rank} {score!r} vsepp\n"
            for query, *of_query in zip(queries, *best, strict=True)
            for rank, (item, score) in enumerate(zip(*of_query, strict=True), start=1)
            if item >= 0
        ]
        right = getattr(truth, task)
        pairs = zip(right.rows, right.items, strict=True)
        qrels = [f"{queries[row]} 0 {documents[item]} 1\n" for row, item in pairs]
        write_text(folder / f"{task}.run", "".join(run))
        write_text(folder / f"{task}.qrels", "".join(qrels))


def _best(scores: EmbeddingScores | ScoreMatrix) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    captions, images = best_items(scores, DEPTH)
    of_images, of_captions = (np.repeat(np.arange(len(part)), part.shape[1]) for part in (captions, images))
    i2t, t2i = (of_images, captions.ravel()), (images.ravel(), of_captions)
    return {
        "i2t": (captions, scores.of(*i2t, direction="i2t").reshape(captions.shape)),
        "t2i": (images, scores.of(*t2i, direction="t2i").reshape(images.shape)),
    }
