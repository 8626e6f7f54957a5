"""A corpus of a few images with all artefacts of the steps before training, made by those steps.

And how to train on it: here, cut short, or in a process that is to be killed.
"""

import dataclasses

import numpy as np
import pandas as pd
import specs
import torch
from csv_rows import csv_rows
from safetensors.torch import load_file
from specs import change

from vsepp.base.placement import Placing
from vsepp.base.publish import EMBEDDINGS
from vsepp.base.spec import CropSpec
from vsepp.data.captions import Tokens, Vocabulary
from vsepp.data.tables import write_tables
from vsepp.data.vectors import tfidf_vectors
from vsepp.features.crops import CaptionCrops
from vsepp.features.frozen import extract_features, write_tape
from vsepp.models.encoder import build_encoder, save_encoder
from vsepp.training.data import load_training_data
from vsepp.training.loop import train

SPLITS = {"train": 20, "restval": 5, "val": 8, "test": 6}
CAPTIONS_PER_IMAGE = 3
SIDE, CROP = specs.ENCODER.store_side, specs.ENCODER.input_size
TAPE_EPOCHS = 3
CPU = torch.device("cpu")

ENCODERS = {
    name: dataclasses.replace(specs.ENCODER, name=name, architecture=f"mini/{name}_mini")
    for name in ("vgg", "resnet")
}
MODEL = change(specs.MODEL, text__word_dim=6, text__dim=10, joint_dim=10)
FROZEN = dataclasses.replace(specs.RUN, model=MODEL)
RC = dataclasses.replace(FROZEN, trainset="RC", crop=CropSpec("RC", CROP))
LEGACY = dataclasses.replace(RC, encoder_mode="legacy-master")
FINETUNED = dataclasses.replace(RC, id="tiny-ft", finetune_from="tiny")


def build(folder):
    """Write every artefact below `folder`, by encoder where there is one of each."""
    splits = [split for split, count in SPLITS.items() for _ in range(count)]
    # Splits are not neighbours in the file, as in the real ones.
    np.random.default_rng(5).shuffle(splits)
    names = [f"{number}.jpg" for number in range(len(splits))]
    images = {"image_id": names, "file_name": names, "container": "images", "member": names, "split": splits}
    generator = np.random.default_rng(0)
    # The first word of a caption says the image's colour, the others say nothing.
    colour, owners = generator.integers(0, 5, len(splits)), np.repeat(range(len(splits)), CAPTIONS_PER_IMAGE)
    others = [generator.integers(0, 9, generator.integers(1, 6)) for _ in owners]
    captions = pd.DataFrame(
        {
            "caption_id": np.arange(len(owners), dtype=np.int64) * 7 + 100,
            "image_index": owners.astype(np.int32),
            "text": [
                " ".join([f"c{colour[owner]}", *(f"w{word}" for word in words)])
                for owner, words in zip(owners, others, strict=True)
            ],
            "split": np.array(splits)[owners],
        }
    )
    write_tables(folder / "corpus", pd.DataFrame(images), captions)
    (folder / "vectors").mkdir()
    tfidf_vectors(captions, ("train", "restval")).save(folder / "vectors")
    vocabulary = Vocabulary.from_captions(captions, change(FROZEN.vocabulary, splits=tuple(SPLITS)))
    vocabulary.write(folder / "tokens")
    Tokens.from_captions(captions, vocabulary).save(folder / "tokens")
    noise = generator.integers(0, 60, (len(splits), SIDE, SIDE, 3))
    tint = np.random.default_rng(1).integers(0, 190, (5, 1, 1, 3))[colour]
    (folder / "store").mkdir()
    store = (noise + tint).astype(np.uint8)
    np.save(folder / "store" / "images.npy", store)
    np.save(folder / "store" / "sizes.npy", np.full((len(store), 2), store.shape[1], np.int32))
    rows = np.flatnonzero(captions["split"].isin(["train", "restval"]))
    for name, spec in ENCODERS.items():
        torch.manual_seed(0)
        encoder, state = build_encoder(spec), folder / f"state-{name}"
        save_encoder(encoder, folder / f"encoder-{name}")
        extract_features(store, encoder, CropSpec("1C", CROP), folder / f"features-{name}", state, device=CPU)
        crops = CaptionCrops.from_table(captions, RC.crop, draw=0)
        write_tape(store, encoder, crops, rows, TAPE_EPOCHS, folder / f"tape-{name}", state, device=CPU)
    return folder


def artefacts(folder, name="vgg", **changes):
    """Role → folder, without the roles that `changes` sets to `None`."""
    paths = {role: folder / role for role in ("corpus", "tokens")}
    paths |= {role: folder / f"{role}-{name}" for role in ("features", "tape", "encoder")}
    paths |= {role: folder / "store" for role in ("train_store", "eval_store")}
    return {role: path for role, path in (paths | changes).items() if path}


def data_of(run, folder, **changes):
    return load_training_data(run, artefacts(folder, run.encoder.name, **changes), Placing(CPU))


class Killed(Exception):
    """Stands for whatever ends a process between two steps."""


class KilledImages:
    """The images of a training; their `call`-th use in training or validation, from 0, fails."""

    def __init__(self, images, call, method):
        self.images, self.calls, self.method = images, iter(range(call)), method

    def __getattr__(self, name):
        if name == self.method and next(self.calls, None) is None:
            raise Killed
        return getattr(self.images, name)


def killed_at(data, call, method="train"):
    """The data with images that fail at the `call`-th use of their method, from 0."""
    return dataclasses.replace(data, images=KilledImages(data.images, call, method))


def run_in(folder, run, data, init_from=None, folders=None, **options):
    started = {} if init_from is None else {"init_from": init_from}
    data = dataclasses.replace(data, folders={**data.folders, **started, **(folders or {})})
    facts = train(run, data, folder / "out", folder / "state", CPU, **options)
    return folder / "out", facts


def weights(folder):
    return load_file(folder / "model.safetensors")


def history(folder):
    return csv_rows(folder / "history.csv")


def assert_same_results(folder, other):
    """Weights, test embeddings and history, all but what a clock says, to the last bit."""
    assert (folder / EMBEDDINGS).read_bytes() == (other / EMBEDDINGS).read_bytes()
    first, second = weights(folder), weights(other)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[key], second[key]) for key in first)
    clock = {"seconds", "pairs_per_second"}
    for mine, theirs in zip(history(folder), history(other), strict=True):
        assert {k: v for k, v in mine.items() if k not in clock} == {
            k: v for k, v in theirs.items() if k not in clock
        }
