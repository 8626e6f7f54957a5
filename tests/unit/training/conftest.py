import own_loss
import pytest
import tiny_corpus
import torch
from installed import install


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
    """Folder of an installed package with a loss."""
    folder = tmp_path_factory.mktemp("package")
    with pytest.MonkeyPatch.context() as patch:
        install(patch, folder, "vsepp.losses", own_loss.RUN.loss.name, own_loss.SOURCE)
        yield folder
