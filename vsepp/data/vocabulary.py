"""The words that a text encoder knows, or the pieces of words."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from vsepp.base.declared import PIECES, WORDS
from vsepp.base.errors import VseppError
from vsepp.base.files import reading, text_of, write_text
from vsepp.base.manifest import require_as_written
from vsepp.base.spec import VocabularySpec
from vsepp.data.tokens import SPECIAL
from vsepp.data.wordpieces import CONTINUED, SPECIAL_PIECES, TOKENIZER

FILE = "vocabulary.json"
MASK = "<mask>"


@dataclass(frozen=True)
class Vocabulary:
    """Words in the order of their indices, and what they were counted from; or the pieces of words of a pretrained text encoder."""

    words: tuple[str, ...]
    """`<pad>`, `<start>`, `<end>`, `<unk>`, then words by falling count, equal counts alphabetically, and `<mask>`, if it was asked
    for. Pieces in the order of their file."""
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

    @classmethod
    def of(cls, tokenized: Iterable[Sequence[str]], spec: VocabularySpec, tokenizer: str) -> Vocabulary:
        """Count the words of captions and keep words that occur at least `spec.threshold` times.

        Raises
        ------
        VseppError
            If no word is left.
        """
        seen: Counter[str] = Counter()
        captions = 0
        for tokens in tokenized:
            seen.update(tokens)
            captions += 1
        kept = sorted((word for word, n in seen.items() if n >= spec.threshold), key=lambda w: (-seen[w], w))
        if not kept:
            most = max(seen.values(), default=0)
            raise VseppError(
                f"empty vocabulary: no word occurs {spec.threshold} times or more in the {captions} captions of "
                f"{' + '.join(spec.splits)}, the most frequent of {len(seen)} words occurs {most} times; lower the "
                "vocabulary's threshold or count more splits"
            )
        counts = {word: seen[word] for word in kept}
        words = (*SPECIAL, *kept, *([MASK] if spec.mask else ()))
        return cls(words, counts, spec.threshold, spec.splits, captions, tokenizer)

    @classmethod
    def of_pieces(cls, path: Path) -> Vocabulary:
        """Take over the pieces of words of a file `vocab.txt`, one a line, in the order of their indices.

        Raises
        ------
        VseppError
            If the file cannot be read, lacks a special token or has a piece twice.
        """
        expected = f"pieces of words, one a line, {', '.join(SPECIAL_PIECES)} among them"
        lines = text_of(path, expected).removesuffix("\n").split("\n")
        vocabulary = cls(tuple(line.rstrip("\r") for line in lines), {}, 1, (), 0, TOKENIZER, PIECES)
        if lacking := [token for token in SPECIAL_PIECES if token not in vocabulary.index]:
            raise VseppError(f"{path}: has no {', no '.join(lacking)}; expected {expected}")
        for number, piece in enumerate(vocabulary.words):
            if (other := vocabulary.index[piece]) != number:
                raise VseppError(
                    f"{path}: lines {number + 1} and {other + 1} both are {piece!r}; expected {expected}"
                )
        return vocabulary

    def __len__(self) -> int:
        return len(self.words)

    @property
    def special(self) -> tuple[str, ...]:
        """What pads, begins and ends a caption, the unknown word, and the hidden word, which not every vocabulary has."""
        return SPECIAL_PIECES if self.kind == PIECES else (*SPECIAL, MASK)

    @property
    def unknown(self) -> int:
        """Index of the unknown word."""
        return self.index[self.special[3]]

    @property
    def mask(self) -> int | None:
        """Index of the token for a hidden word; `None` where the vocabulary has none."""
        return self.index.get(self.special[4])

    @cached_property
    def continued(self) -> np.ndarray:
        """bool `(n_words,)`: pieces that go on with the word of the token before; all false for a vocabulary of words."""
        return np.array([self.kind == PIECES and word.startswith(CONTINUED) for word in self.words])

    @cached_property
    def index(self) -> dict[str, int]:
        """Word → index."""
        return {word: i for i, word in enumerate(self.words)}

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """Indices of a caption's words between `<start>` and `<end>`; unknown words become `<unk>`. Pieces alike."""
        start, end, unknown = (self.index[token] for token in self.special[1:4])
        return [start, *(self.index.get(token, unknown) for token in tokens), end]

    def write(self, folder: Path) -> None:
        """Write `vocabulary.json` into a folder."""
        values = asdict(self)
        if self.kind == WORDS:
            del values["kind"]
        write_text(folder / FILE, json.dumps(values, ensure_ascii=False, indent=0) + "\n")

    @classmethod
    def read(cls, folder: Path) -> Vocabulary:
        """Read `vocabulary.json` of a folder.

        Raises
        ------
        VseppError
            If it is missing, is not a vocabulary, or is not as its step wrote it.
        """
        path = folder / FILE
        with reading(path, "a vocabulary; run the step that makes it again"):
            require_as_written(path)
            values = json.loads(path.read_text(encoding="utf-8"))
            words, splits = tuple(values.pop("words")), tuple(values.pop("splits"))
            vocabulary = cls(words, splits=splits, **values)
            special = vocabulary.special[: len(SPECIAL)]
            fits = set(special) <= {*words} if vocabulary.kind == PIECES else words[: len(special)] == special
            if not fits or len(vocabulary.index) != len(words):
                raise VseppError(
                    f"expected {', '.join(special)} and then different words, found {', '.join(words[:4])} and "
                    f"{len(words) - len(vocabulary.index)} repeated"
                )
        return vocabulary
