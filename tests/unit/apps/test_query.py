"""What is nearest to a sentence or a picture, among embeddings that are made up."""

import math

import numpy as np
import pytest
from indexes import CAPTIONS, DOT, ORDER, PICTURE, index
from PIL import Image
from rounding import assert_near

from vsepp.base.errors import VseppError


def naive(similarity, image, caption):
    if similarity is DOT:
        return sum(float(f) * float(g) for f, g in zip(image, caption, strict=True))
    return -math.sqrt(sum(max(0.0, float(g) - float(f)) ** 2 for f, g in zip(image, caption, strict=True)))


@pytest.mark.parametrize("similarity", [DOT, ORDER])
def test_a_sentence_finds_the_images_that_a_loop_finds(similarity):
    asked = index(similarity)
    (caption,) = asked.model.embed_captions(["a red dog"])
    scores = [naive(similarity, image, caption) for image in asked.image_embeddings]
    nearest = sorted(range(7), key=lambda row: -scores[row])
    hits = asked.images_for("a red dog", k=7)
    assert [hit.row for hit in hits] == nearest
    assert_near([hit.score for hit in hits], [scores[row] for row in nearest], 1e-5)
    assert [hit.rank for hit in hits] == [1, 2, 3, 4, 5, 6, 7]
    firsts = {0: 0, 1: 1, 2: 3, 3: 4, 5: 7, 6: 10}
    assert {hit.file_name: hit.caption for hit in hits} == {
        f"{row}.jpg": CAPTIONS[firsts[row]] if row in firsts else "" for row in range(7)
    }
    assert asked.images_for("a red dog", k=3) == hits[:3]
    assert asked.images_for("a red dog", k=99) == hits


@pytest.mark.parametrize("similarity", [DOT, ORDER])
def test_a_picture_finds_the_captions_that_a_loop_finds(similarity, tmp_path):
    asked = index(similarity)
    (image,) = asked.model.embed_images([PICTURE])
    scores = [naive(similarity, image, caption) for caption in asked.caption_embeddings]
    nearest = sorted(range(12), key=lambda row: -scores[row])[:4]
    hits = asked.captions_for(PICTURE, k=4)
    assert [hit.caption for hit in hits] == [CAPTIONS[row] for row in nearest]
    assert [hit.image_id for hit in hits] == [f"id-{asked.caption_to_image[row]}" for row in nearest]
    assert_near([hit.score for hit in hits], [scores[row] for row in nearest], 1e-5)
    Image.fromarray(PICTURE).save(tmp_path / "a.png")
    assert asked.captions_for(tmp_path / "a.png", k=4) == hits


def test_pictures_are_the_stores_rows_or_the_files(tmp_path):
    asked = index()
    assert (np.asarray(asked.picture(2)) == asked.pixels[7]).all()
    Image.new("RGBA", (1000, 500), "red").save(tmp_path / "wide.png")
    files = index(pixels=[tmp_path / "wide.png"], pixel_rows=np.array([0]))
    assert files.picture(0).size == (1000, 500)
    assert files.picture(0).getpixel((0, 0)) == (255, 0, 0)
    assert index(pixels=None).picture(0) is None


@pytest.mark.parametrize(
    ("ask", "arguments", "named"),
    [
        ("images_for", (" \n",), "empty"),
        ("images_for", ("a dog", 0), "got 0"),
        ("captions_for", (PICTURE,), "captions"),
    ],
)
def test_bad_questions_are_named(ask, arguments, named):
    with pytest.raises(VseppError, match=named):
        getattr(index(captions=[]), ask)(*arguments)
