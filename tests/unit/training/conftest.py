import own_loss
import pytest
from installed import install


@pytest.fixture(scope="session")
def package(tmp_path_factory):
    """Folder of an installed package with a loss."""
    folder = tmp_path_factory.mktemp("package")
    with pytest.MonkeyPatch.context() as patch:
        install(patch, folder, "vsepp.losses", own_loss.RUN.loss.name, own_loss.SOURCE)
        yield folder
