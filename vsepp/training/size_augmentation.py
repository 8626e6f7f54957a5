"""Size augmentation: a training step leaves out some of an image's vectors and of a caption's words (VSE∞, Section 4.3).

What is left out is a function of (draw, epoch, caption id), as a random crop is, so that a resumed training sees the same.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from vsepp.base.declared import PIECES
from vsepp.base.errors import VseppError
from vsepp.base.hashed import (
    CHANGED_WORDS,
    DROPPED_SHARE,
    DROPPED_VECTORS,
    OTHER_WORDS,
    WORDS_FATES,
    keys_of,
    uniform,
)
from vsepp.base.placement import upload
from vsepp.base.spec import RunSpec
from vsepp.data.tokens import PAD, SPECIAL, Tokens
from vsepp.data.vocabulary import MASK, Vocabulary
from vsepp.features.captions import CaptionStates
from vsepp.models.sets import ImageBatch, take_vectors

TrainInputs = Callable[[np.ndarray, int], ImageBatch]
"""Indices of training pairs `(n,)` and the epoch (from 0) → the model's input for their images; see `ImageInputs`."""
TrainCaptions = Callable[[np.ndarray, int], tuple[np.ndarray, np.ndarray]]
"""The same pairs and epoch → token ids int64 `(n, longest)` of their captions, or states of the tokens; and lengths int64 `(n,)`."""

# Bound of an image's uniform number, in VSE∞'s code: up to it, none of the image's cells are dropped.
_NONE_UP_TO = 0.2
# Shares of the changed words that are masked, and that are replaced by another word; the rest are left out.
MASKED, REPLACED = 0.5, 0.1


def thinned_images(
    inputs: TrainInputs, caption_ids: np.ndarray, run: RunSpec, cells: int | None = None
) -> TrainInputs:
    """A training's images without the vectors that each step drops.

    Parameters
    ----------
    inputs
        All vectors; or crops for an encoder inside the model, where vectors are dropped from its grids.
    caption_ids
        int64 `(n_pairs,)`, of the training pairs.
    run
        Its `size_augmentation` and `draw`.
    cells
        Cells of a grid, if `inputs` are crops.
    """
    share, by = run.size_augmentation.drop_vectors, run.size_augmentation.drop_vectors_by
    if not share:
        return inputs

    def thinned(chosen: np.ndarray, epoch: int) -> ImageBatch:
        batch = inputs(chosen, epoch)
        values, lengths = batch.values, batch.lengths
        longest = cells or values.shape[1]
        sizes = np.full(len(values), longest) if lengths is None else lengths.numpy()
        keys = keys_of(caption_ids[chosen], run.draw, epoch)
        dropped = np.full(len(values), share)
        if by == "image":
            of_image = uniform(keys, DROPPED_SHARE)
            dropped = np.where(of_image > _NONE_UP_TO, share * of_image, 0.0)
        draws = _uniforms(keys, DROPPED_VECTORS[:longest])
        there = np.arange(longest) < sizes[:, None]
        order, left = _in_front(_one_at_least(there & (draws >= dropped[:, None]), there, draws))
        kept, counts = upload(order, values.device), torch.from_numpy(left)
        return (
            ImageBatch(values, counts, kept)
            if cells
            else ImageBatch(take_vectors(values, kept, counts), counts)
        )

    return thinned


def thinned_captions(
    tokens: Tokens,
    captions: Tokens | CaptionStates,
    pairs: np.ndarray,
    caption_ids: np.ndarray,
    run: RunSpec,
    vocabulary: Vocabulary,
) -> TrainCaptions:
    """A training's captions without the words that each step drops, or with these masked or replaced.

    `<start>` and `<end>` are never touched. Differs from VSE∞'s code for the BiGRU, which may touch them.

    Parameters
    ----------
    tokens
        All captions of the corpus.
    captions
        The model's inputs for these captions: the same tokens, or their states.
    pairs, caption_ids
        int64 `(n_pairs,)`, rows and ids of the captions of the training pairs.
    run
        Its `size_augmentation` and `draw`.
    vocabulary
        The tokens' vocabulary; with `mask` it has a token for hidden words.

    Raises
    ------
    VseppError
        If words are to be masked, and the vocabulary has no such token, or the model reads states.
    """
    share, by = run.size_augmentation.drop_words, run.size_augmentation.drop_words_by
    hidden = vocabulary.mask
    if not share:
        return lambda chosen, _: captions.eval(pairs[chosen])
    if by == "mask" and captions is not tokens:
        raise VseppError(f"run {run.id}: drop_words_by is mask with a frozen text encoder; expected deletion")
    if by == "mask" and hidden is None:
        raise VseppError(
            f"run {run.id}: drop_words_by is mask, and the vocabulary has no {MASK}; make its tokens with mask: true"
        )

    def thinned(chosen: np.ndarray, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        ids, lengths = tokens.eval(pairs[chosen])
        positions = np.arange(ids.shape[1])
        word = (positions > 0) & (positions < lengths[:, None] - 1)
        keys = keys_of(caption_ids[chosen], run.draw, epoch)
        # The pieces of a word share its draws.
        word_of = np.cumsum(~vocabulary.continued[ids], axis=1) - 1
        draws = np.take_along_axis(_uniforms(keys, CHANGED_WORDS[: ids.shape[1]]), word_of, axis=1)
        deleted = word & (draws < share)
        if by == "mask":
            fate, other = (_uniforms(keys, numbers[: ids.shape[1]]) for numbers in (WORDS_FATES, OTHER_WORDS))
            fate = np.take_along_axis(fate, word_of, axis=1)
            drawn = np.where(fate < MASKED, hidden, _replacing(other, vocabulary))  # type: ignore[arg-type]  # is there
            ids = np.where(deleted & (fate < MASKED + REPLACED), drawn, ids)
            deleted &= fate >= MASKED + REPLACED
        kept = _one_at_least(word & ~deleted, word, draws)
        order, left = _in_front(kept | (~word & (positions < lengths[:, None])))
        if captions is not tokens:
            states, _ = captions.eval(pairs[chosen])
            return np.take_along_axis(states, order[:, :, None], axis=1), left
        thin = np.take_along_axis(ids, order, axis=1)
        return np.where(np.arange(order.shape[1]) < left[:, None], thin, PAD), left

    return thinned


def _replacing(uniforms: np.ndarray, vocabulary: Vocabulary) -> np.ndarray:
    """Tokens that uniform numbers choose: any word but the special tokens, or any piece, as in VSE∞'s code."""
    first, last = (0, 0) if vocabulary.kind == PIECES else (len(SPECIAL), 1)
    return first + (uniforms * (len(vocabulary) - first - last)).astype(np.int64)


def _uniforms(keys: np.ndarray, numbers: range) -> np.ndarray:
    """Some uniform numbers of every key: float64 `(n, len(numbers))`."""
    return np.stack([uniform(keys, number) for number in numbers], axis=1)


def _one_at_least(kept: np.ndarray, there: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Kept places `(n, k)`; a row that would lose all its places keeps the one with the largest draw, or all places of that word."""
    none = there.any(axis=1, keepdims=True) & ~kept.any(axis=1, keepdims=True)
    last = np.where(there, draws, -1.0).max(axis=1, keepdims=True, initial=-1.0)
    return kept | (none & there & (draws == last))


def _in_front(kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Kept places of each row in their order, before others: int64 `(n, most)`, and how many are kept, int64 `(n,)`."""
    left = kept.sum(axis=1)
    return np.argsort(~kept, axis=1, kind="stable")[:, : left.max(initial=1)], left
