"""The joint embedding and the networks that it is made of."""

from __future__ import annotations

from vsepp.components import describe
from vsepp.declared import WORDS
from vsepp.spec import Component


def unmade_inputs(head: Component, text: Component) -> dict[str, str]:
    """Key of a run → what its image head or text encoder takes that no step makes yet: sets of vectors, other tokens than words."""
    found = {}
    if describe("image head", head.name).constants.get("TAKES_SETS"):
        found["image_head"] = f"image head {head.name} takes sets of vectors, which no step makes yet"
    if (kind := describe("text encoder", text.name).constants.get("TOKENS", WORDS)) != WORDS:
        found["text"] = f"text encoder {text.name} takes {kind}, which no step makes yet"
    return found
