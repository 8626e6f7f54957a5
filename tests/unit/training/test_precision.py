"""Steps in bf16: close to fp32, with weights, scores and validation in fp32."""

import dataclasses
from types import SimpleNamespace

import pytest
import tiny_corpus as tiny
import torch
from tiny_corpus import assert_same_results, history, run_in, weights

from vsepp.base.placement import Placing
from vsepp.base.run_spec import RunSpec
from vsepp.base.spec import from_dict, to_dict
from vsepp.models.joint import l2_normalise
from vsepp.training.data import load_training_data
from vsepp.training.loop import train


def test_a_run_in_bf16_learns_like_one_in_fp32_and_keeps_its_weights_in_fp32(corpus, tmp_path):
    run = tiny.change(tiny.FROZEN, schedule__epochs=12, loss__name="sum_of_hinges")
    data = tiny.data_of(run, corpus)
    single, _ = run_in(tmp_path / "fp32", run, data)
    half, _ = run_in(tmp_path / "bf16", tiny.change(run, precision="bf16"), data)
    assert {value.dtype for value in weights(half).values()} == {torch.float32}
    assert any(not value.equal(weights(single)[key]) for key, value in weights(half).items())
    for epoch, expected in zip(history(half), history(single), strict=True):
        assert float(epoch["loss"]) == pytest.approx(float(expected["loss"]), rel=0.05)


def test_on_a_cpu_a_run_in_tf32_is_one_in_fp32_to_the_last_bit(corpus, tmp_path):
    data = tiny.data_of(tiny.FROZEN, corpus)
    single, _ = run_in(tmp_path / "fp32", tiny.FROZEN, data)
    run = from_dict(RunSpec, to_dict(tiny.change(tiny.FROZEN, precision="tf32")))
    assert run.precision == "tf32"
    assert_same_results(single, run_in(tmp_path / "tf32", run, data)[0])


def test_vectors_in_bf16_are_brought_to_unit_length_in_fp32():
    lengths = l2_normalise(torch.randn(50, 64).bfloat16()).norm(dim=1)
    torch.testing.assert_close(lengths, torch.ones(50), rtol=0, atol=1e-6)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("precision", "in_steps"), [("fp32", (False, False)), ("tf32", (True, True)), ("bf16", (False, True))]
)
def test_steps_on_a_gpu_are_in_the_runs_precision_and_validation_in_ieee_fp32(
    corpus, tmp_path, precision, in_steps, cuda
):
    run = tiny.change(tiny.FROZEN, precision=precision, schedule__epochs=1)
    data = load_training_data(run, tiny.artefacts(corpus, run.encoder.name), Placing(cuda))
    seen = {"train": set(), "eval": set()}

    def watched(name, source):
        def inputs(*arguments):
            seen[name].add((torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32))
            return source(*arguments)

        return inputs

    images = SimpleNamespace(
        dim=data.images.dim,
        train=watched("train", data.images.train),
        eval=watched("eval", data.images.eval),
    )
    watching = dataclasses.replace(data, images=images)
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    train(run, watching, tmp_path / "out", tmp_path / "state", cuda)
    assert seen == {"train": {in_steps}, "eval": {(False, False)}}
    assert (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32) == before
