"""Expected values: how they are set, what they hold a score to, and what is logged."""

import shutil
from dataclasses import replace
from statistics import stdev

import pytest
from plans import PARAMS, plan
from reported import DIRTY, I2T, T2I

from vsepp.cli import main
from vsepp.config.plan import expected_file
from vsepp.errors import VseppError
from vsepp.reporting.expected import (
    SCORES,
    TIMES,
    Expected,
    counts,
    expected_state,
    failures,
    matrix,
    moved,
    read_expected,
    set_expected,
    update_expected,
    worst,
    write_expected,
)

LEVELS = {
    "steady": (41, 42, 41.4),
    "calm": (50, 50.4, 50.2),
    "wild": (41, 33, 37),
    "fragile": (41, 10, 25),
    "lost": (0.2, 0.4, 0.2),
}
SCALED = ("wild", "fragile", "lost")


def i2t(level, scale=1.0):
    return (level, *(scale * value for value in I2T[1:]))


@pytest.fixture
def study_of(models):
    """Three seeds of five runs: two stable ones, one that varies, one that varies much, one at chance."""
    for run, levels in LEVELS.items():
        for seed, level in enumerate(levels):
            scale = level / 41 if run in SCALED else 1.0
            models.add(run, i2t(level, scale), tuple(scale * value for value in T2I), "1K", seed)
    return models.records


@pytest.fixture
def rows(study_of):
    return set_expected([], study_of)


def of(rows, run, metric="i2t_r1", seed=0):
    (row,) = [row for row in rows if (row.run, row.metric, row.seed) == (run, metric, seed)]
    return row


def test_values_are_set_for_each_run_seed_and_metric(rows):
    assert len(rows) == len(LEVELS) * 3 * len(SCORES)
    row = of(rows, "steady", seed=1)
    assert (row.expected, row.held_to, row.commit, row.cause) == (42, "tolerance", "abc", "")


def test_the_tolerance_is_the_spread_of_the_seeds_and_not_less_than_the_pooled_one(rows):
    spreads = {run: stdev(LEVELS[run]) for run in ("steady", "calm")}
    pooled = ((spreads["steady"] ** 2 + spreads["calm"] ** 2) / 2) ** 0.5
    assert of(rows, "steady").tolerance == pytest.approx(TIMES * spreads["steady"], abs=0.006)
    assert of(rows, "calm").tolerance == pytest.approx(TIMES * pooled, abs=0.006)


def test_what_is_unstable_is_held_to_chance_and_what_is_at_chance_to_nothing(rows):
    wild, fragile, lost = (of(rows, run) for run in ("wild", "fragile", "lost"))
    assert (wild.held_to, wild.tolerance) == ("chance", None)
    assert wild.cause.startswith("unstable: rsum varied by ")
    assert (fragile.held_to, fragile.tolerance) == ("nothing", None)
    assert fragile.cause.startswith("fragile: rsum varied by ")
    assert (lost.held_to, lost.tolerance, lost.cause) == ("nothing", None, "ranks like chance")


def test_a_collapsed_seed_is_held_to_nothing_only_where_it_ranks_like_chance(models):
    models.add("gone", i2t(0.2, 0.01), (0.2, 1.0, 2.0, 100, 100), "1K", collapsed=True)
    assert of(set_expected([], models.records), "gone").cause == "collapsed"


def test_one_seed_is_held_to_chance(models):
    models.add("alone", protocol="1K")
    row = of(set_expected([], models.records), "alone")
    assert (row.held_to, row.cause) == ("chance", "one seed")


def test_scores_as_they_were_are_ok(rows, study_of, context):
    states = expected_state(rows, study_of, replace(context, seeds=(0, 1, 2)))
    assert counts(states) == [("as expected", len(rows))]
    assert {state.row.seed for state in expected_state(rows, study_of, context)} == {0}


@pytest.fixture
def now(models, tmp_path):
    """Other results for seed 0 of some runs."""

    def made(**levels):
        shutil.rmtree(models.root, ignore_errors=True)
        models.specs.clear()
        for run, level in levels.items():
            models.add(run, i2t(level, level / 41 if run in SCALED else 1.0), T2I, "1K")
        return models.records

    return made


@pytest.mark.parametrize(
    ("level", "word"),
    [
        (41.04, "as expected"),
        (41.5, "within tolerance"),
        (40.5, "within tolerance"),
        (47, "not as expected"),
        (35, "not as expected"),
    ],
)
def test_a_tolerance_holds_on_both_sides(rows, now, context, level, word):
    states = expected_state(rows, now(steady=level), context)
    (state,) = [state for state in states if (state.row.run, state.row.metric) == ("steady", "i2t_r1")]
    assert (state.word, state.value) == (word, level)


def test_what_is_held_to_chance_may_be_anything_above_it(rows, now, context):
    def word(records, run):
        return worst(s for s in expected_state(rows, records, context) if s.row.run == run)

    assert word(now(wild=90), "wild") == "within tolerance"
    assert word(now(lost=30), "lost") == "within tolerance"
    assert word(now(steady=41), "wild") == "not run"


def test_a_run_that_is_held_to_chance_fails_at_chance(rows, models, now, context):
    now()
    models.add("wild", i2t(0.4, 0.01), (0.2, 1.0, 2.0, 100, 100), "1K")
    states = expected_state(rows, models.records, context)
    found = [state for state in states if state.row.run == "wild"]
    assert {state.word for state in found} == {"not as expected"}
    assert all(state.row.cause.startswith("unstable") for state in found)


def test_the_file_is_read_as_it_was_written(rows, tmp_path):
    path = tmp_path / "a/expected.csv"
    write_expected(path, rows)
    assert set(read_expected(path)) == set(rows)
    before = path.read_bytes()
    write_expected(path, reversed(read_expected(path)))
    assert path.read_bytes() == before


def test_an_update_keeps_what_did_not_move_with_its_commit_and_cause(rows, study_of, now, models):
    noted = [replace(row, commit="old", cause="by hand") if row.run == "calm" else row for row in rows]
    again = set_expected(noted, study_of)
    assert set(again) == set(noted)
    assert moved(noted, again) == []
    now(steady=60, calm=50)
    models.add("new", I2T, T2I, "1K")
    later = set_expected(noted, models.records)
    assert of(later, "steady").expected == 60
    assert of(later, "steady").tolerance == of(rows, "steady").tolerance, (
        "one seed says nothing of the spread"
    )
    assert of(later, "calm") == of(noted, "calm")
    assert of(later, "wild", seed=2) == of(rows, "wild", seed=2), "which was not run now"
    lines = moved(noted, later)
    assert [line.partition(":")[0] for line in lines] == ["- steady, 1K", "- new values"]
    assert lines[0].endswith("(seed 0)")
    assert lines[1] == "- new values: new"


def test_an_update_of_some_runs_keeps_their_tolerances(rows, study_of):
    """The study's stable runs together give the least tolerance, and not all of these runs are here."""
    calm = {"calm": [replace_scores(record, 0.3) for record in study_of["calm"]]}
    later = set_expected(rows, calm)
    assert of(later, "calm").expected == pytest.approx(of(rows, "calm").expected + 0.3)
    assert of(later, "calm").tolerance == of(rows, "calm").tolerance


def replace_scores(record, points):
    metrics = {
        protocol: {**values, "i2t": {**values["i2t"], "r1": values["i2t"]["r1"] + points}}
        for protocol, values in record.kept.metrics.items()
    }
    return replace(record, kept=replace(record.kept, metrics=metrics))


def test_an_update_logs_what_moved_under_its_commit(study_of, now, tmp_path, context):
    file, log = tmp_path / "docs/results/mini/expected.csv", tmp_path / "scores.md"
    update_expected(file, log, study_of, "1" * 40)
    assert log.read_text().startswith(
        "\n## mini, 111111111111\n\n- new values: calm, fragile, lost, steady and wild\n"
    )
    before = log.read_text()
    update_expected(file, log, study_of, "2" * 40)
    assert log.read_text() == before, "nothing moved"
    changed = now(steady=60)
    states = expected_state(read_expected(file), changed, context)
    assert failures(states, context)[0].startswith(
        "steady, 1K, seed 0, i2t_r1: no known cause; expected since abc; made by: snake"
    )
    update_expected(file, log, changed, "3" * 40, "A better way.")
    added = log.read_text().removeprefix(before)
    assert added.startswith("\n## mini, 333333333333\n\nA better way.\n\n- steady, 1K: rsum ")
    assert failures(expected_state(read_expected(file), changed, context), context) == []


def test_values_are_not_set_from_uncommitted_code(models):
    models.add("a", git=DIRTY)
    with pytest.raises(VseppError, match="made with uncommitted changes; commit them"):
        set_expected([], models.records)


def test_the_matrix_has_a_line_for_each_model_and_protocol(rows, study_of, context):
    states = expected_state(rows, study_of, context)
    heading, *lines = matrix(states)
    assert heading == ("run", "protocol", "seed", "caption R@1", "image R@1", "rsum", "state")
    assert [line[0] for line in lines] == list(LEVELS)
    assert lines[2][3].endswith("held to chance)")


def test_a_score_that_is_not_as_expected_comes_with_the_command_that_makes_it(rows, now, context):
    context = replace(context, settings="fidelity=paper 'seeds=[0]' label=mine")
    states = expected_state(rows, now(steady=60), context)
    assert failures(states, context)[0].endswith(
        "; made by: snakemake --cores all --config preset=mini fidelity=paper 'seeds=[0]' label=mine -- evaluation-target"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("run,seed\n", "expected the columns run, protocol, seed, metric"),
        ("{h}a,1K,zero,rsum,1,,chance,c,\n", "line 2: seed: got 'zero'"),
        ("{h}a,1K,0,rsum,much,,chance,c,\n", "line 2: expected: got 'much'"),
        (
            "{h}a,1K,0,r1,1,,chance,c,\n",
            "line 2: metric: got 'r1'; input should be 'i2t_r1', 't2i_r1' or 'rsum'",
        ),
        (
            "{h}a,1K,0,rsum,1,,hope,c,\n",
            "line 2: held_to: got 'hope'; input should be 'tolerance', 'chance' or 'nothing'",
        ),
        ("{h}a,1K,0,rsum,1,,tolerance,c,\n", "expected a tolerance if held_to is"),
        ("{h}a,1K,0,rsum,1,2,chance,c,\n", "expected a tolerance if held_to is"),
        ("{h}a,1K,0,rsum\n", "line 2: expected: got None"),
        ("{h}a,1K,0,rsum,1,,chance,c,,more\n", "line 2: more cells than columns: unknown key"),
        ("{h}a,1K,0,rsum,1,,chance,c,\na,1K,0,rsum,2,,chance,c,\n", "a 1K 0 rsum is there twice"),
    ],
)
def test_a_wrong_file_is_named_with_its_line(tmp_path, text, said):
    path = tmp_path / "expected.csv"
    path.write_text(text.format(h="run,protocol,seed,metric,expected,tolerance,held_to,commit,cause\n"))
    with pytest.raises(VseppError, match=said) as caught:
        read_expected(path)
    assert str(path) in str(caught.value)
    with pytest.raises(VseppError, match="no such file; no values were set"):
        read_expected(tmp_path / "nothing.csv")


def test_the_file_of_a_study(tmp_path):
    assert expected_file(tmp_path, "mini", "paper") == tmp_path / "results/mini/expected.csv"
    assert expected_file(tmp_path, "flickr8k", "code") == tmp_path / "results/flickr8k-code/expected.csv"


def test_the_shipped_values_are_of_runs_that_there_are():
    rows = read_expected(PARAMS.parent / "docs/results/mini/expected.csv")
    made = plan(seeds=[0, 1, 2])
    for row in rows:
        assert row.protocol in made.models[row.run].protocols
        assert row.seed in made.models[row.run].specs
    assert all(row.commit and isinstance(row, Expected) for row in rows)
    assert sum(row.held_to == "tolerance" for row in rows) > len(rows) / 2


def test_the_command_says_what_is_missing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["expected", "--params", str(PARAMS)]) == 1
    assert "preset mini: nothing was evaluated yet" in capsys.readouterr().err
