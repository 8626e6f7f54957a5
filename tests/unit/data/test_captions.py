"""Words of captions, their vocabulary, and captions as numbers."""

import re
import time
from collections import Counter

import nltk
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsepp.base.declared import SPLITS
from vsepp.base.errors import VseppError
from vsepp.base.spec import AS_WRITTEN, CaptionKeys, VocabularySpec, to_dict
from vsepp.data.captions import (
    PAD,
    SPECIAL,
    START,
    Tokens,
    Vocabulary,
    read_text,
    tokenize,
)

TRICKY = {
    "A man's hat, a dog's 'toy' & two boys' kites.": [
        *["a", "man", "'s", "hat", ",", "a", "dog", "'s", "'", "toy", "'", "&"],
        *["two", "boys", "'", "kites", "."],
    ],
    'The sign says "STOP" (again)!': ["the", "sign", "says", "``", "stop", "''", "(", "again", ")", "!"],
    "They can't, won't and don't wanna go...": [
        *["they", "ca", "n't", ",", "wo", "n't", "and", "do", "n't", "wan", "na", "go", "..."]
    ],
    # A full stop inside stays on its word: there is no sentence splitter.
    "A dog runs. A cat sleeps.": ["a", "dog", "runs.", "a", "cat", "sleeps", "."],
    "Café Zoë — naïve “quotes”": ["café", "zoë", "—", "naïve", "“", "quotes", "”"],
    "A\x1b \x07dog\tx": ["a\x1b", "\x07dog", "x"],
}


@pytest.mark.parametrize("text", TRICKY)
def test_the_tokenizer_is_pinned(text):
    assert tokenize(text) == TRICKY[text]


PARTS = [
    "a",
    "dog",
    "10",
    "cannot",
    "wanna",
    "gimmes",
    ",",
    ", ",
    ".",
    " .",
    "\n",
    "  ",
    " ",
    "'s",
    "t",
    "-",
    "x-y",
]


@given(st.text() | st.lists(st.sampled_from(PARTS), max_size=12).map("".join))
def test_it_is_nltks_word_tokenizer_without_a_sentence_splitter(text):
    assert tokenize(text) == nltk.word_tokenize(text.lower(), preserve_line=True)


LONG = {
    "spaces": "a." + " \t\u2003" * 60_000 + "x",
    "brackets": "a." + ")" * 200_000 + "x",
    "quotes": "' " * 100_000,
}


@pytest.mark.parametrize("case", LONG)
def test_the_time_of_a_long_caption_is_linear_in_its_length(case):
    started = time.process_time()
    tokenize(LONG[case])
    assert time.process_time() - started < 5


@given(st.text(alphabet=st.sampled_from("<>/padstrenunk \t.'\"")))
def test_no_caption_spells_a_special_word(text):
    assert not set(SPECIAL) & set(tokenize(text))


def frame(*rows):
    """A captions table of (split, text)."""
    return pd.DataFrame(
        {
            "caption_id": range(len(rows)),
            "image_index": range(len(rows)),
            "text": [text for _, text in rows],
            "split": [split for split, _ in rows],
        }
    )


CAPTIONS = frame(
    ("train", "a dog and a cat"),
    ("train", "a Dog runs"),
    ("restval", "the cat runs and runs"),
    ("test", "zebra zebra zebra"),
    ("train", "b b"),
)


def test_only_the_given_splits_are_counted_and_words_seen_exactly_so_often_kept():
    both = Vocabulary.from_captions(CAPTIONS, VocabularySpec(("train", "restval"), 2))
    assert both.words == (*SPECIAL, "a", "runs", "and", "b", "cat", "dog")
    assert "zebra" in Vocabulary.from_captions(CAPTIONS, VocabularySpec(SPLITS, 3)).index
    assert Vocabulary.from_captions(CAPTIONS, VocabularySpec(("train",), 3)).words[4:] == ("a",)


def test_the_hidden_word_is_the_last_one_and_changes_no_other_index(tmp_path):
    plain = Vocabulary.from_captions(CAPTIONS, VocabularySpec(("train",), 2))
    masked = Vocabulary.from_captions(CAPTIONS, VocabularySpec(("train",), 2, mask=True))
    assert masked.words == (*plain.words, "<mask>") and masked.counts == plain.counts
    assert masked.mask == len(plain) and plain.mask is None and not masked.continued.any()
    masked.write(tmp_path)
    assert Vocabulary.read(tmp_path) == masked
    assert to_dict(VocabularySpec(("train",), 2)) == {"splits": ["train"], "threshold": 2}


def pre_caption(caption, words):
    """X-VLM's dataset/utils.py, written down from it."""
    caption = re.sub(r"([,.'!?\"()*#:;~])", "", caption.lower())
    caption = caption.replace("-", " ").replace("/", " ").replace("<person>", "person")
    caption = re.sub(r"\s{2,}", " ", caption).rstrip("\n").strip(" ")
    return " ".join(caption.split(" ")[:words])


@pytest.mark.parametrize(
    "text",
    [
        'A "dog" (black-and-white)  runs; why?! It\'s #1: yes/no * ~ \n',
        "<Person>'s  hat.",
        "a b c d e f g",
        " - ",
    ],
)
def test_a_cleaned_caption_is_that_of_xvlms_code_and_goes_without_its_end(text, tmp_path):
    keys = CaptionKeys(clean_captions=True, first_words=5, end_token=False)
    assert read_text(text, keys) == pre_caption(text, 5)
    assert read_text(text, AS_WRITTEN) == text
    spec = VocabularySpec(("train",), 1, clean_captions=True, first_words=5, end_token=False)
    vocabulary = Vocabulary.from_captions(frame(("train", "a dog"), ("train", text)), spec)
    words = pre_caption(text, 5).split()
    assert [vocabulary.words[i] for i in vocabulary.encode(text)] == [
        SPECIAL[START],
        *tokenize(" ".join(words)),
    ]
    vocabulary.write(tmp_path)
    assert Vocabulary.read(tmp_path) == vocabulary


@pytest.mark.parametrize(
    ("splits", "threshold", "message"),
    [
        (("train",), 4, "empty vocabulary.*4 times.*3 captions of train.*threshold"),
        (("val",), 1, "val.*restval, test, train"),
    ],
)
def test_a_vocabulary_that_ends_up_empty_names_threshold_and_splits(splits, threshold, message):
    with pytest.raises(VseppError, match=message):
        Vocabulary.from_captions(CAPTIONS, VocabularySpec(splits, threshold))


words = st.text(alphabet="abcdé'.", min_size=1, max_size=4)


@given(
    st.lists(st.lists(words, min_size=1, max_size=8).map(" ".join), min_size=1, max_size=15),
    st.integers(1, 4),
)
def test_a_vocabulary_holds_exactly_the_frequent_words(texts, threshold):
    captions = frame(*(("train", text) for text in texts))
    seen = Counter(word for text in texts for word in tokenize(text))
    frequent = {word for word, n in seen.items() if n >= threshold}
    spec = VocabularySpec(("train",), threshold)
    if not frequent:
        with pytest.raises(VseppError, match="empty vocabulary"):
            Vocabulary.from_captions(captions, spec)
        return
    vocabulary = Vocabulary.from_captions(captions, spec)
    assert set(vocabulary.words) == frequent | set(SPECIAL)
    assert vocabulary.counts == {word: seen[word] for word in frequent}
    order = [(-seen[word], word) for word in vocabulary.words[4:]]
    assert order == sorted(order)
    for text in texts:
        expected = [word if word in frequent else "<unk>" for word in tokenize(text)]
        assert [vocabulary.words[i] for i in vocabulary.encode(text)] == ["<start>", *expected, "<end>"]


token_ids = st.lists(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=9), min_size=1, max_size=20)


def test_captions_come_back_as_they_went(tmp_path):
    rows = [[1, 7, 2], [1, 2], [1, 5, 2**31 - 1, 2]]
    Tokens.from_lists(rows).save(tmp_path)
    tokens = Tokens.load(tmp_path)
    assert [part.tolist() for part in np.split(tokens.ids, tokens.offsets[1:-1])] == rows
    assert tokens.lengths.tolist() == [3, 2, 4] and len(tokens) == 3
    assert tokens.ids.dtype == np.int32 and tokens.offsets.dtype == np.int64


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / "tokens.npz").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(VseppError, match=r"tokens\.npz"):
        Tokens.load(tmp_path)
    for text in ("{", "[]", '{"words": []}'):
        (tmp_path / "vocabulary.json").write_text(text)
        with pytest.raises(VseppError, match=r"vocabulary\.json"):
            Vocabulary.read(tmp_path)


@given(token_ids, st.data())
def test_padding_is_what_a_loop_gives(rows, data):
    tokens = Tokens.from_lists(rows)
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=8))
    ids, lengths = tokens.eval(chosen)
    longest = max((len(rows[i]) for i in chosen), default=0)
    assert ids.shape == (len(chosen), longest)
    assert ids.dtype == lengths.dtype == np.int64
    assert lengths.tolist() == [len(rows[i]) for i in chosen]
    assert ids.tolist() == [rows[i] + [PAD] * (longest - len(rows[i])) for i in chosen]
