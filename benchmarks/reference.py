"""A training step and a ranking written as the authors' were, to compare with: part of no workflow.

Pairs come from a torch `Dataset` through a `DataLoader` with worker processes; its collate sorts captions by their
length, stacks images and pads captions one by one. Where the run has an encoder, workers decode the JPEG of each
caption with PIL, scale and crop it. The step is in fp32, on a GPU with TF32 in convolutions and the GRU, as torch has
it by default: packed captions, cuDNN's GRU on a GPU, the MH loss on the score matrix, `clip_grad_norm_`,
`torch.optim.Adam`, and the loss is read by the host after every step. Captions come as word ids, which spares the
reference the tokenizer that the released code runs in its workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import DataLoader, Dataset

from vsepp.models.encoder import ImageEncoder
from vsepp.models.joint import JointEmbedding
from vsepp.spec import RunSpec

MARGIN = 0.2


class Pairs(Dataset):
    """Captions, word ids `(length,)`, with their images.

    These are features `(n, D_φ)` in memory, or the files of photographs: then each caption has its own decoded anew, and
    a random crop of it, normalised, `(3, size, size)`.
    """

    def __init__(
        self,
        images: np.ndarray | Sequence[Path],
        captions: Sequence[np.ndarray],
        image_of: Sequence[int],
        run: RunSpec,
    ) -> None:
        self.images, self.captions, self.image_of, self.run = images, captions, image_of, run

    def __len__(self) -> int:
        return len(self.captions)

    def __getitem__(self, row: int) -> tuple[torch.Tensor, torch.Tensor]:
        image = self.images[self.image_of[row] % len(self.images)]
        seen = torch.tensor(image) if isinstance(image, np.ndarray) else self._crop(image)
        return seen, torch.tensor(self.captions[row], dtype=torch.int64)

    def _crop(self, file: Path) -> torch.Tensor:
        size, side = self.run.crop.size, self.run.train_store.side
        with Image.open(file) as photograph:
            whole = photograph.convert("RGB").resize((side, side), Image.Resampling.BILINEAR)
        left, top = torch.randint(side - size + 1, (2,)).tolist()
        crop = np.array(whole.crop((left, top, left + size, top + size)))
        pixels = torch.from_numpy(crop).permute(2, 0, 1).contiguous().float().div_(255)
        encoder = self.run.encoder
        mean, std = (torch.tensor(values)[:, None, None] for values in (encoder.mean, encoder.std))
        return pixels.sub_(mean).div_(std)


def collate(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
    """Images `(n, ...)`, ids `(n, longest)` padded with 0, and lengths, longest caption first."""
    pairs.sort(key=lambda pair: len(pair[1]), reverse=True)
    lengths = [len(caption) for _, caption in pairs]
    ids = torch.zeros(len(pairs), max(lengths), dtype=torch.int64)
    for row, (_, caption) in enumerate(pairs):
        ids[row, : len(caption)] = caption
    return torch.stack([image for image, _ in pairs]), ids, lengths


def make_loader(pairs: Dataset, batch_size: int, workers: int, device: torch.device) -> DataLoader:
    """Shuffled batches from worker processes that stay alive between epochs."""
    return DataLoader(
        pairs,
        batch_size=batch_size,
        shuffle=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        pin_memory=device.type == "cuda",
        collate_fn=collate,
    )


class ReferenceModel(nn.Module):
    """The joint embedding of VSE++: dot product of normalised embeddings, weights copied from `model`.

    Parameters
    ----------
    model
        Without a caption projection.
    encoder
        Where images come as pixels; trained where its parameters want gradients.
    """

    def __init__(self, model: JointEmbedding, encoder: ImageEncoder | None = None) -> None:
        super().__init__()
        self.words = nn.Embedding(*model.text.words.weight.shape)
        self.gru = nn.GRU(model.text.gru.input_size, model.text.gru.hidden_size, batch_first=True)
        self.image_map = nn.Linear(model.image_map.in_features, model.image_map.out_features)
        for own, theirs in ((self.words, model.text.words), (self.gru, model.text.gru)):
            own.load_state_dict(theirs.state_dict())
        self.image_map.load_state_dict(model.image_map.state_dict())
        # torch's own layout, in which the released code runs its networks.
        self.network = None if encoder is None else encoder.network.to(memory_format=torch.contiguous_format)

    def forward(self, images: torch.Tensor, ids: torch.Tensor, lengths: list[int]) -> torch.Tensor:
        """`scores[image, caption]` of a batch, longest caption first."""
        features = images if self.network is None else self.network(images)
        features = nn.functional.normalize(features, dim=1)
        of_images = nn.functional.normalize(self.image_map(features), dim=1)
        _, state = self.gru(pack_padded_sequence(self.words(ids), lengths, batch_first=True))
        return of_images @ nn.functional.normalize(state[0], dim=1).T


def max_of_hinges(scores: torch.Tensor) -> torch.Tensor:
    """MH loss (Eq. 6) of a `(n, n)` score matrix, summed over both directions."""
    positive = scores.diag()[:, None]
    own = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    captions = (MARGIN + scores - positive).clamp(min=0).masked_fill(own, 0)
    images = (MARGIN + scores - positive.T).clamp(min=0).masked_fill(own, 0)
    return captions.max(dim=1).values.sum() + images.max(dim=0).values.sum()


def reference_step(
    model: ReferenceModel,
    optimiser: torch.optim.Optimizer,
    batch: tuple[torch.Tensor, torch.Tensor, list[int]],
    clip_norm: float,
) -> float:
    """Copy a batch to the model's device, take a step, and read its loss."""
    device = model.words.weight.device
    images, ids, lengths = batch
    loss = max_of_hinges(model(images.to(device), ids.to(device), lengths))
    optimiser.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], clip_norm)
    optimiser.step()
    return loss.item()


def argsort_ranks(
    images: np.ndarray,
    captions: np.ndarray,
    owner: np.ndarray,
    image_rows: Iterable[int],
    caption_rows: Iterable[int],
) -> tuple[np.ndarray, np.ndarray]:
    """Ranks of some queries by sorting all candidates of each: one product and one argsort a query.

    Parameters
    ----------
    images, captions, owner
        Embeddings `(n, d)` and `(m, d)`, and the image row of each caption.
    image_rows, caption_rows
        The queries.

    Returns
    -------
    tuple
        Caption retrieval: how many captions stand above the image's best one, and image retrieval: how many images
        stand above the caption's own.
    """
    to_text = [np.flatnonzero(owner[np.argsort(-(captions @ images[row]))] == row)[0] for row in image_rows]
    to_image = [
        np.flatnonzero(np.argsort(-(images @ captions[row])) == owner[row])[0] for row in caption_rows
    ]
    return np.array(to_text), np.array(to_image)
