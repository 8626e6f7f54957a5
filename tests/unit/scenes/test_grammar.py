"""Captions of scenes say what is in the scene."""

import dataclasses
import re

import numpy as np
import pytest

from vsepp.scenes.grammar import write_caption, write_captions
from vsepp.scenes.world import (
    COLOURS,
    GROUNDS,
    SHAPES,
    SKIES,
    TEXTURES,
    TEXTURES_BEHIND,
    Scene,
    Thing,
    sample_split,
)


def thing(**changes):
    usual = dict(shape="square", colour="red", texture="striped", size="large", x=0.2, y=0.5, angle=0.0)
    return Thing(**(usual | changes))


def captions_of(scene, settings, count):
    rng = np.random.default_rng(0)
    return [write_caption(scene, rng, settings) for _ in range(count)]


def says(caption, forms):
    """Whether a whole word or phrase of `forms` is in the caption."""
    return any(re.search(rf"\b{re.escape(form)}\b", caption.lower()) for form in forms)


def test_captions_say_nothing_that_is_not_in_the_scene(settings):
    rng = np.random.default_rng(5)
    for scene in sample_split(rng, 150, 56, settings):
        for caption in write_captions(scene, 5, rng, settings):
            absent = [SHAPES[shape] for shape in set(SHAPES) - {thing.shape for thing in scene.things}]
            for texture in set(TEXTURES) - {thing.texture for thing in scene.things}:
                absent.append(TEXTURES[texture] + TEXTURES_BEHIND[texture])
            absent += [GROUNDS[ground] for ground in set(GROUNDS) - {scene.ground}]
            absent += [SKIES[sky] for sky in set(SKIES) - {scene.sky}]
            assert not any(says(caption, forms) for forms in absent), caption


@pytest.mark.parametrize(
    ("name", "forms"),
    [
        ("omit_attribute", COLOURS["red"]),
        ("omit_background", GROUNDS["snow"]),
        ("vague", SHAPES["square"]),
    ],
)
def test_omission_happens_as_often_as_set(settings, name, forms):
    scene = Scene(60, 50, "snow", "night", (thing(),))
    share = {}
    for probability in (0.0, 0.3, 1.0):
        captions = captions_of(scene, dataclasses.replace(settings, **{name: probability}), 400)
        share[probability] = sum(says(caption, forms) for caption in captions) / len(captions)
    assert share[0.0] == pytest.approx(1.0, abs=0.01)
    assert share[0.3] == pytest.approx(0.7, abs=0.08)
    assert share[1.0] == 0.0


@pytest.mark.parametrize(
    ("position", "words", "opposite"),
    [
        (dict(x=0.1, y=0.5), ("to the left of", "left of"), "right of"),
        (dict(x=0.9, y=0.5), ("to the right of", "right of"), "left of"),
        (dict(x=0.5, y=0.1), ("above", "over"), "below"),
        (dict(x=0.5, y=0.9), ("below", "under", "beneath"), "above"),
    ],
)
def test_relations_are_true(settings, position, words, opposite):
    plain = dataclasses.replace(settings, omit_object=0, relation=1, synonym=0, vague=0, omit_attribute=0)
    star = thing(shape="star", size="large", **position)
    circle = thing(shape="circle", size="small", x=0.5, y=0.5)
    scene = Scene(64, 64, "grass", "night", (star, circle))
    pattern = re.compile(r"star(?: with stripes)? (.*?) a .*circle")
    matches = map(pattern.search, captions_of(scene, plain, 300))
    relations = {match[1] for match in matches if match and "with" not in match[1]}
    assert relations & set(words)
    assert not any(opposite in relation for relation in relations)


def test_articles_fit(settings):
    rng = np.random.default_rng(2)
    for scene in sample_split(rng, 300, 56, settings):
        caption = write_caption(scene, rng, settings)
        assert not re.search(r"\b(a [aeio]|an [^aeio])", caption.lower()), caption
