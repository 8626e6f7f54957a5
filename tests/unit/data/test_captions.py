from collections import Counter

import nltk
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsepp.base.declared import SPLITS
from vsepp.base.errors import VseppError
from vsepp.base.spec import VocabularySpec, to_dict
from vsepp.data.captions import build_vocabulary, encode_captions, tokenize
from vsepp.data.tokens import END, SPECIAL, START, UNKNOWN
from vsepp.data.vocabulary import Vocabulary

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
    "A dog runs . A cat sleeps .": ["a", "dog", "runs", ".", "a", "cat", "sleeps", "."],
    "Two t-shirts at 5:30 p.m. cost $3.50": ["two", "t-shirts", "at", "5:30", "p.m.", "cost", "$", "3.50"],
    "a red/white  bus,with 1,000 people\n": ["a", "red/white", "bus", ",", "with", "1,000", "people"],
    "Café Zoë — naïve “quotes”": ["café", "zoë", "—", "naïve", "“", "quotes", "”"],
    "<start> is no word": ["<", "start", ">", "is", "no", "word"],
}


@pytest.mark.parametrize("text", TRICKY)
def test_the_tokenizer_is_pinned(text):
    assert tokenize(text) == TRICKY[text]


PARTS = ["a", "dog", "10", "cannot", "wanna", "gimmes", ",", ", ", ".", " .", "\n", "  ", " ", "'s", "t"]


@given(st.text() | st.lists(st.sampled_from(PARTS), max_size=12).map("".join))
def test_it_is_nltks_word_tokenizer_without_a_sentence_splitter(text):
    assert tokenize(text) == nltk.word_tokenize(text.lower(), preserve_line=True)


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
    both = build_vocabulary(CAPTIONS, VocabularySpec(("train", "restval"), 2))
    assert both.words == (*SPECIAL, "a", "runs", "and", "b", "cat", "dog")
    assert "zebra" in build_vocabulary(CAPTIONS, VocabularySpec(SPLITS, 3)).index
    assert build_vocabulary(CAPTIONS, VocabularySpec(("train",), 3)).words[4:] == ("a",)


def test_the_hidden_word_is_the_last_one_and_changes_no_other_index(tmp_path):
    plain = build_vocabulary(CAPTIONS, VocabularySpec(("train",), 2))
    masked = build_vocabulary(CAPTIONS, VocabularySpec(("train",), 2, mask=True))
    assert masked.words == (*plain.words, "<mask>") and masked.counts == plain.counts
    assert masked.mask == len(plain) and plain.mask is None and not masked.continued.any()
    masked.write(tmp_path)
    assert Vocabulary.read(tmp_path) == masked
    assert to_dict(VocabularySpec(("train",), 2)) == {"splits": ["train"], "threshold": 2}


def test_unknown_words_become_unk_between_start_and_end():
    vocabulary = build_vocabulary(CAPTIONS, VocabularySpec(("train",), 2))
    tokens = encode_captions(CAPTIONS, vocabulary)
    assert len(tokens) == len(CAPTIONS)
    ids, lengths = tokens.eval([1, 3])
    assert ids.tolist() == [
        [START, 4, vocabulary.index["dog"], UNKNOWN, END],
        [START, UNKNOWN, UNKNOWN, UNKNOWN, END],
    ]
    assert lengths.tolist() == [5, 5]


@pytest.mark.parametrize(
    ("splits", "threshold", "said"),
    [
        (("train",), 4, r"empty vocabulary.*4 times.*3 captions of train,.*occurs 3 times.*threshold"),
        (("val",), 1, r"no captions in val.*restval, test, train"),
        ((), 1, r"no captions in no splits.*restval, test, train"),
    ],
)
def test_a_vocabulary_that_ends_up_empty_names_threshold_and_splits(splits, threshold, said):
    with pytest.raises(VseppError, match=said):
        build_vocabulary(CAPTIONS, VocabularySpec(splits, threshold))


words = st.text(alphabet="abcdé'.", min_size=1, max_size=4)


@given(st.lists(st.lists(words, min_size=1, max_size=8), min_size=1, max_size=15), st.integers(1, 4))
def test_a_vocabulary_holds_exactly_the_frequent_words(captions, threshold):
    seen = Counter(word for caption in captions for word in caption)
    frequent = {word for word, n in seen.items() if n >= threshold}
    spec = VocabularySpec(("train",), threshold)
    if not frequent:
        with pytest.raises(VseppError, match="empty vocabulary"):
            Vocabulary.of(captions, spec, "test")
        return
    vocabulary = Vocabulary.of(captions, spec, "test")
    assert set(vocabulary.words) == frequent | set(SPECIAL)
    assert vocabulary.counts == {word: seen[word] for word in frequent}
    order = [(-seen[word], word) for word in vocabulary.words[4:]]
    assert order == sorted(order)
    for caption in captions:
        ids = vocabulary.encode(caption)
        expected = [word if word in frequent else "<unk>" for word in caption]
        assert [vocabulary.words[i] for i in ids] == ["<start>", *expected, "<end>"]


def test_a_written_vocabulary_comes_back(tmp_path):
    captions = frame(("train", "a café is a café"))
    vocabulary = build_vocabulary(captions, VocabularySpec(("train", "restval"), 1))
    vocabulary.write(tmp_path)
    assert Vocabulary.read(tmp_path) == vocabulary
    assert "café" in (tmp_path / "vocabulary.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON: Expecting"),
        ("[]", "it is damaged; expected a vocabulary; run the step"),
        ('{"words": []}', "it is damaged; expected a vocabulary"),
        (
            '{"words": ["a"], "counts": {}, "threshold": 1, "splits": [], "captions": 1, "tokenizer": ""}',
            "expected <pad>, <start>, <end>, <unk>",
        ),
    ],
)
def test_a_file_that_is_no_vocabulary_is_named(tmp_path, text, message):
    (tmp_path / "vocabulary.json").write_text(text)
    with pytest.raises(VseppError, match=rf"vocabulary\.json: {message}"):
        Vocabulary.read(tmp_path)
