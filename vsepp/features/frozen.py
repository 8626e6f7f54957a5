"""Run a frozen encoder over crops, so that a crop's feature does not depend on what else is in its batch.

Matrix products may add in another order in a batch of another size. So every caller goes through
`encode_crops`, which always runs `encode_batch` crops and pads the last ones. On a CPU in float32 a crop's
feature is then the same, bit for bit, in every position, beside any other crops and with any number of
threads (tests hold the encoders to it); on a GPU it is the same as far as the libraries keep to one algorithm
per shape.
"""

from __future__ import annotations

import numpy as np
import torch

from vsepp.errors import VseppError
from vsepp.features.crops import gather_crops
from vsepp.models.encoders import ImageEncoder

ENCODE_BATCH = 128
# On a CPU, so that what lies between the layers of a full-size network does not outgrow cache and memory: at
# 224 pixels EfficientNet-Lite0 runs twice as fast as with 128 at a time, in an eighth of the memory.
_LARGE_ON_CPU = 16
_LARGE_PIXELS = 64


def encode_batch(size: int, device: torch.device) -> int:
    """Crops that are encoded at a time: decided by their size in pixels and the kind of device alone."""
    return _LARGE_ON_CPU if device.type == "cpu" and size > _LARGE_PIXELS else ENCODE_BATCH


def encode_crops(
    store: np.ndarray | torch.Tensor,
    encoder: ImageEncoder,
    rows: np.ndarray,
    boxes: np.ndarray,
    flips: np.ndarray,
    device: torch.device,
) -> np.ndarray:
    """Features of crops under a frozen encoder: evaluation mode, float32 under any autocast of the caller.

    Parameters
    ----------
    store
        uint8 `(n_images, side, side, 3)`, an array, a memory map or a tensor on any device.
    encoder
        Put into evaluation mode, and left in it, and moved to `device`.
    rows, boxes, flips
        Image `(n,)`, box `(n, 4)` and mirroring `(n,)` of every crop.
    device
        Where to compute.

    Returns
    -------
    np.ndarray
        float32 `(n, dim)`, not normalised.

    Raises
    ------
    VseppError
        When a feature is not finite, naming the image's row.
    """
    encoder.to(device).eval()
    features = np.empty((len(rows), encoder.dim), np.float32)
    # Repeating the first crop fills up the last batch.
    batch = encode_batch(encoder.spec.input_size, device)
    padded = np.zeros(-(-len(rows) // batch) * batch, np.int64)
    padded[: len(rows)] = np.arange(len(rows))
    with torch.inference_mode(), torch.autocast(device.type, enabled=False):
        for start in range(0, len(rows), batch):
            part = padded[start : start + batch]
            crops = gather_crops(store, rows[part], boxes[part], flips[part], encoder.spec.input_size)
            out = encoder(encoder.normalise(crops.to(device))).cpu().numpy()
            features[start : start + batch] = out[: len(rows) - start]
    if not np.isfinite(features).all():
        row = rows[np.flatnonzero(~np.isfinite(features).all(axis=1))[0]]
        raise VseppError(
            f"encoder {encoder.spec.architecture!r}: the feature of image row {row} is not finite; "
            f"check its weights ({encoder.spec.weights}) and its mean and std"
        )
    return features
