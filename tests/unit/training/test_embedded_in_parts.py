"""Batches that are embedded in parts: the gradient of the whole, and what cannot be done in parts."""

import dataclasses
from functools import partial

import pytest
import tiny_corpus as tiny
import torch
from rounding import assert_near

from vsepp.base.errors import VseppError
from vsepp.base.placement import Placing
from vsepp.base.spec import Component
from vsepp.models.encoder import load_encoder
from vsepp.models.joint import JointEmbedding
from vsepp.models.precision import fp32_products_in
from vsepp.training import step
from vsepp.training.batches import epoch_batches, load_batch
from vsepp.training.data import load_training_data
from vsepp.training.step import RunLoss, Training, make_optimiser, require_parts, take_step

CUDA = torch.device("cuda", 0)
SIZE = 5  # of batches of 15: three parts
SETS = tiny.change(
    tiny.FINETUNED,
    encoder=tiny.ENCODERS["resnet"],
    model__text__name="bigru",
    model__image_pooling=Component("gpo"),
    model__caption_pooling=Component("gpo"),
    size_augmentation__drop_vectors=0.3,
)
RUNS = {
    "features": tiny.FROZEN,
    "InfoNCE": dataclasses.replace(tiny.FROZEN, loss=Component("info_nce")),
    "an encoder": tiny.FINETUNED,
    "a grid, pooled": SETS,
}


def stepped(run, corpus, at_once, encoder_trains=False, device=tiny.CPU):
    """Loss and gradients of a step."""
    data = load_training_data(run, tiny.artefacts(corpus, run.encoder.name), Placing(device))
    torch.manual_seed(0)
    encoder = None
    if run.live_encoder:
        encoder = load_encoder(run.encoder, data.folders["encoder"], grid=run.grid).train(encoder_trains)
    model = JointEmbedding(run.model, data.images.dim, len(data.vocabulary), encoder).to(device)
    run = tiny.change(
        run, schedule__batch_size=13, schedule__clip_norm=1e9, schedule__embedded_at_once=at_once
    )
    loss = RunLoss.from_run(run, {}, device)
    training = Training(run, model, loss, make_optimiser(run, model, loss), device)
    batch = load_batch(training, data, next(epoch_batches(len(data.pairs), run.schedule, 0, 0)), 0)
    torch.manual_seed(1)
    with fp32_products_in("fp32", device):
        value = take_step(training, batch, 0.01)
    return value, torch.cat([parameter.grad.flatten() for parameter in training.optimiser.parameters])


@pytest.mark.parametrize(
    ("device", "bound"), [(tiny.CPU, 1e-5), pytest.param(CUDA, 1e-4, marks=pytest.mark.gpu)], ids=str
)
@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_loss_and_gradient_are_those_of_the_whole_batch(corpus, run, device, bound):
    whole, parts = (stepped(run, corpus, at_once, device=device) for at_once in (None, SIZE))
    assert not torch.equal(whole[1], parts[1]), "it was embedded at once"
    for value, expected in zip(parts, whole, strict=True):
        assert_near(value, expected, bound)


@pytest.mark.parametrize(
    ("device", "bound"), [(tiny.CPU, 0), pytest.param(CUDA, 1e-4, marks=pytest.mark.gpu)], ids=str
)
def test_dropout_is_the_same_in_both_passes(corpus, monkeypatch, device, bound):
    """Beside the same parts with all intermediate values kept."""
    tuned = dataclasses.replace(tiny.LEGACY, finetune_from="tiny")
    encoder = load_encoder(tuned.encoder, corpus / "encoder-vgg")
    assert any(isinstance(module, torch.nn.Dropout) for module in encoder.modules())
    step_in_parts = partial(stepped, tuned, corpus, SIZE, device=device)
    twice = step_in_parts(encoder_trains=True)
    assert not torch.equal(twice[1], step_in_parts()[1]), "nothing is dropped"
    monkeypatch.setattr(step, "checkpoint", lambda embedded, *part, use_reentrant: embedded(*part))
    for value, expected in zip(twice, step_in_parts(encoder_trains=True), strict=True):
        assert_near(value, expected, bound)


REGIONS = {"model__image_head": Component("regions"), "model__image_pooling": Component("gpo")}
FUSION = {"model__matcher": Component("fusion", {"layers": 1, "heads": 2, "intermediate": 12})}


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (tiny.change(tiny.LEGACY, encoder=tiny.ENCODERS["resnet"]), r"encoder\..*encoder_mode: eval"),
        (tiny.change(tiny.FROZEN, **REGIONS), r"image_map\.norm"),
        (tiny.change(tiny.FROZEN, **FUSION, **REGIONS, model__caption_pooling=Component("gpo")), "'fusion'"),
    ],
    ids=["batch normalisation of an encoder", "batch normalisation of a head", "a matcher"],
)
def test_a_model_whose_batch_is_one_is_refused(corpus, run, message):
    run = tiny.change(run, model__text__name="bigru", schedule__embedded_at_once=SIZE)
    encoder = None
    if run.live_encoder:
        encoder = load_encoder(run.encoder, corpus / "encoder-resnet").train()
    with pytest.raises(VseppError, match=message):
        require_parts(run, JointEmbedding(run.model, 128, 9, encoder))
