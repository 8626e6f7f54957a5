"""Rendered scenes show what the scene holds."""

import dataclasses

import numpy as np
import pytest

from vsepp.scenes.render import OUTLINES, PALETTE, render_scene
from vsepp.scenes.world import COLOURS, GROUNDS, SHAPES, SKIES, TEXTURES, Scene, Thing


@pytest.fixture
def draw(settings):
    """Draws one object, or none, at a place and in a light."""

    def drawn(thing=None, ground="snow", sky="clear", noise=0.0):
        scene = Scene(60, 48, ground, sky, (thing,) if thing else ())
        plain = dataclasses.replace(settings, colour_jitter=0.0, noise=noise)
        return np.asarray(render_scene(scene, np.random.default_rng(0), plain))

    return drawn


def thing(**changes):
    usual = dict(shape="square", colour="red", texture="plain", size="large", x=0.4, y=0.6, angle=0.0)
    return Thing(**(usual | changes))


def test_every_name_of_the_world_can_be_drawn(draw):
    assert set(PALETTE) == set(COLOURS)
    assert set(SHAPES) <= set(OUTLINES)
    images = {(ground, sky): draw(ground=ground, sky=sky) for ground in GROUNDS for sky in SKIES}
    images |= {(s, t): draw(thing(shape=s, texture=t)) for s in SHAPES for t in TEXTURES}
    assert all(image.shape == (48, 60, 3) and image.dtype == np.uint8 for image in images.values())
    assert len({image.tobytes() for image in images.values()}) == len(images)


@pytest.mark.parametrize("colour", COLOURS)
def test_an_object_shows_its_colour_where_it_stands(draw, colour):
    pixels = draw(thing(colour=colour))
    row, column = round(0.6 * 48), round(0.4 * 60)
    assert np.abs(pixels[row, column].astype(int) - PALETTE[colour]).max() < 30
