"""The paper's plan, and its jobs."""

from pathlib import Path

import pytest

from vsepp.config import make_plan
from vsepp.costs.work import jobs_of

PARAMS = Path(__file__).resolve().parents[3] / "params"


@pytest.fixture(scope="module")
def paper():
    return make_plan(PARAMS, {"preset": "paper"})


@pytest.fixture(scope="module")
def jobs(paper):
    return jobs_of(paper)
