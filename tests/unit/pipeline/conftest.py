"""Parameters that tests of the pipeline change."""

import plans
import pytest


@pytest.fixture
def params(tmp_path):
    """A copy of the parameters, to be changed."""
    return plans.copied(tmp_path)
