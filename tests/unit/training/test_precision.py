"""Steps in bf16: close to fp32, with weights, scores and validation in fp32."""

import dataclasses

import numpy as np
import pytest
import tiny_corpus as tiny
import torch
from tiny_corpus import Killed, assert_same_results, history, killed_at, run_in, weights

from vsepp.models.encoders import build_encoder
from vsepp.models.joint import JointEmbedding, l2_normalise
from vsepp.training.precision import EmbeddingInBf16


def test_a_run_in_bf16_learns_like_one_in_fp32_and_keeps_its_weights_in_fp32(corpus, tmp_path):
    run = tiny.change(tiny.FROZEN, schedule__epochs=12, loss__name="sum_of_hinges")
    data = tiny.data_of(run, corpus)
    single, _ = run_in(tmp_path / "fp32", run, data)
    half, _ = run_in(tmp_path / "bf16", tiny.change(run, precision="bf16"), data)
    assert {value.dtype for value in weights(half).values()} == {torch.float32}
    assert any(not value.equal(weights(single)[key]) for key, value in weights(half).items())
    for one, other in zip(history(single), history(half), strict=True):
        assert float(other["loss"]) == pytest.approx(float(one["loss"]), rel=0.05)


def test_an_encoder_in_the_model_runs_in_bf16_too(corpus, tmp_path):
    start = tiny.change(tiny.RC, schedule__epochs=1)
    begun, _ = run_in(tmp_path / "frozen", start, tiny.data_of(start, corpus))
    run = tiny.change(tiny.FINETUNED, precision="bf16", schedule__epochs=1)
    out, facts = run_in(tmp_path / "tuned", run, tiny.data_of(run, corpus), begun)
    assert facts["encoder_in_model"]
    assert all(value.isfinite().all() for value in weights(out).values() if value.is_floating_point())


@pytest.mark.parametrize("memory_format", ["contiguous", "channels_last"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_an_encoder_that_is_trained_keeps_its_memory_format_and_its_weights_names(
    corpus, tmp_path, memory_format, precision
):
    encoder = dataclasses.replace(tiny.ENCODERS["resnet"], memory_format=memory_format)
    start = tiny.change(tiny.RC, encoder=encoder, rc_features="inline", schedule__epochs=1)
    begun, _ = run_in(tmp_path / "frozen", start, tiny.data_of(start, corpus))
    run = tiny.change(tiny.FINETUNED, encoder=encoder, precision=precision, schedule__epochs=2)
    data = tiny.data_of(run, corpus)
    out, _ = run_in(tmp_path / "tuned", run, data, begun)
    model = JointEmbedding(
        run.model, data.feature_dim, data.vocabulary_size, build_encoder(encoder)
    ).requires_grad_()
    model.load_weights(weights(out), out)
    images = torch.from_numpy(np.zeros((4, tiny.CROP, tiny.CROP, 3), np.uint8))
    device_model = EmbeddingInBf16(model, tiny.CPU) if precision == "bf16" else model
    device_model.embed_images(images).sum().backward()
    kernel = next(p for p in model.encoder.parameters() if p.dim() == 4 and min(p.shape[1:]) > 1)
    wanted = torch.channels_last if memory_format == "channels_last" else torch.contiguous_format
    assert kernel.is_contiguous(memory_format=wanted)
    assert kernel.grad.dtype == torch.float32
    assert model.encoder.normalise(images).is_contiguous(memory_format=wanted)


@pytest.mark.slow
@pytest.mark.resume
@pytest.mark.parametrize("mode", ["eval", "legacy"])
def test_a_training_of_a_compiled_encoder_goes_on_bit_identical(corpus, tmp_path, mode):
    # The last batch of an epoch is smaller; each training here compiles for itself, as another process would.
    encoder = dataclasses.replace(tiny.ENCODERS["vgg"], compile="default")
    start = tiny.change(tiny.RC, schedule__epochs=1)
    begun, _ = run_in(tmp_path / "frozen", start, tiny.data_of(start, corpus))
    run = tiny.change(tiny.FINETUNED, encoder=encoder, encoder_mode=mode, schedule__epochs=2)
    data = tiny.data_of(run, corpus)
    whole, _ = run_in(tmp_path / "whole", run, data, begun)
    torch.compiler.reset()
    with pytest.raises(Killed):
        run_in(tmp_path / "cut", run, killed_at(data, 3), begun, checkpoint_seconds=0)
    torch.compiler.reset()
    torch.manual_seed(99)
    out, _ = run_in(tmp_path / "cut", run, data, begun)
    assert_same_results(whole, out)
    assert weights(out).keys() == weights_of_uncompiled(run, data).keys()


def weights_of_uncompiled(run, data):
    encoder = build_encoder(tiny.ENCODERS["vgg"])
    return JointEmbedding(run.model, data.feature_dim, data.vocabulary_size, encoder).state_dict()


def test_embeddings_are_fp32_and_of_unit_length(corpus):
    data = tiny.data_of(tiny.FROZEN, corpus)
    torch.manual_seed(0)
    model = JointEmbedding(tiny.FROZEN.model, data.feature_dim, data.vocabulary_size)
    images = EmbeddingInBf16(model, torch.device("cpu")).embed_images(torch.randn(50, data.feature_dim))
    assert images.dtype == torch.float32
    torch.testing.assert_close(images.norm(dim=1), torch.ones(50), rtol=0, atol=1e-6)
    torch.testing.assert_close(
        l2_normalise(torch.randn(50, 64).bfloat16()).norm(dim=1), torch.ones(50), rtol=0, atol=1e-6
    )
