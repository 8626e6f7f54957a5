"""Text encoders: one module each, found by name (`vsepp.base.components`).

A module has

- `Options`, a frozen dataclass; its `dim` is D_ψ, the size of the state before W_g (Eq. 2);
- `class TextEncoder(torch.nn.Module)`, made as `TextEncoder(vocabulary_size, options)`: maps `ids`, int64
  `(n, longest)` from `<start>` to `<end>`, and `lengths`, int64 `(n,)` on the CPU, to ψ(c; θ_ψ), `(n, dim)`. Its weights
  may have any names;
- `GIVES_SETS = True`, if it gives the states of all tokens, `(n, longest, dim)`, which the run's `caption_pooling` pools;
- `TOKENS`, the kind of `vsepp.data.captions.Tokens` that the encoder takes, if not `words`. Where it has an option `weights` and this is
  `random`, it takes words;
- `TextEncoder.start(file)`, if a training can start from weights that are not drawn: reads these weights. `file` is the raw file where
  `weights` is `file/<name>`, else `None`. A trained model is loaded without `start`;
- `TextEncoder.states(ids, lengths)`, if it has an option `frozen`: the states of captions before the trained part, `(n, longest, size)`;
  the encoder is then also called with these states in place of `ids`;
- `CITATION`: its source.
"""

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
