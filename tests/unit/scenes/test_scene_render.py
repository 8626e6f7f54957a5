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


def test_an_object_covers_about_its_area_and_nothing_else(draw):
    changed = np.abs(draw(thing()).astype(int) - draw().astype(int)).max(axis=2) > 40
    radius = 0.29 * 48
    area = (2 * 0.84 * radius) ** 2
    assert area * 0.9 < changed.sum() < area * 1.35  # the shadow adds a little
    assert not changed[:8].any()


def test_a_ring_has_a_hole(draw):
    centre = (round(0.6 * 48), round(0.4 * 60))
    ring, nothing = draw(thing(shape="ring")), draw()
    assert np.abs(ring[centre].astype(int) - nothing[centre]).max() < 40
    assert np.abs(draw(thing(shape="circle"))[centre].astype(int) - nothing[centre]).max() > 40


def test_noise_has_the_deviation_asked_for(draw):
    grain = draw(noise=0.04).astype(float) - draw(noise=0.0)
    assert grain[24:, :].std() == pytest.approx(0.04 * 255, rel=0.15)
