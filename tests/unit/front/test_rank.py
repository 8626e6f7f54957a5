"""Candidates are ranked in blocks as in one matrix."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from pages import DOCS, blocks, one

import vsepp
from vsepp.base.errors import VseppError


@given(
    arrays.arrays(
        np.float32,
        st.tuples(st.integers(1, 4), st.integers(1, 30)),
        elements=st.sampled_from([-1, 0, 0.5, 2]),
    ),
    st.lists(st.integers(0, 30), max_size=4),
    st.integers(1, 40),
)
def test_blocks_rank_as_the_whole(scores, cuts, k):
    blocks = [
        block
        for block in np.split(scores, sorted(min(cut, scores.shape[1]) for cut in cuts), axis=1)
        if block.size
    ]
    expected = [sorted(range(len(row)), key=lambda column: -row[column])[:k] for row in scores]
    assert vsepp.rank(iter(blocks), k).tolist() == expected
    assert vsepp.rank(scores, k).tolist() == expected


def test_blocks_without_scores_or_with_nan_are_refused():
    with pytest.raises(VseppError, match="none"):
        vsepp.rank(iter([]), k=1)
    with pytest.raises(VseppError, match=r"candidate 3 .*NaN"):
        vsepp.rank(iter([np.zeros((2, 2)), np.array([[0, 0], [1, np.nan]])]), k=1)


def test_the_rows_that_the_page_finds_are_those_of_all_scores(tmp_path, monkeypatch):
    """Three files; one row is there three times, and its copies keep their order."""
    pytest.importorskip("efficientnet_lite_pytorch")
    model = vsepp.load("flickr8k", device="cpu")
    rows = np.random.default_rng(0).standard_normal((900, model.dim), np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    asked = model.embed_captions(["two dogs on the grass"])
    rows[[5, 60, 899]] = asked
    (tmp_path / "vectors").mkdir()
    for number, part in enumerate(np.split(rows, [10, 650])):
        np.save(tmp_path / f"vectors/{number}.npy", part)
    monkeypatch.chdir(tmp_path)
    variables = {}
    exec(one(blocks((DOCS / "using.md").read_text(encoding="utf-8")), "from pathlib import Path"), variables)
    order = np.argsort(-(rows @ asked[0]))
    assert variables["best"][0, :3].tolist() == [5, 60, 899]
    assert variables["best"][0, 3:].tolist() == order[3:10].tolist()
