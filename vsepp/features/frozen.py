"""Run a frozen encoder over crops, so that a crop's feature does not depend on what else is in its batch.

Matrix products may sum in another order in a batch of another size. So every caller uses `encode_crops`, which always runs
`encode_batch` crops at once and pads the last batch. On a CPU, a crop's feature is then the same, bit for bit, in every
position, beside any other crops, with any number of threads, and under every precision, memory format and compilation that
an encoder's spec can name (tests check this); so a tape holds exactly what `inline` computes with the same spec. On a GPU
it is the same as far as the libraries use one algorithm per shape. Features under two specs that differ in precision,
memory format or compilation are close, not equal.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from vsepp.base.errors import VseppError
from vsepp.base.placement import Placing, upload
from vsepp.base.spec import CropSpec, EncoderSpec
from vsepp.data.store import open_store
from vsepp.features.crops import Images, gather_crops, place_images, place_of_images
from vsepp.models.encoder import ImageEncoder, load_encoder
from vsepp.models.precision import products_in

ENCODE_BATCH = 128
# On a CPU, small enough for the activations of a full-size network: at 224 pixels EfficientNet-Lite0 runs twice as fast as
# with 128 at a time, in an eighth of the memory.
_LARGE_ON_CPU = 16
_LARGE_PIXELS = 64


def encode_batch(size: int, device: torch.device) -> int:
    """Number of crops encoded at a time; depends only on their size in pixels and the kind of device."""
    return _LARGE_ON_CPU if device.type == "cpu" and size > _LARGE_PIXELS else ENCODE_BATCH


def open_pass(
    spec: EncoderSpec, store: Path, encoder: Path, placing: Placing, *, grid: bool = False
) -> tuple[Images, ImageEncoder, dict[str, Any]]:
    """Images and encoder of a pass over a store, from their folders; and the facts for its manifest."""
    images = place_images(open_store(store), placing)
    facts = {"data_on": {"image store": place_of_images(images)}}
    return images, load_encoder(spec, encoder, grid=grid), facts


def check_size(encoder: ImageEncoder, crop: CropSpec) -> None:
    """Refuse crops of another size than the encoder's input."""
    if crop.size != encoder.spec.input_size:
        raise VseppError(
            f"crop {crop.kind}: {crop.size} pixels, but encoder {encoder.spec.architecture!r} takes "
            f"{encoder.spec.input_size}; give the crop the encoder's input_size"
        )


def encode_crops(
    store: Images,
    encoder: ImageEncoder,
    rows: np.ndarray,
    boxes: np.ndarray,
    flips: np.ndarray,
    device: torch.device,
    *,
    fill: bool = True,
) -> torch.Tensor:
    """Features of crops under a frozen encoder, in its spec's precision whatever the caller's.

    Parameters
    ----------
    store
        Stored images.
    encoder
        In evaluation mode and on `device`.
    rows, boxes, flips
        Image `(n,)`, box `(n, 4)` and mirroring `(n,)` of every crop.
    device
        Where to compute.
    fill
        Pad fewer crops than a batch to a whole one; required for features that are kept. Without it, a single image is
        encoded alone, which is much faster, and its feature may differ in the last digits.

    Returns
    -------
    torch.Tensor
        float32 `(n, dim)`, or grids `(n, cells, dim)`, on the device, neither normalised nor checked.
    """
    features = torch.empty((len(rows), encoder.dim), device=device)
    # The first crop is repeated to fill the last batch.
    batch = encode_batch(encoder.spec.input_size, device)
    if not fill:
        batch = min(batch, len(rows))
    padded = np.pad(np.arange(len(rows)), (0, -len(rows) % batch))
    with torch.inference_mode(), products_in(encoder.spec.precision, device):
        for start in range(0, len(rows), batch):
            part = padded[start : start + batch]
            crops = gather_crops(store, rows[part], boxes[part], flips[part], encoder.spec.input_size)
            out = encoder(encoder.normalise(upload(crops, device)))[: len(rows) - start]
            if not start and out.ndim == 3:
                features = torch.empty((len(rows), *out.shape[1:]), device=device)
            features[start : start + batch].copy_(out)
    return features


def finite(features: np.ndarray, rows: np.ndarray, encoder: ImageEncoder) -> np.ndarray:
    """Return features float32 `(n, ...)` of images `(n,)`; refuse them if one is not finite."""
    if not np.isfinite(features).all():
        row = rows[np.argwhere(~np.isfinite(features))[0, 0]]
        raise VseppError(
            f"encoder {encoder.spec.architecture!r}: the feature of image row {row} is not finite; "
            f"check its weights ({encoder.spec.weights}) and its mean and std"
        )
    return features
