"""Three gloo processes against one on the same batches.

As a program this starts the processes: python test_distributed.py CORPUS OUT PORT
"""

import contextlib
import dataclasses
import itertools
import os
import socket
import subprocess
import sys
from pathlib import Path

import own_loss
import pytest
import tiny_corpus as tiny
import torch
from rounding import assert_near
from torch.multiprocessing import start_processes

from vsepp.base import components
from vsepp.base.errors import VseppError
from vsepp.base.spec import Component
from vsepp.models.encoder import load_encoder
from vsepp.models.joint import JointEmbedding
from vsepp.training.batches import epoch_batches, load_batch
from vsepp.training.distributed import ALONE, ProcessGroup, join, require_divisible
from vsepp.training.loop import train
from vsepp.training.step import RunLoss, Training, make_optimiser, take_step

pytestmark = pytest.mark.ddp

# The 60 training pairs make four batches of 16, the last of 12, unless said otherwise.
RUNS = {
    "MH": tiny.FROZEN,
    "SH": tiny.change(tiny.FROZEN, loss__name="sum_of_hinges"),
    "dot product of images that are not normalised": tiny.change(
        tiny.FROZEN, model__normalise_images=False, loss__name="sum_of_hinges"
    ),
    "order, root": tiny.change(
        tiny.FROZEN, model__similarity__name="order", model__absolute=True, model__similarity__form="root"
    ),
    "negatives from a part of the batch": tiny.change(tiny.FROZEN, schedule__negative_set=5),
    "negatives beyond the batch": tiny.change(tiny.RC, schedule__negative_set=31),
    "captions of one image masked": tiny.change(tiny.FROZEN, loss__mask_same_image=True),
    "GOAL": tiny.change(tiny.FROZEN, loss__name="goal", loss__triplet="circle", loss__pair="sigmoid_ms"),
    "GOAL, negatives beyond the batch": tiny.change(
        tiny.RC, loss__name="goal", loss__triplet="nca", loss__pair="linear_ms", schedule__negative_set=31
    ),
    "encoder in the model": tiny.change(tiny.FINETUNED, encoder=tiny.ENCODERS["resnet"]),
    "a loss of another package": own_loss.RUN,
    "a last batch of one pair": tiny.change(tiny.FROZEN, schedule__batch_size=59),
    "batches of two pairs": tiny.change(tiny.FROZEN, schedule__batch_size=2, schedule__negative_set=2),
}
# Every other loss with its defaults; a loss that is added joins by being there.
RUNS |= {
    name: tiny.change(tiny.FROZEN, loss__name=name)
    for name in components.known("loss")
    if name not in {run.loss.name for run in RUNS.values()}
}
SIZE = 3
BERT = {"layers": 1, "hidden": 8, "heads": 2, "intermediate": 8, "dim": 10, "dropout": 0.1}
DROPPING = tiny.change(
    tiny.FROZEN, model__text=Component("bert", BERT), model__caption_pooling=Component("first")
)
# Adam divides a gradient by its own size, and so makes much of the rounding where a gradient is nothing but rounding: the
# gradient of W_f's bias under SH, where every caption is as often a negative as it is a positive.
CLOSE = {"gradients": 1e-12, "weights": 1e-7}


def double(model):
    """The model in double precision, where orders of summation do not show."""

    def cast(module, inputs):
        return (inputs[0].double(),)

    model.double().image_map.register_forward_pre_hook(cast)
    if model.encoder is not None:
        model.encoder.network.register_forward_pre_hook(cast)
    return model


def steps(run, corpus, group):
    """Losses of an epoch's steps, gradients of the first one before clipping, and weights at the end."""
    data = tiny.data_of(run, corpus)
    encoder = None
    if run.live_encoder:
        encoder = load_encoder(run.encoder, corpus / f"encoder-{run.encoder.name}").requires_grad_().eval()
    torch.manual_seed(run.init_seed)
    model = double(JointEmbedding(run.model, data.images.dim, len(data.vocabulary), encoder))
    loss = RunLoss.from_run(run, own_loss.folders(corpus), tiny.CPU)
    trained = torch.nn.ModuleDict({"model": model, "loss": loss.state.double()})
    training = Training(run, model, loss, make_optimiser(run, model, loss), tiny.CPU, group)
    losses, gradients = [], {}
    for drawn in epoch_batches(len(data.pairs), run.schedule, 0, 0):
        clipped = tiny.change(run, schedule__clip_norm=0.5 if losses else 1e30)
        training = dataclasses.replace(training, run=clipped)
        losses.append(take_step(training, load_batch(training, data, drawn, 0), run.schedule.learning_rate))
        if len(losses) == 1:
            gradients = {name: p.grad.clone() for name, p in trained.named_parameters()}
    return {"losses": torch.stack(losses), "gradients": gradients, "weights": trained.state_dict()}


def exchanges(group):
    """What `gather` and `from_first` give this process."""
    mine = group.share(7)
    everything = torch.arange(14.0).view(7, 2)
    local = everything[mine].clone().requires_grad_()
    images, captions = group.gather(local, 10 * local, 7)
    (images.square().sum() + captions.sum()).backward()
    message = group.from_first(lambda: {"rank": group.rank, "tensor": torch.ones(3), "none": None})
    gathered = {"images": images.detach(), "captions": captions.detach(), "gradient": local.grad}
    return {**gathered, "message": message}


def train_in(folder, run, corpus, group, calls=1000):
    """Train a whole run; end at the `calls`-th batch, as a kill of all processes would."""
    # The folders of another process would show that it has written.
    with contextlib.suppress(tiny.Killed):
        data = tiny.data_of(run, corpus, **own_loss.folders(corpus))
        places = folder / f"out-{group.rank}", folder / f"state-{group.rank}"
        return train(run, tiny.killed_at(data, calls), *places, tiny.CPU, checkpoint_seconds=0, group=group)


def free_port():
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def all_processes(corpus, package, tmp_path_factory):
    """Folder of the results."""
    out = tmp_path_factory.mktemp("ddp")
    subprocess.run(
        [sys.executable, __file__, str(corpus), str(out), str(free_port())],
        cwd=Path(__file__).parents[3],
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo",
            "PYTHONPATH": os.pathsep.join((str(package), os.environ["PYTHONPATH"])),
        },
        timeout=300,
        check=True,
    )
    return out


@pytest.fixture(scope="module")
def processes(all_processes):
    """Results of each process."""
    return [torch.load(all_processes / f"{rank}.pt", weights_only=True) for rank in range(SIZE)]


@pytest.fixture(scope="module")
def alone(corpus, package):
    return {name: steps(run, corpus, ALONE) for name, run in RUNS.items()}


@pytest.mark.parametrize("name", RUNS)
def test_processes_together_have_the_gradients_and_weights_of_one(processes, alone, name):
    expected, first = alone[name], processes[0][name]
    for process in processes:
        result = process[name]
        torch.testing.assert_close(result["losses"], expected["losses"], rtol=1e-9, atol=1e-9)
        for part in ("gradients", "weights"):
            assert result[part].keys() == expected[part].keys()
            for key, value in expected[part].items():
                torch.testing.assert_close(result[part][key], value, rtol=0, atol=CLOSE[part])
        assert all(torch.equal(value, first["weights"][key]) for key, value in result["weights"].items())
    # All that is trained has moved, or the comparison would say little.
    assert all(gradient.abs().max() > 0 for gradient in expected["gradients"].values())


def test_gathered_embeddings_are_in_the_order_of_the_batch_and_a_process_has_its_own_gradient(processes):
    everything = torch.arange(14.0).view(7, 2)
    for process in processes:
        assert torch.equal(process["exchanges"]["images"], everything)
        assert torch.equal(process["exchanges"]["captions"], 10 * everything)
    gradients = torch.cat([process["exchanges"]["gradient"] for process in processes])
    torch.testing.assert_close(gradients[:7], 2 * everything + 10)
    assert not gradients[7:].any(), "repeated pairs do not count"


def test_a_message_of_the_first_process_reaches_all(processes):
    for process in processes:
        message = process["exchanges"]["message"]
        assert message["rank"] == 0 and message["none"] is None
        assert torch.equal(message["tensor"], torch.ones(3))


def test_a_training_on_several_processes_is_that_of_one_and_goes_on_bit_for_bit(
    processes, all_processes, corpus, package, tmp_path
):
    train_in(tmp_path, own_loss.RUN, corpus, ALONE)
    whole, cut = all_processes / "whole", all_processes / "cut"
    tiny.assert_same_results(whole / "out-0", cut / "out-0")
    values = tiny.weights(whole / "out-0")
    for key, value in tiny.weights(tmp_path / "out-0").items():
        assert_near(values[key].flatten(), value.flatten(), 1e-5)
    for rank in range(1, SIZE):
        assert processes[rank]["facts"] == {}
        assert not (cut / f"out-{rank}").exists() and not list((cut / f"state-{rank}").iterdir())
    assert processes[0]["facts"]["processes"] == SIZE and processes[0]["facts"]["epochs"] == 3


def test_dropout_differs_between_processes_and_is_the_same_after_a_kill(processes, all_processes):
    tiny.assert_same_results(*(all_processes / name / "out-0" for name in ("dropping", "dropping-cut")))
    masks = [process["mask"] for process in processes]
    assert not any(torch.equal(*pair) for pair in itertools.combinations(masks, 2))


HEAD = {"model__image_head": Component("regions"), "model__image_pooling": Component("mean")}
MATCHER = Component("fusion", {"layers": 1, "heads": 2, "intermediate": 12})


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (tiny.LEGACY, "encoder_mode is legacy-master"),
        (tiny.change(tiny.FROZEN, **HEAD), "'regions'"),
        (tiny.change(tiny.FROZEN, model__matcher=MATCHER), "'fusion'"),
    ],
    ids=["an encoder in training mode", "batch normalisation", "a matcher"],
)
def test_a_run_whose_batch_is_one_is_not_divided(run, message):
    with pytest.raises(VseppError, match=f"run tiny: .*{message}.*got 2 processes"):
        require_divisible(run, ProcessGroup(0, 2))
    require_divisible(run, ALONE)
    require_divisible(tiny.FINETUNED, ProcessGroup(0, 2))


def test_without_torchrun_a_process_is_alone(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with join(tiny.CPU) as group:
        assert group is ALONE and group.first
        assert group.from_first(lambda: 3) == 3
        assert not torch.distributed.is_initialized()


def take_part(rank, corpus, out, port):
    """Meet the others as `torchrun` would have it, and write what came of it."""
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(SIZE)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    with join(tiny.CPU) as group:
        results = {name: steps(run, corpus, group) for name, run in RUNS.items()}
        results["exchanges"] = exchanges(group)
        train_in(out / "whole", own_loss.RUN, corpus, group)
        # Within the second epoch, and then within the third.
        for calls in (6, 3):
            assert train_in(out / "cut", own_loss.RUN, corpus, group, calls) is None
        results["facts"] = train_in(out / "cut", own_loss.RUN, corpus, group)
        train_in(out / "dropping", DROPPING, corpus, group)
        # Each process goes on from the numbers of its last step.
        results["mask"] = torch.nn.functional.dropout(torch.ones(64))
        assert train_in(out / "dropping-cut", DROPPING, corpus, group, 6) is None
        torch.manual_seed(rank + 10)
        train_in(out / "dropping-cut", DROPPING, corpus, group)
        torch.save(results, out / f"{rank}.pt")


if __name__ == "__main__":
    arguments = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    # Forked: importing torch takes longer than all that they do. Where one fails the others are ended.
    start_processes(take_part, arguments, SIZE, start_method="fork")
