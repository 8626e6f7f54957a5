"""Batches that are embedded in parts: the gradient of the whole, and what cannot be done in parts."""

import dataclasses
from functools import partial

import pytest
import tiny_corpus as tiny
import torch
from closeness import assert_near
from tiny_corpus import Killed, assert_same_results, killed_at, run_in

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


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_loss_and_gradient_are_those_of_the_whole_batch(corpus, run):
    whole, parts = stepped(run, corpus, None), stepped(run, corpus, SIZE)
    assert not torch.equal(whole[1], parts[1]), "it was embedded at once"
    for one, other in zip(whole, parts, strict=True):
        assert_near(other, one, 1e-5)


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
    for one, other in zip(twice, step_in_parts(encoder_trains=True), strict=True):
        assert_near(one, other, bound)


@pytest.mark.gpu
@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_on_a_gpu_loss_and_gradient_are_those_of_the_whole_batch(corpus, run, cuda):
    whole, parts = stepped(run, corpus, None, device=cuda), stepped(run, corpus, SIZE, device=cuda)
    for one, other in zip(whole, parts, strict=True):
        assert_near(other, one, 1e-4)


@pytest.mark.resume
def test_a_training_in_parts_goes_on_to_the_same_bits(corpus, tmp_path):
    run = tiny.change(tiny.LEGACY, schedule__embedded_at_once=SIZE)
    data = tiny.data_of(run, corpus)
    whole, _ = run_in(tmp_path / "whole", run, data)
    for seed, call in enumerate((3, 4)):
        torch.manual_seed(seed)
        with pytest.raises(Killed):
            run_in(tmp_path / "cut", run, killed_at(data, call), checkpoint_seconds=0)
    out, _ = run_in(tmp_path / "cut", run, data)
    assert_same_results(whole, out)


def test_batch_normalisation_in_training_is_refused(corpus, tmp_path):
    legacy = tiny.change(tiny.LEGACY, encoder=tiny.ENCODERS["resnet"], schedule__embedded_at_once=SIZE)
    with pytest.raises(VseppError, match=r"embedded_at_once is 5, and encoder\..* or encoder_mode: eval"):
        run_in(tmp_path, legacy, tiny.data_of(legacy, corpus))
    assert not (tmp_path / "out").exists()
    regions = tiny.change(
        tiny.FROZEN,
        model__image_head=Component("regions"),
        model__image_pooling=Component("gpo"),
        schedule__embedded_at_once=SIZE,
    )
    with pytest.raises(VseppError, match=r"image_map\.norm normalises .* Set embedded_at_once: null$"):
        require_parts(regions, JointEmbedding(regions.model, 6, 9))


def test_a_matcher_is_refused():
    matcher = Component("fusion", {"layers": 1, "heads": 2, "intermediate": 12})
    run = tiny.change(tiny.FROZEN, model__matcher=matcher, schedule__embedded_at_once=SIZE)
    with pytest.raises(VseppError, match="matcher 'fusion' takes the vectors of the whole batch"):
        require_parts(run, torch.nn.Module())
