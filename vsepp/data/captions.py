"""Captions → words, or pieces of words → indices."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from nltk.tokenize.destructive import NLTKWordTokenizer

from vsepp.base.declared import PIECES, WORDS
from vsepp.base.errors import VseppError
from vsepp.base.spec import VocabularySpec
from vsepp.data import wordpieces
from vsepp.data.tokens import Tokens
from vsepp.data.vocabulary import Vocabulary

if TYPE_CHECKING:
    from vsepp.data.tables import Table

TOKENIZER = "lower case, nltk NLTKWordTokenizer, the caption as one line"
TOKENIZERS = {WORDS: TOKENIZER, PIECES: wordpieces.TOKENIZER}

_tokenizer = NLTKWordTokenizer()
# Nine captions in ten, which the word tokenizer only splits at white space, commas and the last full stop: they skip its
# thirty or so substitutions. It splits the words of the second pattern, so captions with them take its way.
# Possessive, so that the time is linear in the caption's length.
_PLAIN = re.compile(r"[a-z0-9]++(?:,?[ \n]++[a-z0-9]++)*+[ \n]*+\.?[ \n]*+")
_CONTRACTED = re.compile(r"cannot|gimme|gonna|gotta|lemme|wanna")


def tokenize(text: str) -> list[str]:
    """Split a caption into lower-case words and punctuation marks.

    Equals `nltk.word_tokenize(text.lower(), preserve_line=True)`, which needs no download. Differs from the released code,
    which first splits a caption into sentences with Punkt: a full stop inside a caption becomes a word of its own there,
    but stays attached to the word before it here.
    """
    text = text.lower()
    if _PLAIN.fullmatch(text) and not _CONTRACTED.search(text):
        tokens = text.replace(",", " ,").replace(".", " .").split()
    else:
        tokens = _tokenizer.tokenize(text)
    # Interned, so that each word of a corpus is in memory once.
    return list(map(sys.intern, tokens))


def split(text: str, vocabulary: Vocabulary) -> list[str]:
    """Split a caption into what a vocabulary has: words, or pieces of words."""
    return wordpieces.pieces_of(text, vocabulary.index) if vocabulary.kind == PIECES else tokenize(text)


def tokenize_captions(captions: Table) -> list[list[str]]:
    """Words of every caption of a captions table, in its order."""
    return [tokenize(text) for text in captions["text"]]


def make_tokens(
    spec: VocabularySpec,
    corpus: Path,
    out: Path,
    *,
    vocabulary: Vocabulary | None = None,
    pieces: Path | None = None,
) -> dict[str, Any]:
    """Write a vocabulary and the ids of all captions.

    Parameters
    ----------
    spec
        What the vocabulary is made of.
    corpus
        Folder of the tables.
    out
        Gets `tokens.npz` and `vocabulary.json`.
    vocabulary
        The vocabulary, where it is not counted.
    pieces
        File of pieces of words; by default that of all-MiniLM-L6-v2.
    """
    from vsepp.data.tables import read_tables  # a model that is used reads no tables

    _, captions = read_tables(corpus)
    tokenized = None
    if spec.kind == WORDS:
        tokenized = tokenize_captions(captions)
        vocabulary = vocabulary or build_vocabulary(captions, spec, tokenized)
    else:
        vocabulary = Vocabulary.of_pieces(pieces or wordpieces.minilm_file("vocab.txt"))
    tokens = encode_captions(captions, vocabulary, tokenized)
    vocabulary.write(out)
    tokens.save(out)
    return {"words": len(vocabulary), "tokens": int(tokens.offsets[-1])}


def build_vocabulary(
    captions: Table, spec: VocabularySpec, tokenized: Iterable[Sequence[str]] | None = None
) -> Vocabulary:
    """Vocabulary of the captions of `spec.splits`, and of no other.

    Parameters
    ----------
    captions
        Captions table.
    spec
        Splits and threshold. A split that the corpus lacks adds nothing.
    tokenized
        `tokenize_captions(captions)`, if already computed.

    Raises
    ------
    VseppError
        If none of the splits has captions, or no word is left.
    """
    counted = np.isin(captions["split"], spec.splits)
    if not counted.any():
        raise VseppError(
            f"empty vocabulary: the corpus has no captions in {' + '.join(spec.splits) or 'no splits'}; "
            f"its splits are {', '.join(sorted(set(captions['split'])))}"
        )
    if tokenized is None:
        tokenized = tokenize_captions(captions)
    chosen = (tokens for tokens, wanted in zip(tokenized, counted, strict=True) if wanted)
    return Vocabulary.of(chosen, spec, TOKENIZER)


def encode_captions(
    captions: Table, vocabulary: Vocabulary, tokenized: Sequence[Sequence[str]] | None = None
) -> Tokens:
    """Indices of the words or pieces of every caption of the table, whatever its split, in its order.

    Parameters
    ----------
    captions
        Captions table.
    vocabulary
        The words known.
    tokenized
        `tokenize_captions(captions)`, if already computed; only for a vocabulary of words.
    """
    found = tokenized or (split(text, vocabulary) for text in captions["text"])
    return Tokens.from_lists(map(vocabulary.encode, found), vocabulary.kind)
