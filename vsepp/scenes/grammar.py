"""Captions of a scene, as several people might write them: none complete, all true."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from vsepp.base.spec import Difficulty
from vsepp.scenes.world import COLOURS, GROUNDS, SHAPES, SKIES, TEXTURES, TEXTURES_BEHIND, Scene, Thing

_OPENINGS = (
    "there is {}",
    "a picture of {}",
    "we see {}",
    "you can see {}",
    "an image showing {}",
    "here is {}",
)
_OPENINGS_OF_MANY = ("there are {}", "a picture of {}", "we see {}", "you can see {}")
_PLAIN_OPENING = 0.6
_BACKGROUND_FIRST = 0.25
_NO_FULL_STOP = 0.2
_TEXTURE_BEHIND = 0.35
_COLOUR_LAST = 0.7
_COUNTING = 0.12
# The first is the usual one.
_SIZES = {"small": ("small", "little", "tiny"), "medium": (), "large": ("big", "large", "huge")}
_VAGUE = ("shape", "thing", "object", "figure")
_RELATIONS = {
    "left": ("to the left of", "left of", "on the left side of"),
    "right": ("to the right of", "right of", "on the right side of"),
    "above": ("above", "over"),
    "below": ("below", "under", "beneath"),
}
_BESIDE = ("next to", "beside", "near", "close to")
_SIDES = {
    "left": ("to its left", "on its left"),
    "right": ("to its right", "on its right"),
    "above": ("above it", "over it"),
    "below": ("below it", "underneath it"),
}
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six")
_ACROSS = ("left", "", "right")
_DOWN = ("top", "", "bottom")


def write_captions(scene: Scene, count: int, rng: np.random.Generator, settings: Difficulty) -> list[str]:
    """Write `count` captions of a scene, different where the grammar can make them so."""
    captions: list[str] = []
    for _ in range(count):
        for _ in range(6):
            caption = write_caption(scene, rng, settings)
            if caption not in captions:
                break
        captions.append(caption)
    return captions


def write_caption(scene: Scene, rng: np.random.Generator, settings: Difficulty) -> str:
    """Write one caption: choose what to mention, in which order and words."""
    talk = _Speaker(rng, settings)
    things = talk.choose_things(scene)
    openings: tuple[str, ...] = _OPENINGS
    if len(things) == len(scene.things) > 1 and talk.happens(_COUNTING):
        what = talk.count(scene, things)
        openings = _OPENINGS_OF_MANY
    elif len(things) > 1 and talk.happens(settings.relation):
        what = talk.relate(scene, things)
    else:
        what = talk.enumerate(things)
    if len(things) == 1 and talk.happens(settings.relation):
        what = f"{what} {talk.place(things[0])}".rstrip()
    opening = "{}" if talk.happens(_PLAIN_OPENING) else str(rng.choice(openings))
    what = opening.format(what)
    where = talk.surroundings(scene)
    if where:
        # Nobody writes `at night a picture of a star`.
        first = talk.happens(_BACKGROUND_FIRST) and not opening.startswith("a")
        what = f"{where}{',' if talk.happens(0.3) else ''} {what}" if first else f"{what} {where}"
    return what[0].upper() + what[1:] + ("" if talk.happens(_NO_FULL_STOP) else ".")


def tokenise(caption: str) -> list[str]:
    """Lower-cased words without punctuation, as the published split files list them."""
    return re.findall(r"[a-z0-9]+", caption.lower())


class _Speaker:
    """One person's choices of words."""

    def __init__(self, rng: np.random.Generator, settings: Difficulty) -> None:
        self.rng = rng
        self.settings = settings
        self.nouns: set[str] = set()

    def happens(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def word(self, forms: Sequence[str]) -> str:
        """The usual form, or with probability `synonym` another."""
        if len(forms) > 1 and self.happens(self.settings.synonym):
            return forms[int(self.rng.integers(1, len(forms)))]
        return forms[0]

    def choose_things(self, scene: Scene) -> list[Thing]:
        """Objects worth mentioning, the more salient rather first; at least one."""
        salience = [scene.radius(thing) * self.rng.uniform(0.5, 1.5) for thing in scene.things]
        order = np.argsort(salience)[::-1]
        kept = [i for rank, i in enumerate(order) if rank == 0 or not self.happens(self.settings.omit_object)]
        return [scene.things[i] for i in kept]

    def surroundings(self, scene: Scene) -> str:
        """Ground, sky, both in either order, or nothing."""
        phrases = [
            self.word(forms)
            for forms in (GROUNDS[scene.ground], SKIES[scene.sky])
            if not self.happens(self.settings.omit_background)
        ]
        return " ".join(phrases if self.happens(0.7) else phrases[::-1])

    def mention(self, thing: Thing) -> str:
        """A noun phrase with its article; attributes are left out with probability `omit_attribute`."""
        kept = {
            what for what in ("size", "colour", "texture") if not self.happens(self.settings.omit_attribute)
        }
        before: list[str] = []
        behind = ""
        if "texture" in kept and TEXTURES[thing.texture]:
            if self.happens(_TEXTURE_BEHIND):
                behind = " " + self.word(TEXTURES_BEHIND[thing.texture])
            else:
                before.append(self.word(TEXTURES[thing.texture]))
        if "colour" in kept:
            before.insert(0 if self.happens(_COLOUR_LAST) else len(before), self.word(COLOURS[thing.colour]))
        if "size" in kept and _SIZES[thing.size]:
            before.insert(0, self.word(_SIZES[thing.size]))
        noun = self.word(_VAGUE if self.happens(self.settings.vague) else SHAPES[thing.shape])
        phrase = " ".join([*before, noun])
        article = "another" if noun in self.nouns else ("an" if phrase[0] in "aeiou" else "a")
        self.nouns.add(noun)
        return f"{article} {phrase}{behind}"

    def enumerate(self, things: list[Thing]) -> str:
        """`A`, `A and B`, `A, B and C`."""
        mentions = [self.mention(thing) for thing in things]
        link = "with" if len(mentions) == 2 and self.happens(0.2) else "and"
        return ", ".join(mentions[:-1]) + (f" {link} " if len(mentions) > 1 else "") + mentions[-1]

    def relate(self, scene: Scene, things: list[Thing]) -> str:
        """`A to the left of B`, `B with A on its left`, the others behind."""
        thing, other, *rest = things
        side = _side(scene, thing, other)
        near = scene.gap(thing, other) < 1.6
        first, second = self.mention(thing), self.mention(other)
        if near and self.happens(0.4):
            what = f"{first} {self.word(_BESIDE)} {second}"
        elif self.happens(0.25):
            what = f"{first} with {second} {self.word(_SIDES[_side(scene, other, thing)])}"
        else:
            what = f"{first} {self.word(_RELATIONS[side])} {second}"
        return f"{what}, and {self.enumerate(rest)}" if rest else what

    def count(self, scene: Scene, things: list[Thing]) -> str:
        """`Three shapes, one of them a red star`."""
        number = _NUMBERS[len(scene.things)]
        noun = self.word(_VAGUE) + "s"
        links = ("including", "among them") if len(things) > 2 else ("one of them", "including")
        return f"{number} {noun}, {self.rng.choice(links)} {self.enumerate(things[:-1])}"

    def place(self, thing: Thing) -> str:
        """Where in the picture an object is."""
        across = _ACROSS[int(np.clip(thing.x * 3, 0, 2))]
        down = _DOWN[int(np.clip(thing.y * 3, 0, 2))]
        if across and down:
            return f"in the {down} {across} corner" if self.happens(0.5) else f"at the {down} {across}"
        if across or down:
            return f"on the {across}" if across else f"at the {down}"
        return "in the middle" if self.happens(0.5) else "in the centre"


def _side(scene: Scene, thing: Thing, other: Thing) -> str:
    """Side of `other` on which `thing` lies, by the longer of the two distances."""
    right, down = (thing.x - other.x) * scene.width, (thing.y - other.y) * scene.height
    if abs(right) > abs(down):
        return "right" if right > 0 else "left"
    return "below" if down > 0 else "above"
