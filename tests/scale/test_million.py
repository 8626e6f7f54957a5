"""A million made-up pairs are trained and ranked: memory grows by no more than what is read and ranked."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.scale, pytest.mark.timeout(7200)]
BENCHMARK = Path(__file__).parents[2] / "benchmarks/scale.py"
FEW, MANY = 100_000, 1_000_000


@pytest.fixture(scope="module")
def figures():
    """Part and number of pairs → the figures of the part."""
    command = [sys.executable, BENCHMARK, "--pairs", str(FEW), str(MANY)]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    print(said)
    return {(line["part"], line["pairs"]): line for line in map(json.loads, said.splitlines())}


@pytest.mark.parametrize("part", ["train", "rank"])
def test_memory_grows_by_no_more_than_tables_word_ids_and_features(figures, part):
    made = {pairs: figures["make", pairs] for pairs in (FEW, MANY)}
    held = {pairs: one["tables_bytes"] + one["word_ids_bytes"] for pairs, one in made.items()}
    if part == "rank":
        held = {pairs: size + figures[part, pairs]["embeddings_bytes"] for pairs, size in held.items()}
    few, many = figures[part, FEW], figures[part, MANY]
    grown = held[MANY] - held[FEW]
    assert many["anonymous_bytes"] - few["anonymous_bytes"] <= grown
    mapped = made[MANY]["features_bytes"] - made[FEW]["features_bytes"]
    assert many["resident_bytes"] - few["resident_bytes"] <= grown + mapped
    assert many["resident_bytes"] < 4e9


def test_every_caption_that_asks_has_a_rank_among_all_images(figures):
    for pairs in (FEW, MANY):
        assert 0 <= figures["rank", pairs]["median_rank"] < pairs
