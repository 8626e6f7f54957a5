"""A training that is killed, at any moment and more than once, ends like one that was not."""

import multiprocessing
import os
import random
import signal
import time

import pytest
import tiny_corpus as tiny
import torch
from tiny_corpus import Killed, assert_same_results, killed_at, run_in, weights

from vsepp.base.spec import Component, to_json
from vsepp.training.checkpoint import FILE

pytestmark = pytest.mark.resume

RUNS = {
    "1C": tiny.FROZEN,
    "RC, negatives beyond the batch": tiny.change(tiny.RC, schedule__negative_set=24),
    "few negatives, curriculum": tiny.change(tiny.FROZEN, schedule__negative_set=2, loss__curriculum=1 / 3),
    "masked": tiny.change(tiny.FROZEN, loss__name="sum_of_hinges", loss__mask_same_image=True),
    "order": tiny.change(tiny.FROZEN, model__similarity__name="order", model__absolute=True),
    "legacy with dropout": tiny.LEGACY,
    "legacy with BN": tiny.change(tiny.LEGACY, encoder=tiny.ENCODERS["resnet"]),
}
STEPS = 4  # of an epoch; three epochs
GRID = {
    "encoder": tiny.ENCODERS["resnet"],
    "model__text__name": "bigru",
    "model__image_pooling": Component("gpo"),
    "model__caption_pooling": Component("gpo"),
    "size_augmentation__drop_vectors": 0.3,
    "size_augmentation__drop_words": 0.3,
}


@pytest.fixture(scope="module")
def processes():
    """Makes processes that find torch loaded and are otherwise new."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["vsepp.training.loop", "vsepp.training.data"])
    return context


@pytest.mark.parametrize("name", RUNS)
def test_a_training_cut_short_ends_bit_identical_with_one_that_was_not(corpus, tmp_path, name):
    run = RUNS[name]
    data = tiny.data_of(run, corpus)
    whole, _ = run_in(tmp_path / "whole", run, data)
    cut = tmp_path / "cut"
    # After steps 3, 3 + 4 and 3 + 4 + 4 of twelve: within the first, the second and the third epoch.
    for call in (3, 4, 4):
        torch.manual_seed(call)
        with pytest.raises(Killed):
            run_in(cut, run, killed_at(data, call), checkpoint_seconds=0)
        assert not (cut / "out").exists()
    torch.manual_seed(99)
    out, facts = run_in(cut, run, killed_at(data, 1))  # one step is left
    assert_same_results(whole, out)
    assert facts["epochs"] == 3


def test_a_cnn_that_is_tuned_with_the_pooling_of_its_grid_goes_on_to_the_same_bits(corpus, tmp_path):
    start, _ = run_in(
        tmp_path / "start",
        tiny.change(tiny.LEGACY, **GRID),
        tiny.data_of(tiny.change(tiny.LEGACY, **GRID), corpus),
    )
    rates = Component("adamw", {"rates": [["encoder.", 0.1]]})
    run = tiny.change(tiny.FINETUNED, **GRID, optimiser=rates)
    data = tiny.data_of(run, corpus)
    whole, facts = run_in(tmp_path / "whole", run, data, init_from=start)
    for call in (3, 4, 4):
        torch.manual_seed(call)
        with pytest.raises(Killed):
            run_in(tmp_path / "cut", run, killed_at(data, call), init_from=start, checkpoint_seconds=0)
    out, _ = run_in(tmp_path / "cut", run, killed_at(data, 1), init_from=start)
    assert_same_results(whole, out)
    tuned, begun = weights(whole), weights(start)
    assert facts["encoder_in_model"] and any(
        not torch.equal(tuned[name], begun[name]) for name in begun if name.startswith("encoder.")
    )


def test_a_training_cut_short_in_its_validation_validates_again(corpus, tmp_path):
    data = tiny.data_of(tiny.LEGACY, corpus)
    whole, _ = run_in(tmp_path / "whole", tiny.LEGACY, data)
    with pytest.raises(Killed):
        run_in(tmp_path / "cut", tiny.LEGACY, killed_at(data, 1, "eval"), checkpoint_seconds=0)
    out, _ = run_in(tmp_path / "cut", tiny.LEGACY, killed_at(data, STEPS))  # those of the third epoch
    assert_same_results(whole, out)


def test_a_training_cut_short_after_its_last_epoch_embeds_the_test_split(corpus, tmp_path):
    data = tiny.data_of(tiny.LEGACY, corpus)
    whole, facts = run_in(tmp_path / "whole", tiny.LEGACY, data)
    with pytest.raises(Killed):
        run_in(tmp_path / "cut", tiny.LEGACY, killed_at(data, facts["epochs"], "eval"), checkpoint_seconds=0)
    assert not (tmp_path / "cut" / "out").exists()
    out, _ = run_in(tmp_path / "cut", tiny.LEGACY, killed_at(data, 0))  # no step is taken again
    assert_same_results(whole, out)


def written_at(path):
    """When a file was written; `None` where there is none, as between two generations."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return None


def test_a_process_killed_at_random_moments_ends_bit_identical(corpus, tmp_path, processes):
    run = tiny.change(tiny.LEGACY, schedule__epochs=24, schedule__negative_set=24)
    out, state = tmp_path / "out", tmp_path / "state"
    checkpoint = state / FILE
    seed = int(time.time())
    moments = random.Random(seed)
    for _ in range(4):
        before = written_at(checkpoint)
        process = processes.Process(
            target=tiny.train_alone, args=(to_json(run), str(corpus), str(out), str(state))
        )
        process.start()
        deadline = time.monotonic() + 120
        while written_at(checkpoint) in (None, before):
            assert process.is_alive() and time.monotonic() < deadline
            time.sleep(0.002)
        time.sleep(moments.uniform(0, 0.15))
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert process.exitcode == -signal.SIGKILL, f"seed {seed}"
        assert not out.exists()
        assert len(list(state.glob("[!.]*"))) <= 1
    data = tiny.data_of(run, corpus)
    run_in(tmp_path, run, data, checkpoint_seconds=0)
    whole, _ = run_in(tmp_path / "whole", run, data)
    assert_same_results(whole, out)


def test_a_process_killed_while_it_writes_a_checkpoint_leaves_the_one_before(corpus, tmp_path, processes):
    data = tiny.data_of(tiny.LEGACY, corpus)
    with pytest.raises(Killed):
        run_in(tmp_path, tiny.LEGACY, killed_at(data, 6), checkpoint_seconds=0)
    state = tmp_path / "state"
    before = (state / FILE).read_bytes()
    arguments = (to_json(tiny.LEGACY), str(corpus), str(tmp_path / "out"), str(state), len(before) // 2)
    process = processes.Process(target=tiny.train_alone, args=arguments)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGXFSZ
    (partial,) = state.glob(".*.part")
    assert 0 < partial.stat().st_size <= len(before) // 2
    assert (state / FILE).read_bytes() == before
    others = state / ".nfs0001"  # as a network file system names what is still open
    others.touch()
    out, _ = run_in(tmp_path, tiny.LEGACY, killed_at(data, 6), checkpoint_seconds=0)  # six steps are left
    assert others.exists() and not partial.exists()
    whole, _ = run_in(tmp_path / "whole", tiny.LEGACY, data)
    assert_same_results(whole, out)


def test_a_training_that_was_killed_while_publishing_publishes(corpus, tmp_path):
    data = tiny.data_of(tiny.FROZEN, corpus)
    out, _ = run_in(tmp_path, tiny.FROZEN, data, checkpoint_seconds=0)
    before = weights(out)
    (out / "model.safetensors").unlink()
    run_in(tmp_path, tiny.FROZEN, killed_at(data, 0))  # no step is taken again
    assert all(torch.equal(value, before[key]) for key, value in weights(out).items())
