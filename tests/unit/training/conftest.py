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
