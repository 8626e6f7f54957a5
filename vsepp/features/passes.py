"""The steps that run a frozen encoder over an image store: features of all images, and tapes of random crops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from vsepp.data.store import open_store
from vsepp.data.tables import read_tables
from vsepp.features.crops import CaptionCrops, Images, place_images, place_of_images
from vsepp.features.extract import extract_features
from vsepp.features.tape_writer import write_tape
from vsepp.models.encoder import ImageEncoder, load_encoder
from vsepp.runtime.memory import out_of_memory_explained
from vsepp.runtime.placing import Placing
from vsepp.spec import EncoderSpec, FeaturesSpec, TapeSpec


def make_features(
    spec: FeaturesSpec, store: Path, encoder: Path, out: Path, state: Path, placing: Placing
) -> dict[str, str]:
    """Extract the features of every image of a store; see `extract_features`.

    Parameters
    ----------
    spec
        Encoder and crop.
    store, encoder
        Folders of the image store and of the encoder.
    out
        Folder of the result.
    state
        Working folder that survives a kill, for these inputs only.
    placing
        Where to compute and where to keep the images.

    Returns
    -------
    dict
        `image store` → where the images were kept: `device` or `mapped`.
    """
    with _opened(spec.encoder, store, encoder, placing, f"{spec.crop.kind} features") as (images, network):
        extract_features(images, network, spec.crop, out, state, device=placing.device)
    return {"image store": place_of_images(images)}


def make_tape(
    spec: TapeSpec, store: Path, encoder: Path, corpus: Path, out: Path, state: Path, placing: Placing
) -> dict[str, str]:
    """Write the random-crop features of every caption of some splits in every epoch; see `write_tape`.

    Parameters and result as in `make_features`; `corpus` is the folder of the tables.
    """
    _, captions = read_tables(corpus)
    crops = CaptionCrops.from_table(captions, spec.crop, spec.draw)
    rows = np.flatnonzero(np.isin(captions["split"], spec.splits))
    with _opened(spec.encoder, store, encoder, placing, "random-crop features") as (images, network):
        write_tape(images, network, crops, rows, spec.epochs, out, state, device=placing.device)
    return {"image store": place_of_images(images)}


@contextmanager
def _opened(
    spec: EncoderSpec, store: Path, encoder: Path, placing: Placing, what: str
) -> Iterator[tuple[Images, ImageEncoder]]:
    """Yield the images, in the place chosen for them, and the encoder; explain a lack of memory within."""
    smaller = (
        f"take a smaller encoder than {spec.architecture} or a smaller input_size than {spec.input_size}"
    )
    with out_of_memory_explained(what, placing.device, [*placing.what_to_lower(), smaller]):
        yield place_images(open_store(store), placing), load_encoder(spec, encoder)
