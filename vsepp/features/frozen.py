"""Passes of a frozen encoder over an image store: features of a fixed crop, and the tape of random crops.

Matrix products may sum in another order in a batch of another size. So every pass uses `encode_crops`, which
always runs `encode_batch` crops at once and pads the last batch. On a CPU, a crop's feature is then the same,
bit for bit, in every position, beside any other crops, with any number of threads, and under every precision
that an encoder's spec can name (tests check this); so a tape holds exactly what `inline` computes with the
same spec. On a GPU it is the same as far as the libraries use one algorithm per shape. Features under two
specs that differ in precision are close, not equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vsepp.base.errors import VseppError
from vsepp.base.files import check_space
from vsepp.base.placement import Placing, upload
from vsepp.base.publish import publish
from vsepp.base.spec import CropSpec, EncoderSpec, FeaturesSpec, TapeSpec
from vsepp.data.arrays import write_rows
from vsepp.data.store import open_store
from vsepp.features.crops import (
    REGIONS,
    CaptionCrops,
    StoredImages,
    fixed_boxes,
    gather_crops,
    place_images,
    place_of_images,
    sizes_of,
)
from vsepp.models.encoder import ImageEncoder, load_encoder
from vsepp.models.precision import products_in

FILE = "features.npy"
CAPTIONS = "captions.npy"
LARGEST = float(np.finfo(np.float16).max)
ENCODE_BATCH = 128
# On a CPU, small enough for the activations of a full-size network: at 224 pixels EfficientNet-Lite0 runs
# twice as fast as with 128 at a time, in an eighth of the memory.
_LARGE_ON_CPU = 16
_LARGE_PIXELS = 64
# Images and captions between two points from which a killed step can continue; multiples of
# the encoder's batch.
CHUNK_IMAGES = 4 * ENCODE_BATCH
CHUNK_CAPTIONS = 8 * ENCODE_BATCH


def epoch_file(epoch: int) -> str:
    """Name of a tape's file of an epoch, counted from 0."""
    return f"epoch-{epoch:03d}.npy"


def make_features(
    spec: FeaturesSpec, store: Path, encoder: Path, out: Path, state: Path, placing: Placing
) -> dict[str, Any]:
    """Write the features of all images of a store; `store` and `encoder` are folders. See
    `extract_features`."""
    images, network, facts = _open_pass(spec.encoder, store, encoder, placing, grid=spec.grid)
    extract_features(images, network, spec.crop, out, state, device=placing.device)
    return facts


def extract_features(
    store: StoredImages,
    encoder: ImageEncoder,
    crop: CropSpec,
    out: Path,
    state: Path,
    *,
    device: torch.device,
) -> None:
    """Write `out/features.npy`, float32 `(n_images, vectors, dim)`, rows as in the store.

    Vectors are one, the cells of a grid, or the regions; see `features_of`. Works in `state` and continues
    from what is there; the file is moved to `out` only when complete.

    Parameters
    ----------
    store
        Stored images.
    encoder
        Put into evaluation mode and moved to `device`.
    crop
        Kind `1C`, `10C` or `regions`, of the encoder's input size.
    out
        Folder of the result.
    state
        Working folder that survives a kill, for these inputs only.
    device
        Where to compute.

    Raises
    ------
    VseppError
        If the crop does not fit the images, a feature is not finite, or the disk is full.
    """
    encoder.to(device).eval()
    vectors = REGIONS if crop.kind == "regions" else encoder.vectors()
    write_rows(
        state / FILE,
        (len(store), vectors, encoder.dim),
        np.float32,
        range(0, len(store), CHUNK_IMAGES),
        lambda first, last: features_of(store, encoder, np.arange(first, last), crop, device),
        what=f"{crop.kind} features of {len(store)} images",
        unit="image",
    )
    publish({state / FILE: out / FILE})


def features_of(
    store: StoredImages,
    encoder: ImageEncoder,
    images: np.ndarray,
    crop: CropSpec,
    device: torch.device,
    *,
    fill: bool = True,
) -> np.ndarray:
    """Features of images under a fixed crop: float32 `(n, vectors, dim)`.

    10C gives one vector, the mean over ten crops before any normalisation; an encoder's grid gives its cells.

    Parameters
    ----------
    store
        Stored images.
    encoder
        In evaluation mode and on `device`.
    images
        int64 `(n,)`, rows of the store.
    crop
        Kind `1C`, `10C` or `regions`.
    device
        Where to compute.
    fill
        See `encode_crops`.
    """
    boxes, flips = fixed_boxes(crop, sizes_of(store, images))
    rows = np.repeat(images, flips.shape[1])
    encoded = encode_crops(store, encoder, rows, boxes.reshape(-1, 4), flips.ravel(), device, fill=fill)
    features = _finite(encoded.cpu().numpy(), rows, encoder).reshape(len(images), -1, encoder.dim)
    return features.mean(axis=1, keepdims=True) if crop.kind == "10C" else features


def make_tape(
    spec: TapeSpec, inputs: Mapping[str, Path], out: Path, state: Path, placing: Placing
) -> dict[str, Any]:
    """Write the features of random crops of all captions that any run trains on.

    `inputs` are the folders `store` and `encoder` and the table `captions`; see `write_tape`.
    """
    from vsepp.data.tables import read_tables  # a model that is used reads no tables

    images, encoder, facts = _open_pass(spec.encoder, inputs["store"], inputs["encoder"], placing)
    _, captions = read_tables(inputs["captions"].parent)
    crops = CaptionCrops.from_table(captions, spec.crop, spec.draw)
    trained = np.flatnonzero(np.isin(captions["split"], spec.splits))
    write_tape(images, encoder, crops, trained, spec.epochs, out, state, device=placing.device)
    return facts


def write_tape(
    store: StoredImages,
    encoder: ImageEncoder,
    crops: CaptionCrops,
    caption_rows: np.ndarray,
    epochs: int,
    out: Path,
    state: Path,
    *,
    device: torch.device,
) -> None:
    """Write `out/captions.npy` and one `out/epoch-NNN.npy` per epoch, float16 `(n_captions, dim)`.

    Works in `state` and continues from what is there. Files are moved to `out` when all of them are complete.

    Parameters
    ----------
    store, encoder, out, state, device
        As of `extract_features`.
    crops
        Random crops of the corpus's captions, of the encoder's input size.
    caption_rows
        `(n_captions,)`, rows of the captions table, ascending: all captions that any run trains on.
    epochs
        Number of epochs.

    Raises
    ------
    VseppError
        If the crops do not fit the images, a feature is not finite or too
        large for 16 bits, or the disk is too small.
    """
    encoder.to(device).eval()
    state.mkdir(parents=True, exist_ok=True)
    files = [state / epoch_file(epoch) for epoch in range(epochs)]
    whole = epochs * len(caption_rows) * encoder.dim * np.dtype(np.float16).itemsize
    present = sum(path.stat().st_size for path in files if path.is_file())
    check_space(state, max(0, whole - present), f"a tape of {epochs} epochs")
    for epoch, path in enumerate(files):

        def make(first: int, last: int, epoch: int = epoch) -> np.ndarray:
            return tape_features(store, encoder, crops, epoch, caption_rows[first:last], device)

        write_rows(
            path,
            (len(caption_rows), encoder.dim),
            np.float16,
            range(0, len(caption_rows), CHUNK_CAPTIONS),
            make,
            what=f"random-crop features of epoch {epoch + 1} of {epochs}",
            unit="crop",
        )
    np.save(state / CAPTIONS, np.asarray(caption_rows, np.int32))
    publish({path: out / path.name for path in (*files, state / CAPTIONS)})


def tape_features(
    store: StoredImages,
    encoder: ImageEncoder,
    crops: CaptionCrops,
    epoch: int,
    caption_rows: np.ndarray,
    device: torch.device,
) -> np.ndarray:
    """Features float16 `(n, dim)` of the random crops of captions in an epoch, from 0.

    Parameters
    ----------
    store, encoder, device
        As of `features_of`.
    crops
        Random crops of the corpus's captions.
    epoch, caption_rows
        The epoch, and rows `(n,)` of the captions table.

    Raises
    ------
    VseppError
        If a feature is not finite or too large for 16 bits.
    """
    images, boxes, flips = crops.boxes(epoch, caption_rows, store)
    encoded = encode_crops(store, encoder, images, boxes, flips, device)
    features = _finite(encoded.cpu().numpy(), images, encoder)
    largest = np.abs(features).max(axis=1)
    if len(largest) and largest.max() > LARGEST:
        worst = int(largest.argmax())
        raise VseppError(
            f"encoder {encoder.spec.architecture!r}: caption {crops.caption_ids[caption_rows[worst]]}, image "
            f"row {images[worst]}: a feature of {largest[worst]:.4g} does not fit into 16 bits (at most "
            f"{LARGEST:.0f}); check the encoder's weights, mean and std"
        )
    return features.astype(np.float16)


def encode_batch(size: int, device: torch.device) -> int:
    """Number of crops encoded at a time; depends only on their size in pixels and the kind of device."""
    return _LARGE_ON_CPU if device.type == "cpu" and size > _LARGE_PIXELS else ENCODE_BATCH


def encode_crops(
    store: StoredImages,
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
        Pad fewer crops than a batch to a whole one; required for features that are kept. Without it, a single
        image is encoded alone, which is much faster, and its feature may differ in the last digits.

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
            crops = gather_crops(store, rows[part], boxes[part], flips[part], encoder.spec.input_size, device)
            out = encoder(encoder.normalise(upload(crops, device)))[: len(rows) - start]
            if not start and out.ndim == 3:
                features = torch.empty((len(rows), *out.shape[1:]), device=device)
            features[start : start + batch].copy_(out)
    return features


def _open_pass(
    spec: EncoderSpec, store: Path, encoder: Path, placing: Placing, *, grid: bool = False
) -> tuple[StoredImages, ImageEncoder, dict[str, Any]]:
    """Images and encoder of a pass over a store, from their folders; and the facts for its manifest."""
    images = place_images(open_store(store), placing)
    facts = {"data_on": {"image store": place_of_images(images)}}
    return images, load_encoder(spec, encoder, grid=grid), facts


def _finite(features: np.ndarray, rows: np.ndarray, encoder: ImageEncoder) -> np.ndarray:
    """Return features float32 `(n, ...)` of images `(n,)`; refuse them if one is not finite."""
    if not np.isfinite(features).all():
        row = rows[np.argwhere(~np.isfinite(features))[0, 0]]
        raise VseppError(
            f"encoder {encoder.spec.architecture!r}: the feature of image row {row} is not finite; "
            f"check its weights ({encoder.spec.weights}) and its mean and std"
        )
    return features
