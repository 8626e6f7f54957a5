"""Pictures of a folder are embedded once, whatever becomes of the cache, and an unreadable one keeps nobody from the others."""

import logging

import numpy as np
import pytest
from PIL import Image

from vsepp.apps.kept_vectors import KeptVectors
from vsepp.apps.query import index_pictures
from vsepp.base.errors import VseppError
from vsepp.shipped.folders import shipped_models


@pytest.fixture
def pictures(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(20):
        pixels = np.random.default_rng(number).integers(0, 255, (30, 40, 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"{number:02}.png")
    return folder


def test_a_picture_is_embedded_once_and_another_under_its_name_anew(tmp_path, pictures):
    first = index_pictures("flickr8k", pictures, keep=True)
    (kept,) = (tmp_path / "cache" / "vsepp").glob("*.npz")
    with np.load(kept) as arrays:
        changed = {"digests": arrays["digests"], "embeddings": arrays["embeddings"] * 2}
    np.savez(kept, **changed)  # so that what is taken from there can be told
    again = index_pictures("flickr8k", pictures, keep=True)
    assert np.array_equal(again.image_embeddings, 2 * first.image_embeddings)
    anew = index_pictures("flickr8k", pictures)
    assert np.allclose(anew.image_embeddings, first.image_embeddings, atol=1e-5)
    (pictures / "00.png").write_bytes((pictures / "01.png").read_bytes())
    other = index_pictures("flickr8k", pictures, keep=True)
    assert np.array_equal(other.image_embeddings[0], again.image_embeddings[1])


ODD = {
    "cut": lambda file: file.write_bytes(file.read_bytes()[:-30]),
    "of another shape": lambda file: np.savez(file, digests=np.array(["a"]), embeddings=np.ones((1, 3), "f")),
    "not finite": lambda file: np.savez(
        file, digests=np.array(["a"]), embeddings=np.full((1, 4), np.nan, "f")
    ),
}


@pytest.mark.parametrize("kind", ODD)
def test_an_odd_file_of_the_cache_is_made_again(tmp_path, monkeypatch, kind):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model = shipped_models()["flickr8k"]
    row = np.ones(4, np.float32)
    KeptVectors(model, 4).add({"one": row})
    assert list(KeptVectors(model, 4).known) == ["one"]
    ODD[kind](KeptVectors(model, 4).file)
    again = KeptVectors(model, 4)
    assert not again.known
    again.add({"two": row})
    assert list(KeptVectors(model, 4).known) == ["two"]


def test_one_unreadable_picture_among_many_is_left_out_and_named_and_many_are_refused(pictures, caplog):
    (pictures / "page.jpg").write_bytes(b"<!DOCTYPE html>")
    with caplog.at_level(logging.WARNING):
        index = index_pictures("flickr8k", pictures)
    assert len(index.image_ids) == len(index.image_embeddings) == 20 and "page.jpg" in caplog.text
    assert index.picture(19).size == (40, 30)
    (pictures / "empty.jpg").write_bytes(b"")
    with pytest.raises(VseppError, match=r"empty\.jpg"):
        index_pictures("flickr8k", pictures)
