"""A small encoder, model and run, from which tests make theirs by `change`."""

import dataclasses
from typing import Any

from vsepp.base.run_spec import ModelSpec, RunSpec, ScheduleSpec
from vsepp.base.spec import Component, CropSpec, EncoderSpec, StoreSpec, VocabularySpec

ENCODER = EncoderSpec(
    name="vgg",
    architecture="mini/vgg_mini",
    weights="random",
    input_size=24,
    store_side=28,
    mean=(0.5, 0.5, 0.5),
    std=(0.25, 0.25, 0.25),
)
MODEL = ModelSpec(
    text=Component("gru", {"word_dim": 4, "dim": 6}),
    joint_dim=6,
    caption_projection=False,
    image_bias=True,
    normalise_features=True,
    normalise_images=True,
    absolute=False,
    similarity=Component("dot"),
)
RUN = RunSpec(
    id="tiny",
    system="VSE++",
    dataset="coco",
    trainset="1C",
    restval=False,
    encoder=ENCODER,
    finetune_from=None,
    train_store=StoreSpec("squash", ENCODER.store_side),
    eval_store=StoreSpec("squash", ENCODER.store_side),
    crop=CropSpec("1C", ENCODER.input_size),
    vocabulary=VocabularySpec(("train",), 1),
    validation_images=None,
    model=MODEL,
    loss=Component("max_of_hinges"),
    schedule=ScheduleSpec(
        batch_size=16, epochs=3, learning_rate=0.01, drop_at=2 / 3, drop_factor=0.1, clip_norm=2.0
    ),
    encoder_mode="eval",
    legacy_steps=2,
    rc_features="tape",
    init_seed=0,
    order_seed=0,
    draw=0,
)


def change(spec: Any, **changes: Any) -> Any:
    """A spec with other values; `schedule__epochs=1` and `loss__margin=0.1` reach into a part of it."""
    for key, value in changes.items():
        part, _, inner = key.partition("__")
        if inner:
            value = change(getattr(spec, part), **{inner: value})
        if isinstance(spec, Component) and part != "name":
            spec = Component(spec.name, {**spec.options, part: value})
        else:
            spec = dataclasses.replace(spec, **{part: value})
    return spec
