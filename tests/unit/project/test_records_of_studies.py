"""The records that are kept with the project are whole, and stand for runs of its parameters."""

import pytest
from plans import PARAMS, plan

from vsepp.report.records import Study

RESULTS = PARAMS.parent / "docs/results"


@pytest.mark.parametrize(("study", "count"), [("flickr8k", 263), ("flickr8k-gpu", 16)])
def test_every_record_is_as_it_was_kept(study, count):
    assert len(Study(RESULTS / study).read_all()) == count


def test_every_record_of_flickr8k_stands_for_a_run():
    plans = [
        plan(preset="flickr8k", papers=[paper])
        for paper in ("flickr8k_study", "objectives", "vse_infinity_study")
    ]
    recorded = {
        (run, seed) for planned in plans for run, model in planned.models.items() for seed in model.recorded
    }
    assert recorded == set(Study(RESULTS / "flickr8k").models)
