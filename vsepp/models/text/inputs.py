"""What a text encoder takes, from its declaration alone: tokens, files, and the part of it that is frozen."""

from __future__ import annotations

from pathlib import PurePosixPath

from vsepp.base.components import checked, describe
from vsepp.base.declared import WORDS
from vsepp.base.spec import Component

MINILM = Component("bert", {"weights": "minilm", "layers": 6, "hidden": 384, "intermediate": 1536})
"""all-MiniLM-L6-v2 as a frozen text encoder."""


def tokens_of(text: Component) -> str:
    """Kind of tokens that a text encoder takes: words, if its weights are drawn."""
    kind = describe("text encoder", text.name).constants.get("TOKENS", WORDS)
    return WORDS if _weights_of(text) == "random" else kind


def weights_file(text: Component) -> str:
    """Name of the raw file that a text encoder's training starts from; empty where there is none."""
    source, _, name = _weights_of(text).partition("/")
    return name if source == "file" else ""


def pieces_file(text: Component) -> str:
    """Name of the raw file of word pieces that belongs to `weights_file` and lies beside it; empty where there is none."""
    name = weights_file(text)
    return str(PurePosixPath(name).with_name("vocab.txt")) if name else ""


def frozen_part(text: Component) -> Component | None:
    """The part of a text encoder that decides its frozen states, as a component; `None` where all of it is trained."""
    if not text.options.get("frozen"):
        return None
    trained = ("frozen", "dim", "linear", "dropout")
    return Component(text.name, {key: value for key, value in text.options.items() if key not in trained})


def _weights_of(text: Component) -> str:
    return getattr(checked("text encoder", text), "weights", "")
