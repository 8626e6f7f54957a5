"""Sampled scenes, and scenes that differ in a single attribute."""

import dataclasses

import numpy as np
import pytest

from vsepp.scenes.world import ATTRIBUTES, SHAPES, Scene, Thing, alter, sample_scene, sample_split


def differences(first: Scene, second: Scene) -> list[str]:
    changes = [
        name for name in ("ground", "sky", "width", "height") if getattr(first, name) != getattr(second, name)
    ]
    for before, after in zip(first.things, second.things, strict=True):
        names = [f.name for f in dataclasses.fields(Thing) if f.name not in "xy"]
        changes += [name for name in names if getattr(before, name) != getattr(after, name)]
        if (before.x, before.y) != (after.x, after.y):
            changes.append("position")
    return changes


def test_an_altered_scene_differs_in_exactly_one_attribute(settings):
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(200):
        scene = sample_scene(rng, 56, settings)
        changed = differences(scene, alter(rng, scene, settings))
        assert len(changed) == 1
        seen.update(changed)
    assert seen == set(ATTRIBUTES)


def test_the_share_of_near_duplicates_is_the_setting(settings):
    scenes = sample_split(np.random.default_rng(1), 600, 56, settings)
    copies = 0
    for i, scene in enumerate(scenes):
        earlier = [other for other in scenes[:i] if len(other.things) == len(scene.things)]
        copies += any(len(differences(scene, other)) <= 1 for other in earlier)
    assert copies / len(scenes) == pytest.approx(settings.near_duplicate, abs=0.06)


def test_scenes_keep_to_the_settings(settings):
    rng = np.random.default_rng(3)
    scenes = [sample_scene(rng, 64, settings) for _ in range(300)]
    assert {len(scene.things) for scene in scenes} == {1, 2, 3}
    assert {thing.shape for scene in scenes for thing in scene.things} == set(SHAPES)
    for scene in scenes:
        assert max(scene.width, scene.height) == 64
        assert min(scene.width, scene.height) >= round(0.75 * 64)
        for thing in scene.things:
            radius = scene.radius(thing)
            assert radius - 1e-6 <= thing.x * scene.width <= scene.width - radius + 1e-6
            assert radius - 1e-6 <= thing.y * scene.height <= scene.height - radius + 1e-6
    gaps = [s.gap(a, b) for s in scenes for i, a in enumerate(s.things) for b in s.things[:i]]
    assert np.mean(np.less(gaps, 0.75)) < 0.1
