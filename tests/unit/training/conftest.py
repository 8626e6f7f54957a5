"""A package with components of its own, and features that are sets."""

import numpy as np
import own_loss
import pytest
from packages import MOMENTUM, OWN_HEAD, install
from tiny_corpus import artefacts


@pytest.fixture(scope="session")
def package(tmp_path_factory):
    """Folder of an installed package with a loss, an optimiser and an image head."""
    folder = tmp_path_factory.mktemp("package")
    with pytest.MonkeyPatch.context() as patch:
        install(patch, folder, "vsepp.losses", own_loss.RUN.loss.name, own_loss.SOURCE)
        install(patch, folder, "vsepp.training.optimisers", "momentum", MOMENTUM)
        install(patch, folder, "vsepp.models.heads", "own", OWN_HEAD)
        yield folder


@pytest.fixture(scope="session")
def sets(corpus, tmp_path_factory):
    """Features of four vectors an image, none of them alike."""
    folder = tmp_path_factory.mktemp("sets")
    alone = np.load(artefacts(corpus)["features"] / "features.npy")
    rng = np.random.default_rng(0)
    values = alone + rng.standard_normal((len(alone), 4, alone.shape[2])).astype(np.float32) * alone.std()
    np.save(folder / "features.npy", values)
    return folder
