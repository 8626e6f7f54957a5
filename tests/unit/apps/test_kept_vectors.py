"""Pictures of a folder are embedded once, whatever becomes of the cache, and an unreadable one keeps nobody from the others."""

import logging
import os

import numpy as np
import pytest
from PIL import Image

from vsepp.apps.cli import main
from vsepp.apps.kept_vectors import KeptVectors
from vsepp.apps.query import index_pictures
from vsepp.base.errors import VseppError
from vsepp.shipped import shipped_models


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
    "empty": lambda file: file.write_bytes(b""),
    "text": lambda file: file.write_text("text"),
    "of another shape": lambda file: np.savez(file, digests=np.array(["a"]), embeddings=np.ones((1, 3), "f")),
    "digests of two axes": lambda file: np.savez(
        file, digests=np.array([["a", "b"]]), embeddings=np.ones((1, 4), "f")
    ),
    "not finite": lambda file: np.savez(
        file, digests=np.array(["a"]), embeddings=np.full((1, 4), np.nan, "f")
    ),
    "a FIFO": lambda file: (file.unlink(), os.mkfifo(file)),
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


def test_a_cache_that_cannot_be_written_is_no_matter(tmp_path, pictures, monkeypatch, caplog):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with caplog.at_level(logging.WARNING):
        assert len(index_pictures("flickr8k", pictures, keep=True).image_ids) == 20
    assert "not kept" in caplog.text


def test_one_unreadable_picture_among_many_is_left_out_and_named_and_many_are_refused(pictures, caplog):
    (pictures / "page.jpg").write_bytes(b"<!DOCTYPE html>")
    with caplog.at_level(logging.WARNING):
        index = index_pictures("flickr8k", pictures)
    assert len(index.image_ids) == len(index.image_embeddings) == 20 and "page.jpg" not in index.image_ids
    assert "page.jpg" in caplog.text and "HTML" in caplog.text
    assert index.picture(19).size == (40, 30)
    (pictures / "empty.jpg").write_bytes(b"")
    with pytest.raises(VseppError, match=r"empty\.jpg"):
        index_pictures("flickr8k", pictures)


def test_a_question_comes_before_the_pictures(tmp_path, pictures, capsys):
    (tmp_path / "captions.txt").write_text("a dog\n")
    picture, captions = str(pictures / "00.png"), str(tmp_path / "captions.txt")
    for asked, option in (
        (["--text", " ", "--pictures", str(pictures)], "empty"),
        (["--text", "a dog", "--pictures", str(pictures), "-k", "0"], "-k"),
        (["--text", "a dog", "--captions", captions], "--pictures"),
        (["--image", picture, "--pictures", str(pictures)], "--captions"),
    ):
        assert main(["query", "flickr8k", *asked]) == 1
        assert option in capsys.readouterr().err
    assert (
        main(["query", "flickr8k", "--image", picture, "--captions", captions, "--pictures", str(pictures)])
        == 0
    )
    assert not (tmp_path / "cache").exists()
