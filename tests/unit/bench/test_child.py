"""A measurement is warm when its calls have come to take one time, and a turn is sized by the last of them."""

import itertools

import pytest

from vsepp.bench.child import calls_of_a_turn, is_warm

TURN = 0.5


def calls_before(seconds, *, on_gpu):
    """Calls that are made before the first turn, of calls that would take so many seconds each."""
    return next(n for n in itertools.count() if is_warm(seconds[:n], TURN, on_gpu=on_gpu))


@pytest.mark.parametrize(
    ("seconds", "calls"),
    [
        ([60.0, 0.011, 0.010, 0.010], 3),  # compiled in the first call
        ([60.0, 0.030, 0.200, 0.010, 0.010], 5),  # then warmed up and recorded as a CUDA graph
        ([0.01] * 9, 3),
        ([1.0, 0.5, 0.25, 0.125, 0.1, 0.1], 5),
        ([2.0**-n for n in range(20)], 10),
        ([40.0, 40.0, 40.0], 3),
    ],
)
def test_a_gpus_first_calls_are_left_out_of_its_turns(seconds, calls):
    assert calls_before(seconds, on_gpu=True) == calls


@pytest.mark.parametrize(
    ("seconds", "calls"),
    [
        ([30.0, 30.0], 1),  # a step of a network of full size
        ([2.0, 1.0], 1),
        ([1.9, 1.0, 1.0], 2),
        ([0.1, 0.09], 2),
        ([0.1, 0.01, 0.009], 3),
        ([0.01 * 2.0**-n for n in range(20)], 10),
    ],
)
def test_a_cpu_warms_up_for_four_turns_at_most(seconds, calls):
    assert calls_before(seconds, on_gpu=False) == calls


def test_a_turn_is_filled_with_calls_that_are_warm():
    assert calls_of_a_turn(0.011, TURN) == 46
    assert calls_of_a_turn(60.0, TURN) == 1
    assert calls_of_a_turn(1e-9, TURN) == 1000
