"""From a run's keys to its specs: all that decides what its training and its evaluation compute."""

from __future__ import annotations

from typing import Any

from vsepp.base.components import describe, resolved
from vsepp.base.declared import PIECES
from vsepp.base.run_spec import EvaluationSpec, ModelSpec, RunSpec, ScheduleSpec, SizeAugmentationSpec
from vsepp.base.spec import CaptionKeys, CropSpec, EncoderSpec, StoreSpec, VocabularySpec, part_of
from vsepp.models.text.inputs import pieces_file, tokens_of
from vsepp.pipeline.parameters import Parameters
from vsepp.pipeline.plan import present_file
from vsepp.pipeline.settings import RunKeys


def published_features(parameters: Parameters, keys: RunKeys) -> str | None:
    """Data set of published features that a run takes: its own, or one that it prefers and whose files are there; else `None`."""
    name = parameters.corpora[keys.dataset].dataset
    entry = parameters.datasets[name]
    if entry.crops is not None:
        return name
    other = entry.precomputed.get(keys.crops)  # type: ignore[arg-type]  # none of RC
    if keys.image_features == "computed" or other is None:
        return None
    files = parameters.datasets[other].files.values()
    return other if all(present_file(parameters, file) for file in files) else None


def run_spec(parameters: Parameters, run: str, keys: RunKeys, seed: int) -> RunSpec:
    """The spec of a training of a run with a seed."""
    published = published_features(parameters, keys) is not None
    network = parameters.preset.encoders[keys.encoder]
    assert network  # else the run is not possible
    options = resolved("image encoder", network.family).options
    encoder = part_of(EncoderSpec, network, name=keys.encoder, options=options)
    random_crops = keys.crops == "RC"
    side = round(encoder.store_side * keys.train_store_scale) if random_crops else encoder.store_side
    drawn: dict[str, Any] = {"random": keys.random_crop, "flip": keys.flip} if random_crops else {}
    fixed: dict[str, Any] = {"corners": keys.corners} if keys.crops == "10C" else {}
    corpus = parameters.corpora[keys.dataset]
    validation_images = corpus.published_validation_images if published else corpus.validation_images
    # A reader of pictures that no paper used decides for them.
    reader = describe("reader", parameters.datasets[corpus.dataset].reader.name)
    orientation = reader.constants.get("EXIF_ORIENTATION", keys.exif_orientation)
    return part_of(
        RunSpec,
        keys,
        id=run,
        trainset=keys.crops,
        restval=keys.restval,
        encoder=encoder,
        train_store=StoreSpec(keys.resize, side, orientation),
        eval_store=StoreSpec(keys.resize, encoder.store_side, orientation),
        crop=CropSpec(keys.crops, encoder.input_size, **drawn, **fixed),
        vocabulary=_vocabulary(parameters, keys, published),
        validation_images=keys.validation_images or validation_images,
        # Published features go into the model as they are.
        model=part_of(ModelSpec, keys, normalise_features=keys.normalise_features and not published),
        schedule=part_of(ScheduleSpec, keys),
        size_augmentation=part_of(SizeAugmentationSpec, keys),
        encoder_mode=keys.finetuned_mode if keys.finetune_from else keys.frozen_mode,
        init_seed=seed,
        order_seed=seed,
        image_features="precomputed" if published else "computed",
    )


def _vocabulary(parameters: Parameters, keys: RunKeys, published: bool) -> VocabularySpec:
    reading = vars(part_of(CaptionKeys, keys))
    if tokens_of(keys.text) == PIECES:
        return VocabularySpec((), 1, kind=PIECES, file=pieces_file(keys.text), **reading)
    splits: tuple[str, ...] = ("train", "restval") if keys.restval else ("train",)
    if keys.vocabulary == "all_splits":
        # The released code counts the words of all splits of raw data, but only of train and val of published features.
        dataset = parameters.corpora[keys.dataset].dataset
        splits = ("train", "val") if published else parameters.splits(dataset)
    elif keys.vocabulary == "training_and_validation":
        splits += ("val",)
    mask = keys.drop_words > 0 and keys.drop_words_by != "deletion"
    return VocabularySpec(splits, keys.vocabulary_threshold, mask=mask, **reading)


def evaluation_spec(parameters: Parameters, run: str, spec: RunSpec) -> EvaluationSpec:
    """The spec of a run's evaluation."""
    return EvaluationSpec(spec, parameters.protocols[run], parameters.preset.evaluation.fold_size)


def training_splits(parameters: Parameters, dataset: str) -> tuple[str, ...]:
    """Splits that any run may train on, so that artefacts made from them do not depend on the choice of runs and papers."""
    splits = parameters.splits(dataset)
    return tuple(split for split in ("train", "restval") if split in splits)
