"""Every test and every process that a test starts has one thread for tensors and can import the modules of `support`."""

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("page_checks")
# A machine that is busy with other work is slow, and nothing else is wrong with it.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# This process, and each one that a test starts, would compile torch and the tests anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Commands that are printed begin with `uv run` where a command was started with it.
os.environ.pop("UV", None)

# A shell lets what it starts in the background ignore Ctrl-C, and so would each process that a test stops.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Small work is slower on more threads.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

_FOLDERS = (str(Path(__file__).parent / "support"), os.environ.get("PYTHONPATH"))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, _FOLDERS))

# What takes longest; and `reproduced` is made by one process at the start, while another does what needs it not.
_FIRST = [
    Path(__file__).parent / part
    for part in (
        "mini",
        "dvc/test_versions_doc.py",
        "dvc/test_hazards.py",
        "unit/pipeline",
        "unit/evaluation",
        "unit/apps",
        "workflow",
    )
]


def pytest_collection_modifyitems(items):
    """Order the files."""

    def turn(item):
        return next((k for k, part in enumerate(_FIRST) if item.path.is_relative_to(part)), len(_FIRST))

    items.sort(key=turn)


def pytest_runtest_setup(item):
    """A test that is marked `tex` needs an engine."""
    if item.get_closest_marker("tex") and not shutil.which("pdflatex"):
        pytest.skip("needs TeX: apt-get install texlive-latex-base texlive-latex-recommended lmodern")


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """Folder of a few images with all artefacts that trainings read; see `tiny_corpus`."""
    import tiny_corpus

    return tiny_corpus.build(tmp_path_factory.mktemp("tiny") / "corpus")


@pytest.fixture(scope="session")
def cuda():
    """The GPU, for tests marked `gpu`."""
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs CUDA")
    return torch.device("cuda", torch.cuda.current_device())


@pytest.fixture(scope="session")
def reproduced(tmp_path_factory):
    """The project with the preset `tiny`, reproduced by `dvc repro` and committed: tests change copies, never this one.

    Made once for all processes of the tests, and for all calls of pytest that name one folder in `REPRODUCED`.
    """
    from projects import Project, make_tiny_project

    own = tmp_path_factory.getbasetemp()
    shared = Path(
        os.environ.get("REPRODUCED") or (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own)
    )
    folder, done = shared / "reproduced" / "vsepp", shared / "reproduced" / "done"
    with FileLock(shared / "reproduced.lock"):
        if not done.exists():
            assert not folder.exists(), "it could not be made, see the test that failed first"
            project = make_tiny_project(folder)
            project.call("dvc", "repro")
            project.commit("Results")
            done.touch()
    return Project(folder)


@pytest.fixture(scope="session")
def test_split(reproduced):
    """Encoded photographs and captions of the test split, in file order."""
    return reproduced.of_test_split("tiny")


@pytest.fixture
def project(reproduced, tmp_path):
    """A copy of the reproduced project, times of files included, that a test may change."""
    return reproduced.copy(tmp_path / "vsepp")


@pytest.fixture(scope="session")
def browser():
    """Chromium of this machine."""
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright: uv sync --group dev")
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield started
        started.close()
