"""The best items of each query by the embeddings, scored again by a matcher, which sees an image and a caption together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from vsepp.base.errors import VseppError
from vsepp.base.progress import track
from vsepp.data.captions import Tokens
from vsepp.evaluation.encode import BATCH, SplitRows, evaluation_mode
from vsepp.evaluation.scores import BestLists, Blocks, ranges
from vsepp.features.captions import CaptionStates
from vsepp.features.images import EvalImages
from vsepp.models.joint import JointEmbedding
from vsepp.models.sets import Sets

# Scores that are sorted at once: they stay in the cache.
_AT_ONCE = 1 << 20


@dataclass(frozen=True, eq=False)
class Reranker:
    """A model with a matcher, and the vectors and states of a split, all of them in memory."""

    model: JointEmbedding
    images: Sets
    captions: Sets
    device: torch.device

    @classmethod
    def of(
        cls,
        model: JointEmbedding,
        images: EvalImages,
        captions: Tokens | CaptionStates,
        rows: SplitRows,
        *,
        device: torch.device,
    ) -> Reranker:
        """Put a split through the towers; arguments as of `vsepp.evaluation.encode.encode_split`."""
        with evaluation_mode(model, device):
            vectors = []
            for part in ranges(len(rows.images), BATCH):
                batch = images.eval(rows.images[part]).map(lambda values: values.to(device))
                values, lengths = model.image_vectors(batch)
                assert lengths is not None  # a run with a matcher has sets
                vectors.append((values, lengths))
            states = []
            for part in ranges(len(rows.captions), BATCH):
                values, lengths = map(torch.from_numpy, captions.eval(rows.captions[part]))
                states.append((model.text(values.to(device), lengths), lengths))
        return cls(model, _stacked(vectors), _stacked(states), device)

    def best(self, scores: Blocks, images: slice, captions: np.ndarray) -> BestLists:
        """The k best items of each query of a fold, both ways, by the embeddings, with their logit of "match".

        Parameters
        ----------
        scores
            Scores of the fold's embeddings.
        images, captions
            Images and captions of the split that are in the fold.

        Raises
        ------
        VseppError
            If the fold has fewer images than are re-ranked.
        """
        k = self.model.matcher_options.k
        n_images, n_captions = scores.shape
        if k > n_images:
            raise VseppError(
                f"matcher: k is {k}, but only {n_images} images are ranked among each other; give a smaller k, or more images"
            )
        best_captions, best_images = best_items(scores, k)
        # Each pair once, although both of its sides may have it among their best.
        by_image = np.arange(n_images).repeat(k) * n_captions + best_captions.ravel()
        by_caption = best_images.ravel() * n_captions + np.arange(n_captions).repeat(k)
        pairs, which = np.unique(np.concatenate([by_image, by_caption]), return_inverse=True)
        matched = self._scores(images.start + pairs // n_captions, captions[pairs % n_captions])[which]
        i2t, t2i = np.split(matched, [n_images * k])
        return BestLists((best_captions, i2t.reshape(-1, k)), (best_images, t2i.reshape(-1, k)))

    def _scores(self, images: np.ndarray, captions: np.ndarray) -> np.ndarray:
        """Logits of "match" of pairs, float32 `(n,)`, from the rows of both."""
        lengths = self.captions.mask.sum(dim=1).cpu().numpy()[captions]
        # Captions of similar length together, so that they need little padding.
        order = np.argsort(lengths, kind="stable")
        scores = np.empty(len(images), np.float32)
        with evaluation_mode(self.model, self.device):
            for part in track(ranges(len(order), BATCH), len(order), "matching", "pair", each=BATCH):
                rows = order[part]
                pictures = self.images.take(self._put(images[rows]))
                texts = self.captions.take(self._put(captions[rows]))
                longest = lengths[rows].max()
                texts = Sets(texts.values[:, :longest], texts.mask[:, :longest])
                scores[rows] = self.model.match(pictures, texts)[:, 1].float().cpu().numpy()
        return scores

    def _put(self, rows: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(rows).to(self.device)


def _stacked(parts: list[tuple[torch.Tensor, torch.Tensor]]) -> Sets:
    """Batches of sets with their lengths, joined to one and padded to the longest set."""
    values = pad_sequence([vectors for values, _ in parts for vectors in values], batch_first=True)
    return Sets.from_lengths(values, torch.cat([lengths for _, lengths in parts]))


def best_items(scores: Blocks, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k captions of each image, int64 `(n_images, k)`, and k images of each caption, `(n_captions, k)`, with the highest scores.

    The best stands first; equal ones keep their order.

    Parameters
    ----------
    scores
        Scores on a CPU.
    k
        Number of items; fewer where the gallery has fewer.
    """
    n_images, n_captions = scores.shape
    tall, wide = (max(1, _AT_ONCE // other) for other in (n_captions, n_images))
    of_images = np.empty((n_images, min(k, n_captions)), np.int64)
    of_captions = np.empty((n_captions, min(k, n_images)), np.int64)
    for rows in ranges(n_images, tall):
        parts = (scores.block(rows, part) for part in ranges(n_captions, scores.block_shape[1]))
        _, of_images[rows] = best_of_blocks(parts, k)
    for columns in ranges(n_captions, min(wide, scores.block_shape[1])):
        of_captions[columns] = best_columns(scores.block(slice(0, n_images), columns).T, k)
    return of_images, of_captions


def best_columns(scores: np.ndarray, k: int) -> np.ndarray:
    """The k columns with the highest scores of each row, the best first, equal ones in their order.

    Parameters
    ----------
    scores
        `(n, m)`, no NaN.
    k
        From 1; all columns where there are fewer.

    Returns
    -------
    np.ndarray
        int64 `(n, k)`.
    """
    lower = -scores
    if k >= scores.shape[1]:
        return np.argsort(lower, axis=1, kind="stable")
    best = np.empty((len(scores), k), np.int64)
    for row, last in enumerate(np.partition(lower, k - 1, axis=1)[:, k - 1]):
        # All that are tied with the k-th are there, so that the first of them are taken.
        columns = np.flatnonzero(lower[row] <= last)
        best[row] = columns[np.argsort(lower[row, columns], kind="stable")[:k]]
    return best


def best_of_blocks(blocks: Iterable[np.ndarray], k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k highest scores of each row and their columns, the best first, equal ones in the order of their columns.

    Parameters
    ----------
    blocks
        At least one block, `(n, m)` of any m: its columns follow the columns of the block before. One block is held at a time.
    k
        From 1; all columns where there are fewer.

    Returns
    -------
    tuple
        Scores, and columns, int64, both `(n, k)`.

    Raises
    ------
    VseppError
        If a score is NaN.
    """
    start, scores, columns = 0, np.empty(0), np.empty(0, np.int64)
    for block in blocks:
        if (unknown := np.isnan(block).any(axis=0)).any():
            raise VseppError(f"scores: candidate {start + np.argmax(unknown)} has NaN, which has no rank")
        order = best_columns(block, k)
        found, places = np.take_along_axis(block, order, axis=1), order + start
        if start:
            found, places = (np.concatenate(both, axis=1) for both in ((scores, found), (columns, places)))
            order = best_columns(found, k)
            found, places = (np.take_along_axis(values, order, axis=1) for values in (found, places))
        scores, columns, start = found, places, start + block.shape[1]
    return scores, columns
