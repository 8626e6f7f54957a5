"""The joint embedding and the networks that it is made of."""

from __future__ import annotations

from vsepp.components import describe
from vsepp.declared import WORDS
from vsepp.spec import Component


def tokens_of(text: Component) -> str:
    """Kind of tokens that a text encoder takes."""
    return describe("text encoder", text.name).constants.get("TOKENS", WORDS)
