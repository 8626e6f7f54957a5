"""The joint embedding and the networks that it is made of."""

from __future__ import annotations

from pathlib import PurePosixPath

from vsepp.components import describe
from vsepp.declared import WORDS
from vsepp.spec import Component


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


def frozen_part(text: Component) -> Component | None:
    """What decides a text encoder's states that no training changes, as a component; `None` where all of it is trained."""
    if not text.options.get("frozen"):
        return None
    trained = ("frozen", "dim", "dropout")
    return Component(text.name, {key: value for key, value in text.options.items() if key not in trained})


def _weights_of(text: Component) -> str:
    return getattr(describe("text encoder", text.name).options(**text.options), "weights", "")
