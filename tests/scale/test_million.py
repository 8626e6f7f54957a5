"""A million made-up pairs, from shards to ranks: what they take of memory, and what a smaller number takes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.scale
BENCHMARK = Path(__file__).parents[2] / "benchmarks/scale.py"


@pytest.fixture(scope="module")
def figures():
    """Number of pairs, part → its figures."""
    command = [sys.executable, BENCHMARK, "--pairs", "100000", "1000000"]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return {(line["pairs"], line["part"]): line for line in map(json.loads, said.splitlines())}


@pytest.mark.parametrize("part", ["train", "rank"])
def test_memory_does_not_grow_with_the_pairs(figures, part):
    few, many = (figures[pairs, part]["anonymous_bytes"] for pairs in (100_000, 1_000_000))
    print(f"{part}: {few:,} and {many:,} bytes")
    assert many < 2e9
    assert many < 1.1 * few


def test_every_caption_that_asks_has_a_rank_among_all_images(figures):
    for pairs in (100_000, 1_000_000):
        assert figures[pairs, "make"]["items"] == pairs
        assert 0 <= figures[pairs, "rank"]["median_rank"] < pairs
