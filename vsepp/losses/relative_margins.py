"""Hinges whose margin depends on how alike the captions of two images are: small for alike ones, large for others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch.nn.functional import embedding_bag

from vsepp.base.declared import PositiveFloat
from vsepp.data.tables import read_tables
from vsepp.data.vectors import CaptionVectors
from vsepp.losses.batch import WHOLE, Batch
from vsepp.losses.common import hinge_costs

CITATION = "Relative Margin Loss for Visual-Semantic Embeddings, research post, 2019"
READS = ("corpus", "caption_vectors")


@dataclass(frozen=True)
class Options:
    """Options of relative margins."""

    vectors: Literal["tfidf", "minilm"] = "tfidf"
    """Vectors of the captions: TF-IDF of their words, or all-MiniLM-L6-v2, a sentence encoder that was trained on COCO and
    Flickr30K captions, among others."""
    scale: PositiveFloat = 1.0
    """Factor of all margins; 1 in the source, so captions that have nothing in common have the margin 1."""
    hardest: bool = True
    """Only the largest violation of a query counts, as with MH; otherwise all, as with SH."""
    mask_same_image: bool = False
    """Do not use captions of a query's own image, or that image, as its negatives; otherwise their margin is 0."""


def needs(options: Options) -> tuple[str, ...]:
    """What the loss needs to know about the pairs."""
    return ("image_rows", "caption_rows")


class State(torch.nn.Module):
    """The captions' vectors, and which captions each image has."""

    own: torch.Tensor
    values: torch.Tensor
    # `None` for dense vectors.
    columns: torch.Tensor
    offsets: torch.Tensor

    def __init__(self, options: Options, folders: Mapping[str, Path]) -> None:
        super().__init__()
        images, captions = read_tables(folders["corpus"])
        vectors = CaptionVectors.load(folders["caption_vectors"])
        for name, array in {
            **vars(vectors),
            "own": captions_of_images(captions["image_index"], len(images)),
        }.items():
            # A resumed training reads the buffers again, so they are no part of its checkpoints.
            self.register_buffer(name, None if array is None else torch.from_numpy(array), persistent=False)

    def margins(self, image_rows: torch.Tensor, caption_rows: torch.Tensor) -> torch.Tensor:
        """The smallest 1 − S of each caption and the captions of each image.

        Parameters
        ----------
        image_rows, caption_rows
            int64 `(n,)` and `(m,)`, rows of the tables.

        Returns
        -------
        torch.Tensor
            `margins[image, caption]`, `(n, m)` float32, from 0; 0 for captions of the image itself.
        """
        own = self.own[image_rows]
        similar = self._products(own.flatten(), caption_rows).view(*own.shape, -1).amax(dim=1)
        return (1 - similar).clamp_(min=0)

    def _products(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """Inner products of the vectors of captions `left` `(n,)` and of captions `right` `(m,)`: `(n, m)` float32."""
        if self.offsets is None:
            return self.values[left].float() @ self.values[right].float().T
        counts, columns, values = self._sparse(left)
        right_counts, right_columns, right_values = self._sparse(right)
        words, row = torch.cat([columns, right_columns]).unique(return_inverse=True)
        row, right_row = row.tensor_split([len(columns)])
        # The vectors of `right` as columns, with a row for each word of any caption; a caption of `left` sums the rows of its words.
        caption = torch.arange(len(right), device=right.device).repeat_interleave(right_counts)
        table = values.new_zeros(len(words), len(right)).index_put_((right_row, caption), right_values)
        return embedding_bag(row, table, counts.cumsum(0) - counts, mode="sum", per_sample_weights=values)

    def _sparse(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """How many numbers other than 0 each caption has, and their columns and values, one caption after another."""
        starts = self.offsets[rows]
        counts = self.offsets[rows + 1] - starts
        # A caption's first number stands at its start, the others follow.
        shifts = (starts - counts.cumsum(0) + counts).repeat_interleave(counts)
        places = torch.arange(len(shifts), device=rows.device) + shifts
        return counts, self.columns[places], self.values[places]


def captions_of_images(image_index: np.ndarray, images: int) -> np.ndarray:
    """Rows of each image's captions, `(n_images, most captions of an image)` int64; an image with fewer repeats its last one."""
    captions = np.argsort(image_index, kind="stable")
    counts = np.bincount(image_index, minlength=images)
    first = np.cumsum(counts) - counts
    within = np.minimum(np.arange(counts.max(initial=1)), np.maximum(counts, 1)[:, None] - 1)
    return captions[np.minimum(first[:, None] + within, len(captions) - 1)]


def loss(scores: torch.Tensor, options: Options = Options(), batch: Batch = WHOLE) -> torch.Tensor:
    """Hinges with a margin for each unmatched image and caption, summed over the queries and both directions.

    The margin of image i and caption ĉ is the smallest of 1 − S(c, ĉ) over the captions c of the image, S being the cosine of
    their vectors; a caption worded like one of the image's captions has no margin. Both directions have the same margins:
    [m(i, ĉ) − s(i, c) + s(i, ĉ)]₊ for the image as query, [m(î, c) − s(i, c) + s(î, c)]₊ for the caption. Differs from the
    source, which draws one negative at random: here the hardest counts, or all.

    Parameters
    ----------
    scores
        `(n, n)`, `scores[image, caption]`; the pairs lie on the diagonal.
    options
        See `Options`.
    batch
        What is known about the pairs, image and caption rows among them, and the `state`.

    Returns
    -------
    torch.Tensor
        Scalar.
    """
    with torch.no_grad():
        margins = options.scale * batch.state.margins(batch.image_rows, batch.caption_rows)
        margins.fill_diagonal_(0)
    # A hinge is negative + margin − positive, so the margin is added to the negatives.
    captions, images = hinge_costs(scores + margins, 0.0, batch, mask_same_image=options.mask_same_image)
    if options.hardest:
        captions, images = captions.max(dim=1).values, images.max(dim=1).values
    return captions.sum() + images.sum()
