"""Whole training steps, from the artefacts' files to the changed weights."""

from __future__ import annotations

import itertools
from contextlib import ExitStack

import torch

from vsepp.bench.case import Case
from vsepp.bench.measurement import Measurement
from vsepp.bench.variants import OverPadding
from vsepp.models.encoder import load_encoder
from vsepp.models.joint import JointEmbedding
from vsepp.models.precision import fp32_products_in
from vsepp.training.batches import epoch_batches
from vsepp.training.data import Artefacts, TrainingData, load_training_data
from vsepp.training.epoch import step_inputs
from vsepp.training.prefetch import depth_of, inputs_ahead
from vsepp.training.step import EmbeddingInBf16, RunLoss, make_optimiser, train_step


def step_case(measurement: Measurement, artefacts: Artefacts, device: torch.device) -> Case:
    """A training step of the measurement's run, its inputs made as in training: on a GPU ahead, in a thread.

    Parameters
    ----------
    measurement
        Which.
    artefacts
        What its run reads.
    device
        Where.
    """
    run = measurement.run
    data = load_training_data(run, artefacts, device)
    model = model_of(measurement, data).to(device)
    loss = RunLoss.of(run, {}, device)
    optimiser = make_optimiser(model, run.schedule.learning_rate, loss)
    if not measurement.packed:
        model.text = OverPadding(model.text)
    embedding = EmbeddingInBf16(model, device) if run.precision == "bf16" else model
    size, negatives = run.schedule.batch_size, run.schedule.negative_set
    batches = epoch_batches(len(data.pairs), size, order_seed=0, epoch=0, negative_set=negatives)
    whole = itertools.cycle([drawn for drawn in batches if drawn.queries == size])
    made = (step_inputs(run, data, loss, drawn, 0, device) for drawn in whole)
    stack = ExitStack()
    stack.enter_context(fp32_products_in(run.precision, device))
    ahead = stack.enter_context(inputs_ahead(made, device, depth_of(run, device)))

    def call() -> None:
        train_step(embedding, optimiser, loss, next(ahead), run.schedule.clip_norm)

    return Case(call, size, {"batch": size, "parameters": trained_size(model)}, close=stack.close)


def model_of(measurement: Measurement, data: TrainingData) -> JointEmbedding:
    """The run's model, with its encoder where that lives in the step."""
    run, encoder = measurement.run, None
    if run.live_encoder:
        encoder = load_encoder(run.encoder, data.encoder_folder).requires_grad_(run.finetuned).eval()
    torch.manual_seed(run.init_seed)
    return JointEmbedding(run.model, data.feature_dim, data.vocabulary_size, encoder)


def trained_size(model: torch.nn.Module) -> int:
    """Numbers that training changes."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
