"""Bytes that tests of downloads and containers read."""

import numpy as np
import pytest


@pytest.fixture(scope="session")
def content():
    """Three megabytes without a pattern."""
    return np.random.default_rng(0).bytes(3_000_000)
