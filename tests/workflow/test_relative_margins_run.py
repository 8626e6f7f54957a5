"""One training with relative margins through the DAG: its captions' vectors are made once, and nothing else is made again."""

import numpy as np
import pytest
from dag import of

from vsepp.data.vectors import CaptionVectors

pytestmark = pytest.mark.workflow
RUN, FIFTH = "coco-relative-margin", "coco-relative-margin-fifth"


def test_a_relative_margin_run_makes_its_vectors_and_nothing_again(project):
    before = project.manifests()
    config = {"papers": ["relative_margins"], "only": [RUN]}
    project.run(**config)
    (vectors,) = {folder for folder in project.remade(before) if "-captions-tfidf" in folder}
    assert project.remade(before) == {vectors, *of(RUN), "reports/tiny/paper/relative_margins"}
    found = CaptionVectors.load(project.folder / vectors)
    assert len(found) and np.isfinite(found.values).all() and (found.values > 0).all()
    figures = project.folder / "reports/tiny/paper/relative_margins/figures"
    assert (figures / "coco-epochs.svg").is_file()
    # Another run reads the same vectors; without an override nothing is left to do.
    assert project.planned(**config) == {}
    more = project.planned(**config | {"only": [RUN, FIFTH]})
    assert more == {"train": 1, "evaluate": 1, "report": 1}
    project.said("vsepp", "verify", "--config", 'papers=["relative_margins"]', f'only=["{RUN}"]')
