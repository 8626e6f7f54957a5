"""The joint embedding and the networks that it is made of."""

from __future__ import annotations

from vsepp.components import describe
from vsepp.declared import WORDS
from vsepp.spec import Component


def takes_sets(head: Component) -> bool:
    """Whether an image head takes sets of vectors, not one vector an image."""
    return describe("image head", head.name).constants.get("TAKES_SETS", False)


def tokens_of(text: Component) -> str:
    """Kind of tokens that a text encoder takes."""
    return describe("text encoder", text.name).constants.get("TOKENS", WORDS)


def unmade_inputs(head: Component, text: Component) -> dict[str, str]:
    """Key of a run → what its image head or text encoder takes that no step makes yet: sets of vectors, other tokens than words."""
    unmade = {}
    if takes_sets(head):
        unmade["image_head"] = f"image head {head.name} takes sets of vectors, which no step makes yet"
    if (kind := tokens_of(text)) != WORDS:
        unmade["text"] = f"text encoder {text.name} takes {kind}, which no step makes yet"
    return unmade
