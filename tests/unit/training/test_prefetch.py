import threading
import time

import pytest
import tiny_corpus as tiny
import torch
from tiny_corpus import Killed, assert_same_results, killed_at, run_in

from vsepp.training import prefetch
from vsepp.training.prefetch import depth_of, prefetched

RUNS = {
    "1C, few negatives": tiny.change(tiny.FROZEN, schedule__negative_set=5),
    "tape": tiny.RC,
    "inline": tiny.change(tiny.RC, rc_features="inline"),
    "dropout in the model": tiny.LEGACY,
}


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "prefetch"]


@pytest.mark.parametrize("depth", [0, 1, 2, 50])
def test_all_items_come_in_their_order(depth):
    with prefetched(iter(range(30)), depth) as items:
        assert list(items) == list(range(30))
    with prefetched(iter([]), depth) as items:
        assert list(items) == []
    assert not threads()


@pytest.mark.parametrize("depth", [1, 3])
def test_so_many_items_are_made_ahead_and_no_more(depth):
    made = []
    source = (made.append(number) or number for number in range(20))
    with prefetched(source, depth) as items:
        for taken in range(1, 5):
            next(items)
            expected = taken + depth
            until = time.monotonic() + 10
            while len(made) < expected and time.monotonic() < until:
                time.sleep(0.001)
            time.sleep(0.02)
            assert len(made) == expected


@pytest.mark.parametrize("depth", [0, 2])
def test_what_making_an_item_raises_is_raised_where_it_would_have_come(depth):
    def source():
        yield 1
        yield 2
        raise ValueError("row 7 is missing")

    taken = []
    with pytest.raises(ValueError, match="row 7 is missing"), prefetched(source(), depth) as items:
        taken.extend(iter(lambda: next(items), None))
    with pytest.raises(ValueError, match="row 7 is missing"), prefetched(source(), depth) as items:
        for item in items:
            taken.append(item)
    assert taken == [1, 2, 1, 2]
    assert not threads()


def test_the_thread_ends_when_the_user_fails():
    with pytest.raises(Killed), prefetched(iter(range(10**9)), 2) as items:
        next(items)
        assert threads()
        raise Killed
    assert not threads()


def test_a_cpu_makes_nothing_ahead_and_a_gpu_does():
    assert depth_of(tiny.RC, tiny.CPU) == 0
    assert depth_of(tiny.RC, torch.device("cuda")) == 2
    # What it computes with is set for the thread of the step.
    assert depth_of(RUNS["inline"], torch.device("cuda")) == 0


@pytest.fixture
def ahead(monkeypatch):
    """Inputs are made ahead on the CPU too."""
    monkeypatch.setitem(prefetch._DEPTH, "cpu", 2)


@pytest.mark.parametrize("name", RUNS)
def test_a_training_with_inputs_made_ahead_is_the_same_also_when_it_was_killed(
    corpus, tmp_path, monkeypatch, name
):
    run = RUNS[name]
    data = tiny.data_of(run, corpus)
    whole, _ = run_in(tmp_path / "whole", run, data)
    monkeypatch.setitem(prefetch._DEPTH, "cpu", 2)
    straight, _ = run_in(tmp_path / "straight", run, data)
    assert_same_results(whole, straight)
    for call in (3, 6):  # inputs are made before their step: fewer steps are taken
        with pytest.raises(Killed):
            run_in(tmp_path / "cut", run, killed_at(data, call), checkpoint_seconds=0)
        assert not threads()
    out, _ = run_in(tmp_path / "cut", run, data)
    assert_same_results(whole, out)


def test_a_loss_that_is_not_finite_ends_the_thread_too(corpus, tmp_path, ahead):
    from dataclasses import replace

    from vsepp.errors import VseppError

    data = tiny.data_of(tiny.FROZEN, corpus)
    spoilt = replace(data, train_inputs=lambda rows, epoch: data.train_inputs(rows, epoch) * float("nan"))
    with pytest.raises(VseppError, match="expected a finite number"):
        run_in(tmp_path, tiny.FROZEN, spoilt, checkpoint_seconds=0)
    assert not threads()
