"""Damaged files of every kind that is read: an error that says what is wrong, or a correct result, in bounded time and memory.

pytest -m fuzz                                  # 10,000 damaged files per reader
VSEPP_FUZZ_INPUTS=500 VSEPP_FUZZ_FIRST=10000 pytest -m fuzz -k coco
"""

import os

import pytest
from harness import fuzz
from targets import TARGETS

INPUTS = int(os.environ.get("VSEPP_FUZZ_INPUTS", "10000"))
FIRST = int(os.environ.get("VSEPP_FUZZ_FIRST", "0"))
SHORT = 25


def table(found):
    """Lines of a Markdown table of outcomes."""
    head = "reader | inputs | errors | correct results | tracebacks | wrong results | seconds | slowest, ms | memory, MB"
    lines = [head, "|".join(["---"] + ["---:"] * head.count("|"))]
    for name, one in found.items():
        cells = [f"{n:,}" for n in (one.inputs, one.errors, one.correct, len(one.tracebacks), len(one.wrong))]
        cells += [f"{one.seconds:.0f}", f"{1000 * one.slowest:.0f}", f"{one.memory / 2**20:.0f}"]
        lines.append(" | ".join([name, *cells]))
    return "\n".join(f"| {line} |" for line in lines)


def test_a_few_damaged_files_of_every_kind():
    found = fuzz(list(TARGETS), SHORT)
    findings = [finding for one in found.values() for finding in one.tracebacks + one.wrong]
    assert not findings, f"{len(findings)} findings\n" + "\n\n".join(findings[:5])
    assert all(one.errors + one.correct == one.inputs == SHORT for one in found.values())
    assert all(one.errors for one in found.values())


@pytest.mark.fuzz
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", TARGETS)
def test_many_damaged_files(name, capsys):
    found = fuzz([name], INPUTS, FIRST)
    with capsys.disabled():
        print(f"\n{table(found)}", flush=True)
    findings = found[name].tracebacks + found[name].wrong
    assert not findings, f"{len(findings)} findings\n" + "\n\n".join(findings[:10])
