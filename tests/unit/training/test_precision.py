"""Steps in bf16: close to fp32, with weights, scores and validation in fp32."""

import pytest
import tiny_corpus as tiny
import torch
from tiny_corpus import history, run_in, weights

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
