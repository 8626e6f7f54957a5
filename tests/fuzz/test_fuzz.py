"""Damaged files of every kind that is read: an error that says what is wrong, or a correct result, in bounded time and memory.

10,000 of each, or others:  VSEPP_FUZZ_INPUTS=10000 VSEPP_FUZZ_FIRST=0 pytest -n 0 -s tests/fuzz
"""

import os

import pytest
from harness import fuzz
from targets import TARGETS

INPUTS = int(os.environ.get("VSEPP_FUZZ_INPUTS", "25"))
FIRST = int(os.environ.get("VSEPP_FUZZ_FIRST", "0"))


@pytest.mark.timeout(0)
def test_damaged_files_of_every_kind():
    outcomes = fuzz(list(TARGETS), INPUTS, FIRST)
    for name, outcome in outcomes.items():
        print(
            f"{name}: {outcome.inputs:,} inputs, {outcome.errors:,} errors, {outcome.correct:,} correct results, "
            f"{outcome.seconds:.0f} s, slowest {outcome.slowest:.2f} s, {outcome.memory / 2**20:.0f} MB"
        )
    faults = [fault for outcome in outcomes.values() for fault in outcome.faults]
    assert not faults, f"{len(faults)} faults\n" + "\n\n".join(faults[:10])
    for outcome in outcomes.values():
        assert outcome.errors + outcome.correct == outcome.inputs == INPUTS and outcome.errors
