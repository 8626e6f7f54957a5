"""Expected values: what they hold a score to, and what is refused in their file."""

import pytest
from plans import PARAMS, plan
from reported import I2T, T2I

from vsepp.base.errors import VseppError
from vsepp.pipeline.plan import expected_of
from vsepp.report.expected import Expected, counted, read_expected, states_of

HEAD = "run,protocol,seed,metric,expected,tolerance\n"


@pytest.fixture
def records(models):
    """A run that is sound, and one that ranks like chance."""
    models.add("sound", protocol="1K")
    models.add("lost", (0.2, 1.0, 2.0, 50, 50.0), (0.2, 1.0, 2.0, 50, 50.0), protocol="1K")
    return models.records


@pytest.mark.parametrize(
    "run, tolerance, word",
    [
        ("sound", 1.0, "within tolerance"),
        ("sound", 0.9, "outside"),
        ("sound", "chance", "above chance"),
        ("lost", "chance", "outside"),
        ("lost", "nothing", "not held"),
    ],
)
def test_a_score_is_held_to_what_its_row_says(records, run, tolerance, word):
    value = records[run][0].metrics["1K"]["rsum"]
    for off in (-1, 1):
        (state,) = states_of([Expected(run, "1K", 0, "rsum", value + off, tolerance)], records)
        assert (state.word, state.value) == (word, value)


def test_scores_are_counted_without_those_that_were_not_run(records, monkeypatch):
    monkeypatch.setenv("UV", "/bin/uv")
    rsum = sum(I2T[:3]) + sum(T2I[:3])
    rows = [
        Expected("sound", "1K", 0, "rsum", rsum, 1.0),
        Expected("lost", "1K", 0, "rsum", 0.0, "nothing"),
        Expected("gone", "1K", 0, "rsum", 0.0, 1.0),
        Expected("sound", "1K", 1, "rsum", 0.0, 1.0),
        Expected("sound", "5K", 0, "rsum", 0.0, 1.0),
    ]
    assert counted(states_of(rows, records)) == "2 scores: 1 within tolerance, 1 not held"
    outside = Expected("sound", "1K", 0, "i2t_r1", 0.0, 1.0)
    said = "2 scores: 1 within tolerance, 1 outside: `uv run vsepp verify --scores` names them"
    assert counted(states_of([rows[0], outside], records)) == said
    assert counted([]) == ""


@pytest.mark.parametrize(
    "line, named",
    [
        ("a,1K,0,rsum,1,2,3\n", "more cells than columns"),
        ("a,1K,zero,rsum,1,2\n", "seed"),
        ("a,1K,0,rsum,1,much\n", "tolerance"),
    ],
)
def test_a_wrong_row_is_named(tmp_path, line, named):
    path = tmp_path / "expected.csv"
    path.write_text(HEAD + "b,1K,0,rsum,1,chance\n" + line)
    with pytest.raises(VseppError, match=rf"expected\.csv, line 3: .*{named}"):
        read_expected(path)


def test_the_shipped_values_are_of_runs_that_there_are():
    rows = read_expected(PARAMS.parent / "docs/results/mini/expected.csv")
    made = plan(seeds=[0, 1, 2])
    for row in rows:
        assert row.protocol in made.models[row.run].protocols
        assert row.seed in made.models[row.run].specs
    assert len([row for row in rows if row.seed == 0]) == 105


def test_another_variant_has_a_file_of_its_own():
    found = [expected_of(plan(fidelity=fidelity).parameters).parent.name for fidelity in ("paper", "code")]
    assert found == ["mini", "mini-code"]
