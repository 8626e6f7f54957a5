"""Where the data of a training lie decides nothing about its results."""

import gc
import json
import weakref

import numpy as np
import pytest
import tiny_corpus as tiny
import torch
from tiny_corpus import assert_same_results, run_in

from vsepp.cli import main
from vsepp.data.placement import Placement
from vsepp.errors import VseppError
from vsepp.features.needs import pass_bytes, step_bytes
from vsepp.features.tape import Tape
from vsepp.models.encoder import build_encoder
from vsepp.spec import CropSpec, to_json
from vsepp.training.batches import epoch_batches
from vsepp.training.data import load_training_data
from vsepp.training.epoch import step_inputs
from vsepp.training.memory import memory_explained
from vsepp.training.step import RunLoss

RUNS = {
    "1C": tiny.FROZEN,
    "tape": tiny.RC,
    "inline": tiny.change(tiny.RC, rc_features="inline"),
    "encoder in the model": tiny.LEGACY,
}


def data_on(place, run, corpus, device=tiny.CPU):
    return load_training_data(run, tiny.artefacts(corpus, run.encoder.name), device, data_on=place)


@pytest.mark.parametrize("name", RUNS)
def test_a_training_is_the_same_whereever_its_data_lie(corpus, tmp_path, name):
    run = RUNS[name]
    first, _ = run_in(tmp_path / "mapped", run, data_on("mapped", run, corpus))
    for place in ("auto", "device", "pinned"):
        data = data_on(place, run, corpus)
        out, _ = run_in(tmp_path / place, run, data)
        assert_same_results(first, out)
        where = "mapped" if place == "auto" else place
        assert data.placement.chosen
        assert all(chosen.startswith(where) for chosen in data.placement.chosen.values())


def test_validation_reads_what_training_has_placed_and_files_otherwise(corpus):
    shared = data_on("device", tiny.LEGACY, corpus)
    assert list(shared.placement.chosen) == ["image store"], "one store for both, placed once"
    tape = data_on("device", tiny.RC, corpus)
    tape.train_inputs(np.arange(3), 0)
    assert list(tape.placement.chosen) == ["tape, two epochs"]


def test_an_unknown_place_is_refused(corpus):
    with pytest.raises(VseppError, match="got 'moon'; expected one of auto, device"):
        data_on("moon", tiny.FROZEN, corpus)


@pytest.fixture
def tape_folder(tmp_path):
    captions = np.arange(3, 43, dtype=np.int32)
    np.save(tmp_path / "captions.npy", captions)
    for epoch in range(5):
        features = np.random.default_rng(epoch).normal(size=(40, 6)).astype(np.float16)
        np.save(tmp_path / f"epoch-{epoch:03d}.npy", features)
    return tmp_path


@pytest.mark.tape
@pytest.mark.parametrize("place", [None, "auto", "mapped", "device", "pinned"])
@pytest.mark.parametrize("order", [range(5), range(3, 5), (0, 3, 1, 1, 4), (4, 3, 2)])
def test_a_tapes_epochs_come_in_any_order_from_any_place(tape_folder, place, order):
    tape = Tape.open(tape_folder, place and Placement(tiny.CPU, place))
    rows = np.array([42, 3, 17, 17])
    for epoch in order:
        expected = np.load(tape_folder / f"epoch-{epoch:03d}.npy")[rows - 3]
        for _ in range(2):
            assert np.array_equal(tape.rows(epoch, rows).numpy(), expected)
    with pytest.raises(VseppError, match=r"has no epoch 5; it has \[0, 1, 2, 3, 4\]"):
        tape.rows(5, rows)
    assert np.array_equal(tape.rows(0, rows).numpy(), np.load(tape_folder / "epoch-000.npy")[rows - 3])


@pytest.mark.tape
def test_the_next_epoch_is_read_ahead_and_at_most_two_are_in_memory(tape_folder):
    alive = weakref.WeakSet()

    class Watched(Placement):
        def put(self, *arguments, **options):
            placed = super().put(*arguments, **options)
            alive.add(placed.array)
            return placed

    tape = Tape.open(tape_folder, Watched(tiny.CPU, "pinned"))
    for epoch in range(4):
        tape.rows(epoch, np.array([5]))
        tape._features._reader.submit(int).result()  # whatever was asked for has been read
        gc.collect()
        assert len(alive) == 2
    tape.rows(4, np.array([5]))
    gc.collect()
    assert len(alive) == 1, "there is no epoch after the last"


@pytest.mark.tape
def test_a_damaged_next_epoch_is_an_error_when_it_is_used_and_not_before(tape_folder):
    np.save(tape_folder / "epoch-001.npy", np.zeros((7, 6), np.float16))
    tape = Tape.open(tape_folder, Placement(tiny.CPU, "device"))
    for _ in range(3):
        tape.rows(0, np.array([5]))
    with pytest.raises(VseppError, match=r"epoch-001\.npy: expected 40 rows"):
        tape.rows(1, np.array([5]))


@pytest.mark.parametrize("name", tiny.ENCODERS)
def test_needs_of_an_encoder_are_reckoned_from_its_layers(name):
    encoder = build_encoder(tiny.ENCODERS[name]).eval()
    sizes = []
    hooks = [
        layer.register_forward_hook(lambda layer, given, output: sizes.append(output.nbytes))
        for layer in encoder.modules()
        if not list(layer.children())
    ]
    with torch.no_grad():
        encoder(torch.zeros(1, 3, tiny.CROP, tiny.CROP))
    for hook in hooks:
        hook.remove()
    before = {key: value.clone() for key, value in encoder.state_dict().items()}
    weights = sum(value.nbytes for value in before.values())
    assert step_bytes(encoder, 16) == 4 * weights + 16 * (sum(sizes) + 4 * max(sizes))
    assert pass_bytes(encoder) == weights + 4 * 128 * max(sizes)
    assert all(torch.equal(value, before[key]) for key, value in encoder.state_dict().items())


def test_an_error_of_memory_names_the_data_that_lie_on_the_gpu(corpus):
    from vsepp.models.joint import JointEmbedding

    model = JointEmbedding(tiny.MODEL, 4, 5)
    resident = {"image store": 3 << 30}
    expected = r"image store, 3\.00 GiB\): set resources\.data_on \(--data-on\) to pinned\. Or lower schedule"
    with pytest.raises(VseppError, match=expected), memory_explained(tiny.FROZEN, model, tiny.CPU, resident):
        raise MemoryError("out of memory")
    with pytest.raises(VseppError) as e, memory_explained(tiny.FROZEN, model, tiny.CPU, {}):
        raise MemoryError("out of memory")
    assert "data_on" not in str(e.value)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("place", ["auto", "device", "pinned", "mapped"])
@pytest.mark.parametrize("name", ["1C", "tape", "encoder in the model"])
def test_inputs_on_a_gpu_are_those_of_a_cpu_and_wait_for_nothing(corpus, name, place):
    run = tiny.change(RUNS[name], schedule__negative_set=5, loss__mask_same_image=True)
    cuda = torch.device("cuda", torch.cuda.current_device())
    here, there = data_on("mapped", run, corpus), data_on(place, run, corpus, cuda)
    loss = RunLoss.of(run, {}, cuda)
    drawn = next(epoch_batches(len(here.pairs), 16, order_seed=0, epoch=0, negative_set=5))
    step_inputs(run, there, loss, drawn, 0, cuda)  # the tape's first epoch is brought
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = step_inputs(run, there, loss, drawn, 0, cuda)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    expected = step_inputs(run, here, loss, drawn, 0, tiny.CPU)
    assert found.lengths.device.type == "cpu" and found.batch.image_rows.device.type == "cuda"
    for one, other in zip(found.tensors(), expected.tensors(), strict=True):
        assert one is found.lengths or one.device.type == "cuda"
        assert torch.equal(one.cpu(), other)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("name", RUNS)
def test_a_training_on_a_gpu_runs_with_its_data_in_every_place(corpus, tmp_path, name):
    cuda = torch.device("cuda", torch.cuda.current_device())
    for place in ("device", "pinned", "mapped"):
        from vsepp.training.loop import train

        data = data_on(place, RUNS[name], corpus, cuda)
        facts = train(RUNS[name], data, tmp_path / place, tmp_path / f"state-{place}", cuda, {})
        assert facts["epochs"] == 3
        assert all(chosen.startswith(place) for chosen in data.placement.chosen.values())


def test_the_command_takes_the_place_and_records_the_choice(corpus, tmp_path):
    places = tiny.artefacts(corpus)
    folders = {
        "corpus": places.corpus,
        "tokens": places.tokens,
        "features": places.features,
        "tape": places.tape,
    }
    options = [word for name, folder in folders.items() for word in (f"--{name}", str(folder))]
    command = ["train", "--spec", to_json(tiny.RC), *options, "--output", str(tmp_path), "--device", "cpu"]
    assert main([*command, "--data-on", "pinned"]) == 0
    chosen = json.loads((tmp_path / "manifest.json").read_text())["facts"]["data_on"]
    assert list(chosen) == ["tape, two epochs"]
    assert chosen["tape, two epochs"].startswith("pinned: 0.00 GiB; the host has")


def test_the_command_for_features_takes_the_place_and_records_the_choice(corpus, tmp_path):
    places = tiny.artefacts(corpus)
    spec, crop = to_json(tiny.ENCODERS["vgg"]), to_json(CropSpec("1C", tiny.CROP))
    command = ["features", "--encoder-spec", spec, "--crop", crop, "--device", "cpu"]
    folders = [
        "--store",
        str(places.train_store),
        "--encoder",
        str(places.encoder),
        "--output",
        str(tmp_path),
    ]
    assert main([*command, *folders, "--data-on", "pinned"]) == 0
    chosen = json.loads((tmp_path / "manifest.json").read_text())["facts"]["data_on"]
    assert chosen["image store"].startswith("pinned: 0.00 GiB; the host has")
    assert (tmp_path / "features.npy").read_bytes() == (places.features / "features.npy").read_bytes()
