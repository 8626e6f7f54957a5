"""What a run trains, validates and is tested on, from the artefacts of earlier steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vsepp.base.errors import VseppError
from vsepp.base.placement import Placing
from vsepp.base.run_spec import RunSpec
from vsepp.data.captions import Vocabulary
from vsepp.data.tables import SplitRows, read_tables, split_rows
from vsepp.features.captions import open_captions
from vsepp.features.images import Images, open_images
from vsepp.training.augment import TrainingCaptions, augmented_images


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Training pairs with their images and captions, and the validation and test split."""

    images: Images
    captions: TrainingCaptions
    vocabulary: Vocabulary
    """What the words of captions are numbered by."""
    pairs: np.ndarray
    """int64 `(n_pairs,)`, the rows of the captions table to train on: each caption with its image."""
    image_rows: np.ndarray
    """int64 `(n_pairs,)`, each pair's row of the images table."""
    caption_ids: np.ndarray
    """int64 `(n_pairs,)`, id of each pair's caption: what is drawn for the pair depends on it."""
    validation: SplitRows
    test: SplitRows
    """What the best snapshot embeds in the end."""
    folders: Mapping[str, Path]
    """Role → folder of every artefact that the run reads."""


def load_training_data(run: RunSpec, folders: Mapping[str, Path], placing: Placing) -> TrainingData:
    """Open what a run trains on: all captions of its training splits, each with its image.

    Parameters
    ----------
    run
        The run's spec.
    folders
        Role → folder of every artefact that the run reads: `corpus`, the tables; `tokens`; what `open_images` and `open_captions`
        name; `init_from`, the frozen run whose best snapshot a fine-tuned run starts from; `text_weights`, the file of weights that
        the text encoder of another run starts from; and what the loss reads.
    placing
        Where the run trains, and where to keep images and features.

    Raises
    ------
    VseppError
        If artefacts do not belong to one corpus, or the corpus has no captions to train on, or no split of validation or test.
    """
    images, captions = read_tables(folders["corpus"])
    splits = ("train", "restval") if run.restval else ("train",)
    pairs = np.flatnonzero(np.isin(captions["split"], splits))
    if not len(pairs):
        raise VseppError(f"{folders['corpus']}: no captions in {' + '.join(splits)} to train run {run.id} on")
    caption_ids = np.asarray(captions["caption_id"])
    vocabulary = Vocabulary.read(folders["tokens"])
    opened = open_captions(folders, len(captions))
    return TrainingData(
        images=augmented_images(open_images(run, folders, images, captions, placing), run, caption_ids),
        captions=TrainingCaptions(opened, run, caption_ids, vocabulary),
        vocabulary=vocabulary,
        pairs=pairs,
        image_rows=np.asarray(captions["image_index"])[pairs].astype(np.int64),
        caption_ids=caption_ids[pairs],
        validation=split_rows(images, captions, "val", run.validation_images),
        test=split_rows(images, captions, "test"),
        folders=folders,
    )
