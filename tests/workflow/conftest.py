"""The runs of the DAG that the tests look at."""

import shutil
import tempfile
from pathlib import Path

import pytest
from dag import TINY, Workflow, copy_of_the_project

# The run of the mini preset takes minutes: it begins when the session does, beside the other tests.
_MINI = pytest.StashKey()


def pytest_collection_finish(session):
    if session.config.option.collectonly or not any("mini" in item.fixturenames for item in session.items):
        return
    folder = Path(tempfile.mkdtemp(prefix="vsepp-mini-"))
    workflow = Workflow(folder)
    log = (folder / "snakemake.log").open("w+")
    session.config.stash[_MINI] = workflow, workflow.start("reproduce_tables", output=log), log


def pytest_unconfigure(config):
    started = config.stash.get(_MINI, None)
    if started is not None:
        workflow, process, log = started
        if process.poll() is None:
            process.terminate()
            process.wait()
        log.close()
        shutil.rmtree(workflow.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def mini(request):
    """The mini preset, whole, from nothing."""
    workflow, process, log = request.config.stash[_MINI]
    process.wait()
    log.seek(0)
    workflow.output = log.read()
    assert process.returncode == 0, workflow.output
    return workflow


@pytest.fixture(scope="session")
def tiny_base(tmp_path_factory):
    """A finished tiny run of VSE0, VSE++ and a fine-tuned VSE++, from a checkout that tests may edit a copy of."""
    base = tmp_path_factory.mktemp("tiny")
    only = ["flickr-vse0-rc", "flickr-vsepp-rc", "flickr-vsepp-rc-ft", "coco-orderpp-10c-rv"]
    workflow = Workflow(base / "work", copy_of_the_project(base / "source"), {**TINY, "only": only})
    workflow.folder.mkdir()
    workflow.run()
    return workflow


@pytest.fixture
def tiny(tiny_base, tmp_path):
    """A copy of the finished tiny run, checkout included, that a test may change."""
    shutil.copytree(tiny_base.source, tmp_path / "source")
    shutil.copytree(tiny_base.folder, tmp_path / "work", symlinks=True)
    return Workflow(tmp_path / "work", tmp_path / "source", dict(tiny_base.config))
