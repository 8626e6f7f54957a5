"""Write a tape, the random-crop features of a frozen encoder, epoch by epoch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vsepp.base.files import check_space
from vsepp.base.placement import Placing
from vsepp.base.progress import track
from vsepp.base.publish import publish
from vsepp.base.spec import TapeSpec
from vsepp.data.tables import read_tables
from vsepp.features.crops import CaptionCrops, Images
from vsepp.features.frozen import ENCODE_BATCH, check_size, open_pass
from vsepp.features.resumable_array import GrowingRows
from vsepp.features.tape import CAPTIONS, epoch_file, tape_features
from vsepp.models.encoder import ImageEncoder

# Captions between two points from which a killed step can continue; a multiple of the encoder's batch.
CHUNK_CAPTIONS = 8 * ENCODE_BATCH


def make_tape(
    spec: TapeSpec, inputs: Mapping[str, Path], out: Path, state: Path, placing: Placing
) -> dict[str, Any]:
    """Write the features of random crops of all captions that any run trains on.

    `inputs` are the folders `store` and `encoder` and the table `captions`; see `write_tape`.
    """
    images, encoder, facts = open_pass(spec.encoder, inputs["store"], inputs["encoder"], placing)
    _, captions = read_tables(inputs["captions"].parent)
    crops = CaptionCrops.from_table(captions, spec.crop, spec.draw)
    trained = np.flatnonzero(np.isin(captions["split"], spec.splits))
    write_tape(images, encoder, crops, trained, spec.epochs, out, state, device=placing.device)
    return facts


def write_tape(
    store: Images,
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
    store
        Stored images.
    encoder
        Put into evaluation mode and moved to `device`.
    crops
        Random crops of the corpus's captions, of the encoder's input size.
    caption_rows
        `(n_captions,)`, rows of the captions table, ascending: all captions that any run trains on.
    epochs
        Number of epochs.
    out
        Folder of the result.
    state
        Working folder that survives a kill, for these inputs only.
    device
        Where to compute.

    Raises
    ------
    VseppError
        If the crops do not fit the images or the encoder, a feature is not finite or too
        large for 16 bits, or the disk is too small.
    """
    check_size(encoder, crops.crop)
    encoder.to(device).eval()
    state.mkdir(parents=True, exist_ok=True)
    files = {epoch: state / epoch_file(epoch) for epoch in range(epochs)}
    whole = len(files) * len(caption_rows) * encoder.dim * np.dtype(np.float16).itemsize
    present = sum(path.stat().st_size for path in files.values() if path.is_file())
    check_space(state, max(0, whole - present), f"a tape of {epochs} epochs")
    for epoch, path in files.items():
        written = GrowingRows(path, (len(caption_rows), encoder.dim), np.float16, CHUNK_CAPTIONS)
        starts = range(written.done, len(caption_rows), CHUNK_CAPTIONS)
        missing = len(caption_rows) - written.done
        what = f"random-crop features of epoch {epoch + 1} of {epochs}"
        for start in track(starts, missing, what, "crop", each=CHUNK_CAPTIONS):
            rows = caption_rows[start : start + CHUNK_CAPTIONS]
            written.append(tape_features(store, encoder, crops, epoch, rows, device))
    np.save(state / CAPTIONS, np.asarray(caption_rows, np.int32))
    publish({path: out / path.name for path in (*files.values(), state / CAPTIONS)})
