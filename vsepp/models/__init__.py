"""The joint embedding and the networks that it is made of."""

from __future__ import annotations

from pathlib import PurePosixPath

from vsepp.components import describe
from vsepp.declared import PIECES, WORDS
from vsepp.spec import Component


def takes_sets(head: Component) -> bool:
    """Whether an image head takes sets of vectors, not one vector an image."""
    return describe("image head", head.name).constants.get("TAKES_SETS", False)


def tokens_of(text: Component) -> str:
    """Kind of tokens that a text encoder takes: words, if its weights are drawn."""
    kind = describe("text encoder", text.name).constants.get("TOKENS", WORDS)
    return WORDS if _weights_of(text) == "random" else kind


def weights_file(text: Component) -> str:
    """Name of the raw file that a text encoder's training starts from; empty where there is none."""
    source, _, name = _weights_of(text).partition("/")
    return name if source == "file" else ""


def pieces_file(text: Component) -> str:
    """Name of the raw file with the pieces of words that the weights of such a file know, which lies beside it."""
    name = weights_file(text)
    return str(PurePosixPath(name).with_name("vocab.txt")) if name else ""


def _weights_of(text: Component) -> str:
    return getattr(describe("text encoder", text.name).options(**text.options), "weights", "")


def unmade_inputs(head: Component, text: Component) -> dict[str, str]:
    """Key of a run → what its image head or text encoder takes that no step makes yet: sets of vectors, other kinds of tokens."""
    unmade = {}
    if takes_sets(head):
        unmade["image_head"] = f"image head {head.name} takes sets of vectors, which no step makes yet"
    if (kind := tokens_of(text)) not in (WORDS, PIECES):
        unmade["text"] = f"text encoder {text.name} takes {kind}, which no step makes yet"
    return unmade
