"""Test images with the caption that each of two models ranks first, as in Figure 3."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from vsepp.data.store import open_store
from vsepp.data.tables import read_tables
from vsepp.errors import VseppError
from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.encode import split_rows
from vsepp.evaluation.protocols import protocol_folds
from vsepp.runtime.files import write_text
from vsepp.similarity import scorer
from vsepp.spec import ExamplesSpec

MODELS = ("first", "second")
"""Roles of the two evaluations."""
# Sides of a kept picture are at most so long, pixels: twice what a page shows.
_SIDE = 160


def write_examples(spec: ExamplesSpec, folders: Mapping[str, Path], out: Path) -> None:
    """Write `examples.json`.

    The images are evenly spaced over those that the protocol ranks, the first and the last among them. Of each
    the JSON has `image_id`, `truth` (its first caption), `picture` (a PNG in base64, or null where photographs may not be
    shown), and for each of `models` its `caption`, the one that it scores highest in the image's fold, `right`, whether that
    is a caption of the image, and `rank`, from 1, of the best of the image's captions.

    Parameters
    ----------
    spec
        Protocol and number of images.
    folders
        Role → folder: `corpus`; the evaluations `first` and `second`; `store`, of the decoded images.
    out
        Folder that gets the files.

    Raises
    ------
    VseppError
        When an evaluation has other test images than the corpus, or not this protocol.
    """
    images, captions = read_tables(folders["corpus"])
    rows = split_rows(images, captions, "test")
    owner = np.asarray(rows.caption_to_image)
    folds = protocol_folds(spec.protocol, len(rows.images), spec.fold_size)
    chosen = np.unique(np.linspace(0, folds[-1].stop - 1, spec.images).round().astype(int))
    answers = [_answers(spec, folders[model], chosen, owner, folds) for model in MODELS]
    store = open_store(folders["store"]) if spec.photographs else None
    text, examples = captions["text"], []
    for place, image in enumerate(chosen):
        row = int(rows.images[image])
        truth = rows.captions[np.flatnonzero(owner == image)[0]]
        models = [
            {"caption": str(text[rows.captions[top]]), "right": bool(owner[top] == image), "rank": rank}
            for top, rank in (answer[place] for answer in answers)
        ]
        examples.append(
            {
                "image_id": str(images["image_id"][row]),
                "truth": str(text[truth]),
                "picture": None if store is None else _png(store[row]),
                "models": models,
            }
        )
    write_text(out / "examples.json", json.dumps(examples, indent=1, ensure_ascii=False) + "\n")


def _png(pixels: np.ndarray) -> str:
    picture, stream = Image.fromarray(np.asarray(pixels)), io.BytesIO()
    picture.thumbnail((_SIDE, _SIDE))
    picture.save(stream, "PNG")
    return base64.b64encode(stream.getvalue()).decode()


def _answers(
    spec: ExamplesSpec, evaluation: Path, chosen: np.ndarray, owner: np.ndarray, folds: list[slice]
) -> list[tuple[int, float]]:
    """Of each chosen image the caption that a model scores highest in its fold, and the rank of the best right one."""
    embeddings = Embeddings.load(evaluation / "embeddings.npz")
    if not np.array_equal(embeddings.caption_to_image, owner):
        raise VseppError(
            f"{evaluation}: was not measured on the test images of this corpus; evaluate it again"
        )
    with np.load(evaluation / "ranks.npz", allow_pickle=False) as archive:
        name = f"{spec.protocol}_i2t"
        if name not in archive:
            raise VseppError(
                f"{evaluation}/ranks.npz: no protocol {spec.protocol}; evaluate the run under it"
            )
        ranks = archive[name]
    score = scorer(embeddings.similarity)
    found = []
    for image in chosen:
        fold = next(fold for fold in folds if fold.start <= image < fold.stop)
        near = np.flatnonzero((owner >= fold.start) & (owner < fold.stop))
        scores = score(embeddings.image_embeddings[image : image + 1], embeddings.caption_embeddings[near])[0]
        found.append((int(near[np.argmax(scores)]), 1 + float(ranks[image])))
    return found
