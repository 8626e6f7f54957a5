"""`vsepp evaluate --truth`, from files that are fetched, kept or brought."""

import json

import numpy as np
import pytest
from cxc_files import rated
from embedded_sets import embedded
from file_server import Served, serve
from plans import edit
from projects import copy_of_the_project

OWNER = np.array([0, 0, 1, 1, 2, 2])


FILES = rated(
    own=[(10 + row, image) for row, image in enumerate(OWNER)],
    sits=[(10, 2, 3.0), (11, 2, 2.9)],
    sts=[(10, 12, 3.5)],
    sis=[(0, 2, 2.5)],
)


@pytest.fixture
def project(tmp_path):
    """A copy with embeddings of three images, and CxC's files at a server of this machine."""
    copy = copy_of_the_project(tmp_path / "project")
    rng = np.random.default_rng(0)
    ids = {"image_ids": np.arange(3), "caption_ids": np.arange(10, 16)}
    tested = embedded(rng.standard_normal((3, 4)), rng.standard_normal((6, 4)), OWNER, **ids)
    tested.save(copy.folder / "mine.npz")
    with serve({name: Served(text.encode()) for name, text in FILES.items()}) as server:
        sources = {name: {"mirrors": [server.url(name)]} for name in FILES}
        edit(copy.folder / "params/datasets.yaml", {"sources": sources})
        yield copy, server


def test_files_of_a_truth_are_fetched_once_and_noted(project):
    copy, server = project
    copy.vsepp("evaluate", "mine.npz", "--truth", "own", "--truth", "cxc", "--output", "out")
    metrics = json.loads((copy.folder / "out/metrics.json").read_text())
    assert list(metrics) == ["5K", "cxc"]
    ranks = np.load(copy.folder / "out/ranks.npz")
    assert len(ranks["cxc_i2t"]) == 7 and len(ranks["cxc_i2i"]) == 2  # 3.0 and 2.5 are enough, 2.9 is not
    asked = len(server.requests)
    assert asked == 3
    assert set(FILES) <= set((copy.folder / "params/sources.lock.yaml").read_text().replace(":", "").split())
    output = copy.vsepp("evaluate", "mine.npz", "--truth", "cxc")
    assert len(server.requests) == asked
    assert "truth cxc: 1 fold of 3 images, 6 captions" in output and "SITS: Spearman" in output
