"""Size augmentation: a training step leaves out a share of an image's vectors and of a caption's words (VSE∞, Section 4.3).

What is left out is a function of (draw, epoch, caption id), as a random crop is, so that a resumed training sees the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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
from vsepp.base.run_spec import RunSpec
from vsepp.data.captions import PAD, SPECIAL, Tokens, Vocabulary
from vsepp.features.captions import CaptionStates
from vsepp.features.images import Images, TrainImages
from vsepp.models.sets import ImageBatch, take_vectors

# Bound of an image's uniform number, in VSE∞'s code: up to it, none of the image's cells are dropped.
_NONE_UP_TO = 0.2
# Shares of the changed words that are masked, and that are replaced by another word; the rest are left out.
MASKED, REPLACED = 0.5, 0.1


def augmented_images(images: Images, run: RunSpec, caption_ids: np.ndarray) -> Images:
    """A training's images without the vectors that each step drops, if the run drops any.

    Parameters
    ----------
    images
        Images with all their vectors; or crops for an encoder inside the model, where vectors are dropped from its grids.
    run
        Its `size_augmentation` and `draw`.
    caption_ids
        int64 `(n_captions,)`, the id of every row of the captions table.
    """
    if not run.size_augmentation.drop_vectors:
        return images
    return replace(images, trained=FewerVectors(images.trained, images.cells, run, caption_ids))


@dataclass(frozen=True, eq=False)
class FewerVectors:
    """Images of which each training step drops vectors; see `augmented_images`."""

    whole: TrainImages
    cells: int | None
    run: RunSpec
    caption_ids: np.ndarray

    def train(self, caption_rows: np.ndarray, epoch: int) -> ImageBatch:
        """The vectors that are kept in an epoch: one of each image at least."""
        batch, spec = self.whole.train(caption_rows, epoch), self.run.size_augmentation
        keys = keys_of(self.caption_ids[caption_rows], self.run.draw, epoch)
        longest = self.cells or batch.values.shape[1]
        sizes = np.full(len(keys), longest) if batch.lengths is None else batch.lengths.numpy()
        share = np.full(len(keys), spec.drop_vectors)
        if spec.drop_vectors_by == "image":
            drawn = uniform(keys, DROPPED_SHARE)
            share = np.where(drawn > _NONE_UP_TO, share * drawn, 0.0)
        numbers = _uniforms(keys, DROPPED_VECTORS[:longest])
        mask = np.arange(longest) < sizes[:, None]
        order, counts = _kept_first(_with_one(mask & (numbers >= share[:, None]), mask, numbers))
        kept, lengths = upload(order, batch.values.device), torch.from_numpy(counts)
        if self.cells:
            return ImageBatch(batch.values, lengths, kept)
        return ImageBatch(take_vectors(batch.values, kept, lengths), lengths)


class TrainingCaptions:
    """A training's captions, without the words that each step drops, or with these masked or replaced, if the run drops any.

    `<start>` and `<end>` are touched by `mask_any` alone. Differs from VSE∞'s code, which may leave nothing: one token stays.

    Parameters
    ----------
    captions
        All captions of the corpus: tokens, or the tokens' states.
    run
        Its `size_augmentation` and `draw`.
    caption_ids
        int64 `(n_captions,)`, the id of every row of the captions table.
    vocabulary
        The tokens' vocabulary; with `mask` it has a token for hidden words.

    Raises
    ------
    VseppError
        If words are to be masked, and the model reads states.
    """

    def __init__(
        self, captions: Tokens | CaptionStates, run: RunSpec, caption_ids: np.ndarray, vocabulary: Vocabulary
    ) -> None:
        self.all = captions
        """What validation reads."""
        self._spec, self._draw = run.size_augmentation, run.draw
        self._any = self._spec.drop_words_by == "mask_any"
        self._caption_ids, self._vocabulary = caption_ids, vocabulary
        if not self._spec.drop_words or self._spec.drop_words_by == "deletion":
            return
        if isinstance(captions, CaptionStates):
            raise VseppError(
                f"run {run.id}: drop_words_by is {self._spec.drop_words_by} with a frozen text encoder; expected deletion"
            )

    def train(self, caption_rows: np.ndarray, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Captions of rows `(n,)` of the captions table in an epoch, from 0: token ids int64 `(n, longest)`, or states, and lengths."""
        if not self._spec.drop_words:
            return self.all.eval(caption_rows)
        states = self.all if isinstance(self.all, CaptionStates) else None
        ids, lengths = (states.tokens if states else self.all).eval(caption_rows)
        ids, kept = self._dropped(ids, lengths, keys_of(self._caption_ids[caption_rows], self._draw, epoch))
        order, counts = _kept_first(kept)
        if states:
            values, _ = states.eval(caption_rows)
            return np.take_along_axis(values, order[:, :, None], axis=1), counts
        ids = np.take_along_axis(ids, order, axis=1)
        return np.where(np.arange(order.shape[1]) < counts[:, None], ids, PAD), counts

    def _dropped(
        self, ids: np.ndarray, lengths: np.ndarray, keys: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Tokens `(n, longest)`, with masked and replaced words, and which of them are kept, bool."""
        longest = ids.shape[1]
        positions = np.arange(longest)
        caption = positions < lengths[:, None]
        word = caption
        if not self._any:
            ends = self._vocabulary.read_as.end_token
            word = (positions > 0) & (positions < lengths[:, None] - ends)
        # The pieces of a word share its numbers.
        word_of = np.cumsum(~self._vocabulary.continued[ids], axis=1) - 1

        def numbers(which: range) -> np.ndarray:
            return np.take_along_axis(_uniforms(keys, which[:longest]), word_of, axis=1)

        chances = numbers(CHANGED_WORDS)
        dropped = word & (chances < self._spec.drop_words)
        if self._spec.drop_words_by != "deletion":
            fate, hidden = numbers(WORDS_FATES), self._vocabulary.mask
            others = _uniforms(keys, OTHER_WORDS[:longest])  # each piece has its own
            replacement = np.where(fate < MASKED, hidden, self._any_token(others))  # type: ignore[arg-type]  # is there
            ids = np.where(dropped & (fate < MASKED + REPLACED), replacement, ids)
            dropped &= fate >= MASKED + REPLACED
        return ids, _with_one(word & ~dropped, word, chances) | (caption & ~word)

    def _any_token(self, uniforms: np.ndarray) -> np.ndarray:
        """Tokens that uniform numbers choose: any, as in VSE∞'s code; by `mask` any word but the special tokens, or any piece."""
        first, last = (0, 0) if self._any or self._vocabulary.kind == PIECES else (len(SPECIAL), 1)
        return first + (uniforms * (len(self._vocabulary) - first - last)).astype(np.int64)


def _uniforms(keys: np.ndarray, which: range) -> np.ndarray:
    """Uniform numbers of every key: float64 `(n, len(which))`."""
    return np.stack([uniform(keys, number) for number in which], axis=1)


def _with_one(kept: np.ndarray, mask: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Kept places `(n, k)` of those in the mask; a row without any keeps the place with the largest number, or all pieces of that word."""
    empty = mask.any(axis=1, keepdims=True) & ~kept.any(axis=1, keepdims=True)
    largest = np.where(mask, numbers, -1.0).max(axis=1, keepdims=True, initial=-1.0)
    return kept | (empty & mask & (numbers == largest))


def _kept_first(kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of each row, kept ones in front in their order, int64 `(n, most)`; and how many are kept, int64 `(n,)`."""
    counts = kept.sum(axis=1)
    return np.argsort(~kept, axis=1, kind="stable")[:, : counts.max(initial=1)], counts
