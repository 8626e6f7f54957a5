"""Expected values: what they hold a score to, and what is refused in their file."""

from dataclasses import replace

import pytest
from plans import PARAMS, plan
from trained_models import I2T, T2I

from vsepp.base.errors import VseppError
from vsepp.report.expected import (
    ABOVE,
    EQUAL,
    NOT_HELD,
    OUTSIDE,
    WITHIN,
    Expected,
    KnownRanks,
    counted,
    machine_of,
    read_expected,
    read_known_ranks,
    states_of,
    tolerances,
)
from vsepp.report.records import ranks_digest


@pytest.fixture
def records(models):
    """A run that is sound, and one that ranks like chance."""
    models.add("sound", protocol="1K")
    models.add("lost", (0.2, 1.0, 2.0, 50, 50.0), (0.2, 1.0, 2.0, 50, 50.0), protocol="1K")
    return models.records


@pytest.mark.parametrize(
    "run, tolerance, word",
    [("sound", "chance", ABOVE), ("lost", "chance", OUTSIDE), ("lost", "nothing", NOT_HELD)],
)
def test_a_score_is_held_to_what_its_row_says(records, run, tolerance, word):
    value = records[run][0].metrics["1K"]["rsum"]
    (state,) = states_of([Expected(run, "1K", 0, "rsum", value + 100, tolerance)], [], records)
    assert (state.word, state.value) == (word, value)


def test_a_score_lies_within_five_deviations_of_its_seeds_or_of_all_runs_whichever_is_larger():
    seeds = {"calm": (100.0, 100.2, 100.4), "restless": (50.0, 54.0, 58.0)}
    rows = [
        Expected(run, "1K", seed, "rsum", value, "seeds")
        for run, values in seeds.items()
        for seed, value in enumerate(values)
    ]
    rows.append(Expected("lost", "1K", 0, "rsum", 0.0, "nothing"))
    pooled = ((0.2**2 + 4.0**2) / 2) ** 0.5
    allowed = tolerances(rows)
    assert allowed["calm", "1K", "rsum"] == pytest.approx((100.2, 5 * pooled))
    assert allowed["restless", "1K", "rsum"] == pytest.approx((54.0, 5 * 4.0))
    assert len(allowed) == 2


@pytest.mark.parametrize("off, word", [(1.9, WITHIN), (2.1, OUTSIDE)])
def test_a_score_is_held_to_the_mean_of_its_seeds(records, off, word):
    mean, sd = records["sound"][0].metrics["1K"]["rsum"] + off, 0.4
    rows = [
        Expected("sound", "1K", seed, "rsum", mean + sd * side, "seeds")
        for seed, side in enumerate((-1, 0, 1))
    ]
    (state,) = states_of(rows, [], records)
    assert state.word == word


def on(model, **facts):
    """The model, as trained and evaluated with such facts."""
    computed = {"facts": {"device": "cpu", "threads": 1, "instructions": "AVX512", **facts}}
    versions = {"versions": {"torch": "2", "numpy": "1"}}
    return replace(
        model,
        trained={**model.trained, **computed, **versions},
        evaluated={**model.evaluated, **computed, **versions},
    )


def test_on_a_kind_of_machine_that_was_tried_the_ranks_are_the_same(records):
    machine = "a processor, AVX512, 1 thread, torch 2, numpy 1"
    model = records["lost"][0]
    row = Expected("lost", "1K", 0, "rsum", 0.0, "nothing")
    same = ranks_digest(model.arrays)[:12]
    for facts, ranks, word in (
        ({}, same, EQUAL),
        ({}, "0" * 12, OUTSIDE),
        ({"instructions": "AVX2"}, "0" * 12, NOT_HELD),
        ({"threads": 2}, "0" * 12, NOT_HELD),
        ({"device": "NVIDIA"}, "0" * 12, NOT_HELD),
    ):
        known = [KnownRanks(machine, "lost", 0, ranks)]
        (state,) = states_of([row], known, {"lost": [on(model, **facts)]})
        assert state.word == word, facts
    assert machine_of(model) == "", "an earlier manifest does not name the instructions"


def test_scores_are_counted_without_those_that_were_not_run(records, monkeypatch):
    monkeypatch.setenv("UV", "/bin/uv")
    rsum = sum(I2T[:3]) + sum(T2I[:3])
    rows = [
        Expected("sound", "1K", 0, "rsum", rsum, "seeds"),
        Expected("lost", "1K", 0, "rsum", 0.0, "nothing"),
        Expected("gone", "1K", 0, "rsum", 0.0, "seeds"),
        Expected("sound", "1K", 1, "rsum", rsum, "seeds"),
        Expected("sound", "5K", 0, "rsum", 0.0, "seeds"),
    ]
    assert counted(states_of(rows, [], records)) == "2 scores: 1 within tolerance, 1 not held"
    outside = Expected("sound", "1K", 0, "i2t_r1", 0.0, "seeds")
    line = "2 scores: 1 within tolerance, 1 outside: `uv run vsepp verify --scores` names them"
    assert counted(states_of([rows[0], outside], [], records)) == line
    assert counted([]) == ""


def test_a_wrong_row_is_named(tmp_path):
    path = tmp_path / "expected.csv"
    path.write_text("run,protocol,seed,metric,expected,tolerance\nb,1K,0,rsum,1,chance\na,1K,0,rsum,1,much\n")
    with pytest.raises(VseppError, match=r"expected\.csv, line 3: .*tolerance"):
        read_expected(path)


def test_the_shipped_values_are_of_runs_that_there_are():
    file = PARAMS.parent / "docs/results/mini/expected.csv"
    rows, planned = read_expected(file), plan(seeds=[0, 1, 2])
    for row in rows:
        assert row.protocol in planned.models[row.run].protocols
        assert row.seed in planned.models[row.run].specs
    assert len([row for row in rows if row.seed == 0]) == 105
    assert {(row.run, row.seed) for row in read_known_ranks(file)} == {(row.run, 0) for row in rows}
