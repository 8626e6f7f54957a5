"""A small encoder, model and run, from which tests make theirs by `dataclasses.replace`."""

from vsepp.spec import (
    CropSpec,
    EncoderSpec,
    LossSpec,
    ModelSpec,
    RunSpec,
    ScheduleSpec,
    StoreSpec,
    VocabularySpec,
)

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
    text_encoder="gru",
    word_dim=4,
    text_dim=6,
    joint_dim=6,
    caption_projection=False,
    image_bias=True,
    normalise_features=True,
    normalise_images=True,
    absolute=False,
    similarity="dot",
    order_form="squared",
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
    loss=LossSpec("max_of_hinges", 0.2),
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
