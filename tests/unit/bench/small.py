"""Measurements that take no time: a network of 24 pixels, a joint space of 8 dimensions, batches of 8."""

from dataclasses import replace

import torch

from vsepp.bench import catalogue

CPU = torch.device("cpu")
BATCH = 8
_ENCODER = replace(catalogue.VGG_MINI.encoder, input_size=24, store_side=28)
RUN = replace(
    catalogue.VGG_MINI,
    encoder=_ENCODER,
    train_store=replace(catalogue.VGG_MINI.train_store, side=28),
    eval_store=replace(catalogue.VGG_MINI.eval_store, side=28),
    crop=replace(catalogue.VGG_MINI.crop, size=24),
    model=replace(catalogue.VGG_MINI.model, word_dim=6, text_dim=8, joint_dim=8),
    schedule=replace(catalogue.VGG_MINI.schedule, batch_size=BATCH),
)
SIZES = {"feature_dim": 12, "images": 16, "photograph": (40, 32)}


def all_groups():
    many = replace(RUN, loss=replace(RUN.loss, negative_set=16))
    order = replace(RUN, model=replace(RUN.model, similarity="order", absolute=True))
    head = catalogue.Measurement("step-1c/small", "step", RUN, **SIZES)
    variants = (
        head,
        replace(head, name="step-1c-bf16/small", run=replace(RUN, precision="bf16")),
        replace(head, name="step-1c-padded/small", packed=False),
        replace(head, name="step-negatives-16/small", run=many),
        replace(head, name="step-order/small", run=order),
        replace(head, name="reference-1c/small", kind="reference"),
    )
    return [
        variants,
        catalogue.frozen(RUN, catalogue.WAYS["cpu"], **SIZES),
        catalogue.finetuned(RUN, catalogue.WAYS["cpu"], **SIZES),
        catalogue.sharing(RUN, "small", (1, 2), **SIZES),
        catalogue.data(RUN, "small", **SIZES),
        catalogue.ranking(RUN, 30, "cuda"),
    ]


def fail(measurement, asked):
    """Be a process that dies without a word."""
    raise SystemExit(3)
