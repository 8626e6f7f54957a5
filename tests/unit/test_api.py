"""The library takes arguments whatever holds them, names what holds no numbers, and ranks candidates in blocks as in one matrix."""

import hypothesis
import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from page_blocks import DOCS, block, blocks
from PIL import Image

import vsepp
from vsepp.base.errors import VseppError

EYE = torch.eye(4)
TAKEN = {
    "bfloat16": EYE.bfloat16(),
    "sparse": EYE.to_sparse(),
    "rows that are tensors": list(EYE.clone().requires_grad_()),
    "lists": EYE.tolist(),
    "double": EYE.double(),
}
REFUSED = {
    "meta": (EYE.to("meta"), r"meta tensor \(4, 4\)"),
    "nothing": (None, "None"),
    "objects": (np.array(EYE.tolist(), object), r"\(4, 4\) of object"),
    "quantised": (torch.quantize_per_tensor(EYE, 0.1, 0, torch.qint8), "quantised"),
    "nested": (torch.nested.nested_tensor([EYE[0], EYE[0, :3]], layout=torch.jagged), "nested"),
}


@pytest.fixture(scope="module")
def model():
    pytest.importorskip("efficientnet_lite_pytorch")
    return vsepp.load("flickr8k", device="cpu")


@pytest.mark.parametrize("case", TAKEN)
def test_numbers_are_taken_in_whatever_holds_them(case, model):
    value = TAKEN[case]
    assert vsepp.evaluate(value, EYE, torch.arange(4)).metrics.rsum == 600
    assert vsepp.rank(value, k=1).ravel().tolist() == [0, 1, 2, 3]
    wide = torch.zeros(4, model.joint.feature_dim)
    wide[:, :4] = EYE
    same = wide.to(value.dtype) if isinstance(value, torch.Tensor) and not value.is_sparse else wide.tolist()
    np.testing.assert_array_equal(model.embed_features(same), model.embed_features(wide.numpy()))


@pytest.mark.parametrize("case", REFUSED)
def test_what_holds_no_numbers_is_named_with_its_shape(case, model):
    value, named = REFUSED[case]
    for name, call in {
        "images": lambda: vsepp.evaluate(value, EYE, range(4)),
        "captions": lambda: vsepp.evaluate(EYE, value, range(4)),
        "caption_to_image": lambda: vsepp.evaluate(EYE, EYE, value),
        "scores": lambda: vsepp.rank(value),
        "features": lambda: model.embed_features(value),
    }.items():
        with pytest.raises(VseppError, match=rf"^{name}: .*{named}"):
            call()
    with pytest.raises(VseppError, match=f"^images: .*{named}"):
        model.scores(value, np.zeros((1, model.dim)))


def test_numbers_of_any_type_are_scored(model):
    images, captions = np.eye(2, model.dim), np.eye(3, model.dim)
    expected = model.scores(images.astype("f"), captions.astype("f"))
    for kind in ("e", "d", "i4"):
        np.testing.assert_array_equal(model.scores(images.astype(kind), captions), expected)


PIXELS = np.random.default_rng(0).integers(0, 255, (40, 30, 3), np.uint8)
CHANNELS_FIRST = np.ascontiguousarray(PIXELS.transpose(2, 0, 1))


@pytest.mark.parametrize(
    ("images", "named"),
    [
        (PIXELS, r"images: .*\(40, 30, 3\)"),
        (torch.from_numpy(CHANNELS_FIRST), r"images: .*\(3, 40, 30\)"),
        ([PIXELS / 255], r"image 0: .*float64 \(40, 30, 3\)"),
        ([None], "image 0: got NoneType"),
        ([], "images: "),
    ],
)
def test_what_is_no_list_of_pictures_is_refused_with_its_shape(images, named, model):
    with pytest.raises(VseppError, match=f"^{named}"):
        model.embed_images(images)


def test_pictures_are_one_a_row_of_four_dimensions_or_one_an_entry(model, tmp_path):
    path = tmp_path / "a.png"
    Image.fromarray(PIXELS).save(path)
    expected = model.embed_images([PIXELS])
    for images in (
        PIXELS[None],
        torch.from_numpy(PIXELS)[None],
        [torch.from_numpy(PIXELS)],
        np.array([str(path)]),
    ):
        np.testing.assert_array_equal(model.embed_images(images), expected)


@pytest.mark.parametrize("captions", ["a dog", [None], np.ones(2)])
def test_what_is_no_list_of_sentences_is_refused(captions, model):
    with pytest.raises(VseppError, match=r"^caption"):
        model.embed_captions(captions)
    assert model.embed_captions(np.array(["a dog"])).shape == (1, model.dim)


@pytest.mark.parametrize("value", [1.5, True, 0])
def test_what_counts_nothing_is_refused_by_its_name(value):
    with pytest.raises(VseppError, match=r"^k: .*whole number"):
        vsepp.rank(EYE, value)
    with pytest.raises(VseppError, match=r"^fold size: .*whole number"):
        vsepp.evaluate(EYE, EYE, range(4), "1K", fold_size=value)
    assert vsepp.rank(EYE, np.int64(2)).shape == (4, 2)


@pytest.mark.parametrize("value", [5, b"flickr8k"])
def test_what_is_no_path_is_refused_by_its_name(value, model):
    with pytest.raises(VseppError, match=r"^folder: .*path"):
        vsepp.load(value)
    with pytest.raises(VseppError, match=r"^encoder: .*path"):
        vsepp.load("flickr8k", encoder=value)
    with pytest.raises(VseppError, match=r"^similarity: "):
        vsepp.evaluate(EYE, EYE, range(4), similarity=value)


# Ranks of candidates that come in blocks.


@hypothesis.given(
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
    exec(
        block(blocks((DOCS / "using.md").read_text(encoding="utf-8")), "from pathlib import Path"), variables
    )
    order = np.argsort(-(rows @ asked[0]))
    assert variables["best"][0, :3].tolist() == [5, 60, 899]
    assert variables["best"][0, 3:].tolist() == order[3:10].tolist()
