"""What a user gives to be scored: embeddings, a matrix of scores, lists of the best, or an adapter of a model."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from vsepp import adapters
from vsepp.data.arrays import read_arrays
from vsepp.data.containers import Container
from vsepp.errors import VseppError, refuse
from vsepp.evaluation.embeddings import EMBEDDING_ARRAYS, IDS, Embeddings
from vsepp.evaluation.scores import BestLists, ScoredSet, ScoreMatrix
from vsepp.user_files import is_there, reading

_LISTS = ("i2t_items", "i2t_scores", "t2i_items", "t2i_scores")


def read_given(
    given: str,
    corpus: Path | None = None,
    split: str = "test",
    pictures: Path | None = None,
    model: str | None = None,
) -> Embeddings | ScoredSet:
    """A test set as anyone's model embeds or scores it.

    Parameters
    ----------
    given
        An `.npz` of embeddings, see `Embeddings.load`; of `scores` `(n_images, n_captions)`; or of the best items of each query,
        `i2t_items`, `i2t_scores`, `t2i_items`, `t2i_scores` `(n_queries, k)`, rows of the gallery, -1 where a list is shorter. Scores
        and lists come with `caption_to_image` and, if known, `image_ids` and `caption_ids`. Or `module:name`, see `vsepp.adapters`.
    corpus, split
        Folder of the corpus' tables, and the split that adapters embed.
    pictures, model
        Folder of the image files, and what `name` is called with.

    Raises
    ------
    VseppError
        Naming the file or the adapter, and what is wrong with it.
    """
    if not is_adapter(given):
        return _of_arrays(Path(given))
    if corpus is None:
        raise VseppError(f"{given}: expected the tables of the corpus that it embeds, got none")
    # Embeddings of others need no packages of the workflow; tables need pyarrow, one of them.
    from vsepp.data.tables import read_tables
    from vsepp.evaluation.encode import split_rows

    images, captions = read_tables(corpus)
    with reading(corpus, "tables of a corpus"):
        rows = split_rows(images, captions, split)
    ids, names = ([str(one) for one in images[column][rows.images]] for column in ("image_id", "file_name"))
    are_numbers = all(re.fullmatch("0|[1-9][0-9]{0,17}", one) for one in ids)
    known = np.array([int(one) for one in ids] if are_numbers else ids), captions["caption_id"][rows.captions]
    adapter, what = adapters.load(given, model), f"adapter {given}: embed_"
    texts, files = captions["text"][rows.captions].tolist(), _files(pictures, names)
    vectors = (
        adapters.in_batches(f"{what}images", adapter.embed_images, files),
        adapters.in_batches(f"{what}captions", adapter.embed_captions, texts),
    )
    return Embeddings(*vectors, rows.caption_to_image, image_ids=known[0], caption_ids=known[1])


def is_adapter(given: str) -> bool:
    """Whether `given` is `module:name`, and no file."""
    return not is_there(Path(given)) and re.fullmatch(r"[\w.]+:\w+", given) is not None


def _of_arrays(path: Path) -> Embeddings | ScoredSet:
    """Embeddings, unless the file has scores."""
    expected = "an .npz of embeddings, scores or lists"
    arrays = read_arrays(path, (*EMBEDDING_ARRAYS, "scores", *_LISTS), expected)
    names = ("scores",) if "scores" in arrays else _LISTS
    if arrays.keys().isdisjoint(names):
        return Embeddings.load(path)
    if (found := arrays.keys() - {*IDS}) != (wanted := {*names, "caption_to_image"}):
        raise VseppError(
            f"{path}: expected {', '.join(sorted(wanted))}, and ids if known, got {', '.join(sorted(found))}"
        )
    with reading(path, expected):
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


def _files(pictures: Path | None, names: list[str]) -> list[Path]:
    """The image files, which may lie in subfolders of `pictures`."""
    if pictures is None or not pictures.is_dir():
        raise VseppError(f"expected a folder of the pictures, got {pictures}")
    folder = Container(pictures)
    found = {name: folder.locate(name) for name in names}
    refuse([name for name in names if not found[name]], f"{pictures}: missing pictures", "Add them.")
    return [pictures / str(found[name]) for name in names]
