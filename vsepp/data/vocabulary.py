"""The words that a text encoder knows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from vsepp.data.tokens import END, SPECIAL, START, UNKNOWN
from vsepp.errors import VseppError
from vsepp.provenance.manifest import require_as_written
from vsepp.runtime.files import write_text
from vsepp.spec import VocabularySpec
from vsepp.user_files import reading

FILE = "vocabulary.json"


@dataclass(frozen=True)
class Vocabulary:
    """Words in the order of their indices, and what they were counted from."""

    words: tuple[str, ...]
    """`<pad>`, `<start>`, `<end>`, `<unk>`, then words by falling count, equal counts alphabetically."""
    counts: dict[str, int]
    """How often each word occurred, without the four special ones."""
    threshold: int
    """How often a word had to occur to be kept."""
    splits: tuple[str, ...]
    """Splits whose captions were counted."""
    captions: int
    """Number of captions counted."""
    tokenizer: str
    """What split the captions into words."""

    @classmethod
    def of(cls, tokenized: Iterable[Sequence[str]], spec: VocabularySpec, tokenizer: str) -> Vocabulary:
        """Count the words of captions and keep those that occur at least `spec.threshold` times.

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
        return cls((*SPECIAL, *kept), counts, spec.threshold, spec.splits, captions, tokenizer)

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def index(self) -> dict[str, int]:
        """Word → index."""
        return {word: i for i, word in enumerate(self.words)}

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """Indices of a caption's words between `<start>` and `<end>`; other words become `<unk>`."""
        return [START, *(self.index.get(token, UNKNOWN) for token in tokens), END]

    def write(self, folder: Path) -> None:
        """Write `vocabulary.json` into a folder."""
        write_text(folder / FILE, json.dumps(asdict(self), ensure_ascii=False, indent=0) + "\n")

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
            if words[: len(SPECIAL)] != SPECIAL or len(vocabulary.index) != len(words):
                raise VseppError(
                    f"expected {', '.join(SPECIAL)} and then different words, found {', '.join(words[:4])} and "
                    f"{len(words) - len(vocabulary.index)} repeated"
                )
        return vocabulary
