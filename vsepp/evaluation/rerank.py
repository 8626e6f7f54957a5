"""The best items of each query by the embeddings, scored again by a matcher, which sees an image and a caption together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from vsepp.base.errors import VseppError
from vsepp.base.progress import track
from vsepp.data.captions import Tokens
from vsepp.data.tables import SplitRows
from vsepp.evaluation.best import BestLists, best_items
from vsepp.evaluation.encode import BATCH, evaluation_mode
from vsepp.evaluation.scores import Blocks, ranges
from vsepp.features.captions import CaptionStates
from vsepp.features.images import EvalImages
from vsepp.models.joint import JointEmbedding
from vsepp.models.sets import Sets


@dataclass(frozen=True, eq=False)
class Reranker:
    """A model with a matcher, and the vectors and states of a split, all of them in memory."""

    model: JointEmbedding
    images: Sets
    captions: Sets
    device: torch.device

    @classmethod
    def from_split(
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
                _, lengths, values = model.image_vectors(batch)
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
            for part in track(ranges(len(order), BATCH), len(order), "matching", "pair", per_item=BATCH):
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
