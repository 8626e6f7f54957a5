"""Run a frozen encoder over crops, so that a crop's feature does not depend on what else is in its batch.

Matrix products may add in another order in a batch of another size. So every caller goes through
`start_encoding`, which always runs `encode_batch` crops and pads the last ones. On a CPU a crop's feature is then
the same, bit for bit, in every position, beside any other crops and with any number of threads, with each precision
and memory format that an encoder's spec can name, compiled too (tests hold the encoders to it); so a tape holds what
`inline` computes, with the same spec. On a GPU it is the same as far as the libraries keep to one algorithm per
shape. Features of two specs that differ in precision, memory format or compilation are close, not equal.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from vsepp.data.placed import upload
from vsepp.errors import VseppError
from vsepp.features.crops import gather_crops
from vsepp.models.encoder import ImageEncoder
from vsepp.models.precision import products_in

ENCODE_BATCH = 128
# On a CPU, so that what lies between the layers of a full-size network does not outgrow cache and memory: at
# 224 pixels EfficientNet-Lite0 runs twice as fast as with 128 at a time, in an eighth of the memory.
_LARGE_ON_CPU = 16
_LARGE_PIXELS = 64


def encode_batch(size: int, device: torch.device) -> int:
    """Crops that are encoded at a time: decided by their size in pixels and the kind of device alone."""
    return _LARGE_ON_CPU if device.type == "cpu" and size > _LARGE_PIXELS else ENCODE_BATCH


def start_encoding(
    store: np.ndarray | torch.Tensor,
    encoder: ImageEncoder,
    rows: np.ndarray,
    boxes: np.ndarray,
    flips: np.ndarray,
    device: torch.device,
) -> Callable[[], np.ndarray]:
    """Features of crops under a frozen encoder, in evaluation mode, in its spec's precision whatever the caller's.

    A GPU is not waited for, so that it has work while results are looked at.

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
    Callable
        Waits for the features, checks them and gives them, float32 `(n, dim)`, not normalised; any thread may call it.

    Raises
    ------
    VseppError
        By what is returned: when a feature is not finite, naming the image's row.
    """
    encoder.to(device).eval()
    features = encode_there(store, encoder, rows, boxes, flips, device)
    done = None
    if device.type == "cuda":
        # Copies to pinned memory need no waiting.
        on_host = torch.empty(features.shape, pin_memory=True)
        features = on_host.copy_(features, non_blocking=True)
        done = torch.cuda.current_stream(device).record_event()

    def finished() -> np.ndarray:
        if done is not None:
            done.synchronize()
        return finite(features.numpy(), rows, encoder)

    return finished


def encode_there(
    store: np.ndarray | torch.Tensor,
    encoder: ImageEncoder,
    rows: np.ndarray,
    boxes: np.ndarray,
    flips: np.ndarray,
    device: torch.device,
) -> torch.Tensor:
    """Features of crops, left on the device: float32 `(n, dim)`, not checked; a GPU is not waited for.

    Takes what `start_encoding` takes, the encoder in evaluation mode and on `device` already.
    """
    features = torch.empty((len(rows), encoder.dim), device=device)
    # Repeating the first crop fills up the last batch.
    batch = encode_batch(encoder.spec.input_size, device)
    padded = np.zeros(-(-len(rows) // batch) * batch, np.int64)
    padded[: len(rows)] = np.arange(len(rows))
    with torch.inference_mode(), products_in(encoder.spec.precision, device):
        for start in range(0, len(rows), batch):
            part = padded[start : start + batch]
            crops = gather_crops(store, rows[part], boxes[part], flips[part], encoder.spec.input_size)
            out = encoder(encoder.normalise(upload(crops, device)))[: len(rows) - start]
            features[start : start + batch].copy_(out)
    return features


def finite(features: np.ndarray, rows: np.ndarray, encoder: ImageEncoder) -> np.ndarray:
    """Give features float32 `(n, dim)` of images `(n,)` back, or refuse them where one is not finite."""
    if not np.isfinite(features).all():
        row = rows[np.flatnonzero(~np.isfinite(features).all(axis=1))[0]]
        raise VseppError(
            f"encoder {encoder.spec.architecture!r}: the feature of image row {row} is not finite; "
            f"check its weights ({encoder.spec.weights}) and its mean and std"
        )
    return features
