import sys

import own_loss
import pytest
import tiny_corpus
import torch


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    return tiny_corpus.build(tmp_path_factory.mktemp("tiny") / "corpus")


@pytest.fixture(scope="session")
def package(tmp_path_factory):
    """Folder of an installed package with a loss of its own."""
    folder = str(own_loss.install(tmp_path_factory.mktemp("package")))
    sys.path.insert(0, folder)
    yield folder
    sys.path.remove(folder)
