"""Captions that mean nothing and count like COCO's and Flickr's: their lengths, word frequencies and spelling.

Words are drawn independently from a lexicon of 36,000, whose frequencies fall as r^-1.2 up to rank 1,000 and as r^-2
from there on. Aimed at, over COCO's 616,767 captions: 10.5 words a caption with a deviation of 2.4 and at most about
50; 8,800 to 11,500 words seen four times or more in `train`; 24,000 to 27,000 different words in all.
"""

from __future__ import annotations

import string
from itertools import pairwise
from typing import NamedTuple

import numpy as np

LEXICON = 36_000
KNEE = 1_000
"""Rank at which the frequencies begin to fall faster."""

_HEAD = """a on of the in with and is man to sitting an two standing at people are next white woman it table street
person top tennis some holding large up group riding field down front near train his that red young dog black baseball
room bathroom plate plays water small cat out while wearing food by from bus blue green looking kitchen playing other
walking building boy parked him her grass ball game pizza their brown beach girl sign men several toilet snow cake bed
skateboard looks phone wooden three city clock big shirt has wave horse road open laptop bench hanging flying couple
giraffe for as there this over behind his one yellow through around each under into be tree side"""
_ONSETS = "b br c ch cl d dr f fl g gr h j k l m n p pl qu r s sh sl st t th tr v w"
_VOWELS = "a e i o u ai ea ee oo ou"
_CODAS = ["", "", "n", "r", "s", "t", "l", "ck", "nd", "st", "ng"]

_ENDINGS = (".", "", ". ", " .", ".\n", "\n", "!", " ")
_ENDING_SHARES = (0.69, 0.15, 0.07, 0.05, 0.02, 0.01, 0.005, 0.005)
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


class Style(NamedTuple):
    """How long captions are, in words without punctuation."""

    mean: float
    deviation: float
    shortest: int
    longest: int


COCO = Style(10.5, 2.4, 6, 50)
FLICKR30K = Style(12.3, 5.2, 3, 78)


def lexicon(rng: np.random.Generator) -> np.ndarray:
    """All words, most frequent first: everyday ones, then invented ones, a few with hyphens, digits or accents."""
    words = dict.fromkeys(_HEAD.split())
    onsets, vowels = _ONSETS.split(), _VOWELS.split()
    while len(words) < LEXICON:
        syllables = (onsets, vowels, _CODAS, onsets, vowels, _CODAS)
        drawn = zip(*(rng.choice(part, LEXICON).tolist() for part in syllables), strict=True)
        for spelling, letters in zip(rng.random(LEXICON).tolist(), drawn, strict=True):
            # Rare words are longer than frequent ones.
            word = "".join(letters[:3] if len(words) < 600 else letters)
            words.setdefault(_odd(word, spelling) if spelling < 0.03 else word)
    return np.array(list(words)[:LEXICON], dtype=object)


def _odd(word: str, spelling: float) -> str:
    if spelling < 0.01:
        return f"{word[:2]}-{word[2:]}"
    if spelling < 0.02:
        return f"{1 + int(spelling * 1e6) % 999}"
    return word.replace("e", "é", 1).replace("n", "ñ", 1)


def _draw_words(rng: np.random.Generator, count: int) -> np.ndarray:
    """Ranks of `count` words, from 0."""
    rank = np.arange(1, LEXICON + 1)
    weights = np.where(rank <= KNEE, (rank + 0.5) ** -1.2, KNEE**0.8 * (rank + 0.5) ** -2.0)
    cumulated = np.cumsum(weights / weights.sum())
    return np.minimum(np.searchsorted(cumulated, rng.random(count)), LEXICON - 1)


def _draw_lengths(rng: np.random.Generator, count: int, style: Style) -> np.ndarray:
    """Words of each of `count` captions, `(count,)`: a shifted gamma distribution, and a few very long ones."""
    excess = style.mean - style.shortest
    drawn = rng.gamma((excess / style.deviation) ** 2, style.deviation**2 / excess, count)
    lengths = style.shortest + np.rint(drawn).astype(np.int64)
    long = rng.random(count) < 1 / 5000
    lengths[long] = rng.integers(style.longest // 2, style.longest + 1, long.sum())
    return np.minimum(lengths, style.longest)


def draw_captions(rng: np.random.Generator, count: int, style: Style, words: np.ndarray) -> list[str]:
    """Captions as people type them.

    Nine in ten begin with a capital and one in 500 is all capitals; four in five end with a full stop, some with a
    space or a line break behind it; one in ten has a comma, one in fifty a possessive and one in a hundred a second
    sentence.
    """
    lengths = _draw_lengths(rng, count, style)
    said = words[_draw_words(rng, int(lengths.sum()))].tolist()
    bounds = np.concatenate([[0], np.cumsum(lengths)]).tolist()
    endings = rng.choice(len(_ENDINGS), count, p=_ENDING_SHARES).tolist()
    capitals = rng.random(count).tolist()
    marks = rng.random(count).tolist()
    places = (rng.random(count) * (lengths - 1)).astype(int).tolist()
    captions = []
    for (start, stop), ending, capital, mark, place in zip(
        pairwise(bounds), endings, capitals, marks, places, strict=True
    ):
        spoken = said[start:stop]
        if mark < 0.13:
            _punctuate(spoken, mark, place)
        text = " ".join(spoken)
        if capital < 0.002:
            text = text.upper()
        elif capital < 0.9:
            text = text[0].upper() + text[1:]
        captions.append(text + _ENDINGS[ending])
    return captions


def _punctuate(spoken: list[str], mark: float, place: int) -> None:
    """Change one word of a caption; `mark` below 0.13 says how."""
    word = spoken[place]
    if mark < 0.1:
        spoken[place] = word + ","
    elif mark < 0.12:
        spoken[place] = word + "'s"
    else:
        spoken[place : place + 2] = [word + ".", spoken[place + 1].capitalize()]


def karpathy_tokens(caption: str) -> list[str]:
    """Words of a caption as Karpathy's files list them: lower case, without punctuation."""
    return caption.lower().translate(_NO_PUNCTUATION).split()
