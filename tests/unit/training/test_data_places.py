"""Where the data of a training lie decides nothing about its results."""

import dataclasses

import pytest
import tiny_corpus as tiny
import torch
from tiny_corpus import assert_same_results, run_in

from vsepp.base.placement import Placing
from vsepp.training.batches import epoch_batches, load_batch
from vsepp.training.data import load_training_data
from vsepp.training.step import RunLoss, Training

RUNS = {
    "1C": tiny.FROZEN,
    "1C, few negatives": tiny.change(tiny.FROZEN, schedule__negative_set=5),
    "tape": tiny.RC,
    "inline": tiny.change(tiny.RC, rc_features="inline"),
    "encoder in the model, with dropout": tiny.LEGACY,
}
WHAT = {"1C": "image features", "tape": "tape"}


def data_on(option, run, corpus, device=tiny.CPU):
    return load_training_data(run, tiny.artefacts(corpus, run.encoder.name), Placing(device, option))


@pytest.mark.parametrize("name", RUNS)
def test_a_training_is_the_same_wherever_its_data_lie(corpus, tmp_path, name):
    run = RUNS[name]
    first, _ = run_in(tmp_path / "mapped", run, data_on("mapped", run, corpus))
    what = WHAT.get(name.partition(",")[0], "image store")
    for option, where in (("auto", "mapped"), ("device", "device")):
        data = data_on(option, run, corpus)
        assert data.images.data_on == {what: "mapped" if what == "tape" else where}
        out, _ = run_in(tmp_path / option, run, data)
        assert_same_results(first, out)


@pytest.mark.gpu
@pytest.mark.parametrize("option", ["auto", "device", "mapped"])
@pytest.mark.parametrize("name", [name for name in RUNS if name != "inline"])
def test_inputs_on_a_gpu_are_those_of_a_cpu_and_wait_for_nothing(corpus, name, option, cuda):
    run = tiny.change(RUNS[name], schedule__negative_set=5, loss__mask_same_image=True)
    on_cpu, on_gpu = data_on("mapped", run, corpus), data_on(option, run, corpus, cuda)
    drawn = next(
        epoch_batches(
            len(on_cpu.pairs), dataclasses.replace(run.schedule, batch_size=16, negative_set=5), 0, 0
        )
    )
    training = Training(run, None, RunLoss.from_run(run, {}, cuda), None, cuda)
    load_batch(training, on_gpu, drawn, 0)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        batch = load_batch(training, on_gpu, drawn, 0)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    training = Training(run, None, RunLoss.from_run(run, {}, tiny.CPU), None, tiny.CPU)
    expected = load_batch(training, on_cpu, drawn, 0)
    for name in ("captions", "lengths"):
        assert torch.equal(getattr(batch, name).cpu(), getattr(expected, name))
    assert torch.equal(batch.images.values.cpu(), expected.images.values)
    assert batch.captions.device == batch.images.values.device == cuda and batch.lengths.device == tiny.CPU
