"""What a user gives to be scored: embeddings, a matrix of scores, or lists of the best."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from vsepp.base.errors import VseppError
from vsepp.base.files import reading
from vsepp.data.arrays import read_npz
from vsepp.evaluation.embeddings import EMBEDDING_ARRAYS, IDS, Embeddings
from vsepp.evaluation.scores import BestLists, ScoredSet, ScoreMatrix

_LISTS = ("i2t_items", "i2t_scores", "t2i_items", "t2i_scores")
_EXPECTED = "an .npz of embeddings, scores or lists"


def read_given(path: Path) -> Embeddings | ScoredSet:
    """A test set as anyone's model embeds or scores it.

    Parameters
    ----------
    path
        An `.npz` of embeddings, see `Embeddings.load`; of `scores` `(n_images, n_captions)`; or of the best items of each query,
        `i2t_items`, `i2t_scores`, `t2i_items`, `t2i_scores` `(n_queries, k)`, rows of the gallery, -1 where a list is shorter. Scores
        and lists come with `caption_to_image` and, if known, `image_ids` and `caption_ids`.

    Raises
    ------
    VseppError
        Naming the file, and what is wrong with it.
    """
    arrays = read_npz(path, (*EMBEDDING_ARRAYS, "scores", *_LISTS), _EXPECTED)
    names = ("scores",) if "scores" in arrays else _LISTS
    if arrays.keys().isdisjoint(names):
        return Embeddings.load(path)
    if (found := arrays.keys() - {*IDS}) != (wanted := {*names, "caption_to_image"}):
        raise VseppError(
            f"{path}: expected {', '.join(sorted(wanted))}, and ids if known, got {', '.join(sorted(found))}"
        )
    with reading(path, _EXPECTED):
        if names == _LISTS:
            i2t_items, i2t, t2i_items, t2i = (arrays[name] for name in _LISTS)
            lists = BestLists((i2t_items, i2t), (t2i_items, t2i))
            return ScoredSet(lists, arrays["caption_to_image"], _words(lists), *map(arrays.get, IDS))
        scores = ScoreMatrix(arrays["scores"])
        if np.isnan(of_rows := scores.scores.max(axis=1)).any():
            raise VseppError(f"scores: expected numbers, got NaN in image row {np.argmax(np.isnan(of_rows))}")
        return ScoredSet(scores, arrays["caption_to_image"], "matrix of scores", *map(arrays.get, IDS))


def _words(lists: BestLists) -> str:
    depths = [items.shape[1] for items, _ in lists.lists.values()]
    short = ", some shorter" if any((items < 0).any() for items, _ in lists.lists.values()) else ""
    return f"lists of the {' and '.join(map(str, dict.fromkeys(depths)))} best{short}"
