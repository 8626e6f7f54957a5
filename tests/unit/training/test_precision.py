"""Steps in bf16: close to fp32, with weights, scores and validation in fp32."""

import dataclasses
from types import SimpleNamespace

import pytest
import tiny_corpus as tiny
import torch
from tiny_corpus import assert_same_results, history, run_in, weights
from torch.utils._python_dispatch import TorchDispatchMode

from vsepp.base.placement import Placing
from vsepp.base.spec import RunSpec, from_dict, to_dict
from vsepp.models.encoder import build_encoder
from vsepp.models.joint import JointEmbedding, l2_normalise
from vsepp.models.precision import fp32_products_in
from vsepp.models.sets import ImageBatch
from vsepp.training.batches import epoch_batches, load_batch
from vsepp.training.data import load_training_data
from vsepp.training.loop import train
from vsepp.training.step import RunLoss, Training, make_optimiser, take_step


def test_a_run_in_bf16_learns_like_one_in_fp32_and_keeps_its_weights_in_fp32(corpus, tmp_path):
    run = tiny.change(tiny.FROZEN, schedule__epochs=12, loss__name="sum_of_hinges")
    data = tiny.data_of(run, corpus)
    single, _ = run_in(tmp_path / "fp32", run, data)
    half, _ = run_in(tmp_path / "bf16", tiny.change(run, precision="bf16"), data)
    assert {value.dtype for value in weights(half).values()} == {torch.float32}
    assert any(not value.equal(weights(single)[key]) for key, value in weights(half).items())
    for one, other in zip(history(single), history(half), strict=True):
        assert float(other["loss"]) == pytest.approx(float(one["loss"]), rel=0.05)


def test_on_a_cpu_a_run_in_tf32_is_one_in_fp32_to_the_last_bit(corpus, tmp_path):
    data = tiny.data_of(tiny.FROZEN, corpus)
    single, _ = run_in(tmp_path / "fp32", tiny.FROZEN, data)
    run = from_dict(RunSpec, to_dict(tiny.change(tiny.FROZEN, precision="tf32")))
    assert run.precision == "tf32"
    assert_same_results(single, run_in(tmp_path / "tf32", run, data)[0])


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_an_encoder_that_is_trained_keeps_channels_last(precision):
    encoder = build_encoder(tiny.ENCODERS["resnet"])
    model = JointEmbedding(tiny.MODEL, encoder.dim, 9, encoder)
    images = torch.zeros(4, tiny.CROP, tiny.CROP, 3, dtype=torch.uint8)
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        model.embed_images(ImageBatch(images)).sum().backward()
    kernel = next(p for p in encoder.parameters() if p.dim() == 4 and min(p.shape[1:]) > 1)
    assert kernel.is_contiguous(memory_format=torch.channels_last)
    assert kernel.grad.dtype == torch.float32
    assert encoder.normalise(images).is_contiguous(memory_format=torch.channels_last)


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


class Types(TorchDispatchMode):
    """Remembers the types of all results on a GPU."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        for tensor in found if isinstance(found, tuple | list) else (found,):
            if isinstance(tensor, torch.Tensor) and tensor.device.type == "cuda":
                self.seen.add(tensor.dtype)
        return found


@pytest.mark.gpu
@pytest.mark.parametrize("projected", [False, True])
def test_a_step_in_bf16_on_a_gpu_makes_no_fp16_tensor_and_its_gru_is_in_fp32(corpus, projected, cuda):
    run = tiny.change(tiny.FROZEN, precision="bf16", model__caption_projection=projected)
    data = load_training_data(run, tiny.artefacts(corpus, run.encoder.name), Placing(cuda))
    torch.manual_seed(0)
    model = JointEmbedding(run.model, data.images.dim, len(data.vocabulary)).to(cuda)
    states = []
    model.text.register_forward_hook(lambda module, given, state: states.append(state))
    loss = RunLoss.from_run(run, {}, cuda)
    training = Training(run, model, loss, make_optimiser(run, model, loss), cuda)
    drawn = next(epoch_batches(len(data.pairs), dataclasses.replace(run.schedule, batch_size=16), 0, 0))
    batch = load_batch(training, data, drawn, 0)
    with fp32_products_in("bf16", cuda), Types() as types:
        take_step(training, batch, 0.01)
    assert torch.bfloat16 in types.seen and torch.float16 not in types.seen
    assert states[0].dtype == torch.float32
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
