"""A tiny repository with all its results, made once by `dvc repro`, and cheap copies of it."""

import pytest
from repository import make_tiny_repository


@pytest.fixture(scope="session")
def tiny_repository(tmp_path_factory):
    """The preset `tiny`, reproduced by `dvc repro` and committed. Shared: tests change copies, never this one."""
    repository = make_tiny_repository(tmp_path_factory.mktemp("dvc") / "vsepp")
    repository.repro()
    repository.commit("Results")
    return repository


@pytest.fixture
def repository(tiny_repository, tmp_path):
    """A copy of the reproduced repository, times of files included, that a test may change."""
    return tiny_repository.copy(tmp_path / "vsepp")
