"""What arrays of the right shape can still get wrong: images that are listed several times, distances in the place of scores."""

from __future__ import annotations

import numpy as np

from vsepp.base.errors import VseppError
from vsepp.evaluation.best import BestLists
from vsepp.evaluation.embedding_scores import EmbeddingScores
from vsepp.evaluation.scores import ScoreMatrix, Scores

_LOOKED_AT = 1000
"""Rows that are compared, drawn at random: enough to tell a half from a few."""
_COLUMNS = 1024
"""Columns of the rows that are compared."""
_MOST_TIMES = 20
"""Times that one image may be listed in no order, as often as it has captions; more equal rows are a model that tells few apart."""
_EQUAL, _OF_SPREAD = 1e-3, 1e-2
"""Two rows are one image if they differ by less than this part of their length, and of the distance between any two rows."""
_OF_PATTERN, _PATTERN = 0.03, 0.95
"""Or if they stand where repeated images stand, and more than this share of such rows differ by less than this part of the distance
between any two rows: as far apart as half precision leaves one image."""
_REVERSED, _CHANCE = 0.9, 0.5
"""Share of wrong items above an item's own, and of lists that rise, from which on scores are taken for distances; and at chance."""
_SURE, _FAR = 2.5, 0.7
"""Of n items, a lower share is enough: chance plus `_SURE` / √n, eight standard deviations, but no less than `_FAR`."""
_FEWEST, _FEWEST_ROWS = 5, 20
"""Images or lists that are needed to tell distances, and rows to tell repeated images: hand-written sets have equal rows."""
_DISTANCES = "these look like distances; larger must be nearer: give their negative"


def check_meaning(scores: Scores, caption_to_image: np.ndarray) -> None:
    """Refuse scores that have the right shape and another meaning.

    Not refused: a model that gives all images one embedding, a model at chance, ties, unsorted lists, and the few images that real data
    have twice.

    Parameters
    ----------
    scores
        `scores[image, caption]` of a whole test set.
    caption_to_image
        `(n_captions,)`, the row of each caption's image.

    Raises
    ------
    VseppError
        If most images are listed several times, saying what to give instead; and if scores are distances: own captions have the lowest
        scores of a matrix, or lists rise from the first place to the last.
    """
    if isinstance(scores, EmbeddingScores):
        _refuse_repeated("image_embeddings", scores.images, caption_to_image)
    elif isinstance(scores, ScoreMatrix):
        _refuse_repeated("scores", scores.scores, caption_to_image)
        _refuse_distances(scores.scores, caption_to_image)
    elif isinstance(scores, BestLists):
        _refuse_repeated("i2t_items, i2t_scores", np.hstack(scores.lists["i2t"]), caption_to_image)
        for direction, (items, values) in scores.lists.items():
            _refuse_rising(direction, items, values)
            _refuse_low_own(direction, items, values, caption_to_image)


def _refuse_repeated(name: str, rows: np.ndarray, caption_to_image: np.ndarray) -> None:
    count = len(rows)
    if count < _FEWEST_ROWS:
        return
    generator = np.random.default_rng(0)
    rows = _finite(rows[:, np.sort(generator.permutation(rows.shape[1])[:_COLUMNS])])
    chosen = generator.permutation(count)[:_LOOKED_AT]
    apart = np.median(_distances(rows, chosen, (chosen + 1 + count // 2) % count))
    if not apart > 0:  # one embedding for most images: such a model ranks like chance, and the numbers say so
        return

    def are_equal(partners: np.ndarray, others: np.ndarray) -> bool:
        """Whether chosen rows equal their partners, measured by the distance to rows of the next image; a few are tried first."""
        for some, least in ((slice(_FEWEST_ROWS), 0.5), (slice(None), _PATTERN)):
            beside = np.median(_distances(rows, chosen[some], others[some]))
            near = _distances(rows, chosen[some], partners[some]) <= _OF_PATTERN * min(apart, beside)
            if near.mean() <= least:
                return False
        return True

    # The most times first: what is there ten times is there twice five times.
    each_once = np.array_equal(caption_to_image, np.arange(count))
    array = "scores" if name == "scores" else "images"
    for times in (number for number in range(count // 2, 1, -1) if count % number == 0):
        images = count // times
        if are_equal(chosen - chosen % times + (chosen + times // 2) % times, (chosen + times) % count):
            cure = f"{array}[::{times}]"
            owner = f"repeat(arange({images}), {times})" if each_once else f"caption_to_image // {times}"
        elif are_equal((chosen + images) % count, (chosen + 1) % count):
            cure = f"{array}[:{images}]"
            owner = f"tile(arange({images}), {times})" if each_once else f"caption_to_image % {images}"
        else:
            continue
        if images < _FEWEST:
            return
        raise VseppError(
            f"{name}: {count:,} rows are {images:,} images, {times} times each: give {cure} and caption_to_image = {owner}"
        )
    # Any number of times: equal rows stand beside each other, or lie so along any direction.
    direction = generator.standard_normal((rows.shape[1],), np.float32)
    narrow = np.minimum(_EQUAL * np.linalg.norm(rows[chosen], axis=1), _OF_SPREAD * apart)
    for order, limit, least in (
        (np.arange(count), _OF_PATTERN * apart, _PATTERN),
        (np.argsort(rows @ direction, kind="stable"), narrow, 0.5),
    ):
        place = np.empty(count, np.int64)
        place[order] = np.arange(count)
        before, after = (
            _distances(rows, chosen, order[(place[chosen] + step) % count]) <= limit for step in (-1, 1)
        )
        if (before | after).mean() > least and before.mean() <= 1 - 1 / (_MOST_TIMES + 2):
            raise VseppError(
                f"{name}: more than half of the {count:,} rows are the same image as another row: give each image once, and "
                "caption_to_image with the row of each caption's image"
            )


def _distances(rows: np.ndarray, some: np.ndarray, others: np.ndarray) -> np.ndarray:
    return np.linalg.norm(rows[some] - rows[others], axis=1)


def _finite(rows: np.ndarray) -> np.ndarray:
    """Rows as numbers to subtract: what is left out as minus infinity is one number for all."""
    return np.nan_to_num(np.asarray(rows, np.float32), neginf=-1e6, posinf=1e6)


def _refuse_distances(scores: np.ndarray, caption_to_image: np.ndarray) -> None:
    images, captions = scores.shape
    if images < _FEWEST:
        return
    chosen = np.sort(np.random.default_rng(0).permutation(captions)[:_LOOKED_AT])
    some = scores[:, chosen]
    above = (
        np.mean(some > some[caption_to_image[chosen], np.arange(len(chosen))], axis=0) * images / (images - 1)
    )
    if _is_reversed(above):
        raise VseppError(
            f"scores: {above.mean():.0%} of the images have a higher score with a caption than its own image: {_DISTANCES}"
        )


def _is_reversed(above: np.ndarray) -> bool:
    """Whether own items lie below wrong ones, by the share of wrong items above each own one, `(n,)`."""
    if len(above) < _FEWEST:
        return False
    return float(above.mean()) > min(_REVERSED, max(_FAR, _CHANCE + _SURE / len(above) ** 0.5))


def _refuse_low_own(
    direction: str, items: np.ndarray, scores: np.ndarray, caption_to_image: np.ndarray
) -> None:
    """Refuse lists, in whatever order, in which own items have the lowest scores."""
    queries = np.arange(len(items))[:, None]
    own = caption_to_image[items] == queries if direction == "i2t" else items == caption_to_image[queries]
    own, wrong = own & (items >= 0), ~own & (items >= 0)
    some = own.any(axis=1) & wrong.any(axis=1)
    best = np.where(own, scores, -np.inf).max(axis=1, keepdims=True)
    above = (wrong & (scores > best))[some].sum(axis=1) / wrong[some].sum(axis=1)
    if _is_reversed(above):
        raise VseppError(
            f"{direction}_scores: {above.mean():.0%} of the wrong items of a list have a higher score than the correct ones in it: "
            f"{_DISTANCES}"
        )


def _refuse_rising(direction: str, items: np.ndarray, scores: np.ndarray) -> None:
    listed = items >= 0
    pairs = listed[:, 1:] & listed[:, :-1]
    if items.shape[1] < 2 or len(items) < _FEWEST:
        return
    steps = np.where(pairs, np.diff(scores.astype(np.float64), axis=1), 0)
    rising = (steps >= 0).all(axis=1) & (steps > 0).any(axis=1)
    if rising.mean() > _REVERSED:
        raise VseppError(
            f"{direction}_scores: they rise from the first place to the last in {rising.sum():,} of {len(items):,} lists: {_DISTANCES}"
        )
