"""What a training step drops of images and captions: shares, order, one at least, and nothing that depends on the batch."""

import dataclasses

import numpy as np
import pytest
import specs
import torch
from hypothesis import given
from hypothesis import strategies as st

from vsepp.base.declared import PIECES
from vsepp.base.errors import VseppError
from vsepp.base.run_spec import SizeAugmentationSpec
from vsepp.base.spec import CaptionKeys
from vsepp.data.captions import END, MASK, PAD, SPECIAL, SPECIAL_PIECES, START, UNKNOWN, Tokens, Vocabulary
from vsepp.features.captions import CaptionStates
from vsepp.features.images import Images
from vsepp.models.sets import ImageBatch
from vsepp.training.augment import TrainingCaptions, augmented_images

IMAGES, VECTORS, WORDS = 2_000, 36, 500
VOCABULARY = Vocabulary((*SPECIAL, *map(str, range(len(SPECIAL), WORDS - 1)), MASK), {}, 1, (), 0, "")
ALL, IDS = np.arange(IMAGES), np.arange(IMAGES) * 7 + 3


def run(**augmentation):
    return dataclasses.replace(specs.RUN, size_augmentation=SizeAugmentationSpec(**augmentation))


class Numbered:
    """Sets whose vectors are their places from 1."""

    def train(self, rows, epoch):
        return ImageBatch(torch.arange(1.0, VECTORS + 1).expand(len(rows), -1)[:, :, None])


class Padded(Numbered):
    """The same, of other lengths."""

    lengths = torch.from_numpy(np.random.default_rng(0).integers(1, VECTORS + 1, IMAGES))

    def train(self, rows, epoch):
        padding = torch.arange(VECTORS) >= self.lengths[:, None]
        values = super().train(rows, epoch).values.masked_fill(padding[:, :, None], 0.0)
        return ImageBatch(values, self.lengths)


def images_of(augmented_run, trained=None):
    return augmented_images(Images(trained or Numbered(), None, 1, {}), augmented_run, IDS)


def places(batch):
    return [values[:length, 0].tolist() for values, length in zip(batch.values, batch.lengths, strict=True)]


@pytest.mark.parametrize(("by", "share"), [("vector", 0.2), ("image", 0.096)])
def test_vectors_are_dropped_in_the_released_shares_and_keep_their_order(by, share):
    batch = images_of(run(drop_vectors=0.2, drop_vectors_by=by)).train(ALL, 0)
    rows = places(batch)
    assert all(row == sorted(row) and len(set(row)) == len(row) and 0 not in row for row in rows)
    assert 1 - sum(map(len, rows)) / (IMAGES * VECTORS) == pytest.approx(share, abs=0.005)
    padding = torch.arange(batch.values.shape[1]) >= batch.lengths[:, None]
    assert (batch.values[padding] == 0).all() and batch.values.shape[1] == batch.lengths.max()
    if by == "image":
        assert sum(len(row) == VECTORS for row in rows) / IMAGES == pytest.approx(0.2, abs=0.05)


def test_dropped_vectors_depend_on_the_caption_the_epoch_and_the_draw_alone():
    dropping = run(drop_vectors=0.2)
    images = images_of(dropping)
    whole = places(images.train(np.arange(50), 0))
    assert [places(images.train(np.array([row]), 0))[0] for row in range(50)] == whole
    assert places(images.train(np.arange(50), 1)) != whole
    other = images_of(dataclasses.replace(dropping, draw=9))
    assert places(other.train(np.arange(50), 0)) != whole


def test_sets_of_other_lengths_lose_their_own_vectors_only():
    rows = places(images_of(run(drop_vectors=0.2), Padded()).train(ALL, 0))
    assert all(row and row[-1] <= length for row, length in zip(rows, Padded.lengths.tolist(), strict=True))
    assert 1 - sum(map(len, rows)) / int(Padded.lengths.sum()) == pytest.approx(0.2, abs=0.01)


def test_one_vector_stays_at_least():
    assert images_of(run(drop_vectors=1.0)).train(ALL, 0).lengths.min() == 1


def captions(lengths):
    """Captions of different words, from `<start>` to `<end>`; the last word of the vocabulary is `<mask>`."""
    return Tokens.from_lists([[START, *range(10, 8 + length), END] for length in lengths])


TWENTY = captions([20] * IMAGES)
TOTAL = IMAGES * 18


def thinned(tokens, states=None, vocabulary=VOCABULARY, **augmentation):
    """Captions of chosen rows as a step reads them."""
    return TrainingCaptions(states or tokens, run(**augmentation), IDS, vocabulary).train


def words_of(ids, lengths):
    return [row[:length].tolist() for row, length in zip(ids, lengths, strict=True)]


@pytest.mark.parametrize(
    ("by", "shares"), [("deletion", (0, 0, 0.20)), ("mask", (0.10, 0.02, 0.08))], ids=["deletion", "mask"]
)
def test_words_are_masked_replaced_or_deleted_in_their_shares_and_the_ends_stay(by, shares):
    ids, lengths = thinned(TWENTY, drop_words=0.2, drop_words_by=by)(ALL, 0)
    rows = words_of(ids, lengths)
    assert all(row[0] == START and row[-1] == END for row in rows)
    assert (ids[np.arange(ids.shape[1]) >= lengths[:, None]] == PAD).all()
    words = [word for row in rows for word in row[1:-1]]
    masked, left = words.count(WORDS - 1), [word for word in words if word != WORDS - 1]
    # 18 of the 495 words that a word may become are the captions' words.
    replaced = sum(not 10 <= word < 28 for word in left) * 495 / 477
    changes = masked / TOTAL, replaced / TOTAL, 1 - len(words) / TOTAL
    assert changes == pytest.approx(shares, abs=0.005)
    assert min(words) >= len(SPECIAL)
    if by == "deletion":
        assert all(row == sorted(row) for row in (row[1:-1] for row in rows))


def test_by_mask_any_the_ends_are_words_and_any_token_replaces_a_word():
    ids, _ = thinned(TWENTY, drop_words=0.2, drop_words_by="mask_any")(ALL, 0)
    assert (ids[:, 0] == START).mean() == pytest.approx(0.8, abs=0.03)
    assert (ids[:, 0] == WORDS - 1).mean() == pytest.approx(0.1, abs=0.02)
    # The start is deleted, and the first word stays as it was.
    assert (ids[:, 0] == 10).mean() == pytest.approx(0.064, abs=0.02)
    # Of the four special tokens each replaces a word in .02 / 500 of the places.
    assert 0 < (ids[:, 1:11] <= UNKNOWN).sum() < 20


def test_without_an_end_the_last_word_is_a_word():
    tokens = Tokens.from_lists([[START, 10, 11]] * IMAGES)
    vocabulary = dataclasses.replace(VOCABULARY, read_as=CaptionKeys(end_token=False))
    rows = words_of(*thinned(tokens, vocabulary=vocabulary, drop_words=0.2)(ALL, 0))
    assert {tuple(row) for row in rows} == {(START, 10), (START, 11), (START, 10, 11)}


@given(
    lengths=st.lists(st.integers(2, 9), min_size=1, max_size=20),
    share=st.floats(0.01, 1),
    epoch=st.integers(0, 9),
)
def test_a_caption_keeps_a_word_where_it_has_any(lengths, share, epoch):
    for by, least in (("deletion", 3), ("mask", 3), ("mask_any", 1)):
        captions_of = thinned(captions(lengths), drop_words=share, drop_words_by=by)
        _, left = captions_of(np.arange(len(lengths)), epoch)
        assert (left <= lengths).all() and (left >= np.minimum(lengths, least)).all()


def test_all_pieces_of_a_word_are_left_out_or_masked_together_and_replaced_by_any_pieces():
    # Odd pieces go on with a word; so many that a random piece is none of the caption's.
    names = (*SPECIAL_PIECES, *(f"{'##' * (k % 2)}{k}" for k in range(len(SPECIAL_PIECES), 50_000)))
    vocabulary = Vocabulary(names, {}, 1, (), 0, "", PIECES)
    tokens = Tokens.from_lists([[1, *range(10, 30), 2]] * IMAGES)

    def words(**augmentation):
        rows = words_of(*thinned(tokens, vocabulary=vocabulary, **augmentation)(ALL, 0))
        assert all((row[0], row[-1]) == (1, 2) for row in rows)
        return np.array([row[k : k + 2] for row in rows for k in range(1, len(row) - 1, 2)])

    masked = words(drop_words=0.2, drop_words_by="mask")
    hidden, unchanged = masked == vocabulary.mask, masked[:, 0] + 1 == masked[:, 1]
    replaced = ~hidden[:, 0] & ~unchanged
    assert (hidden[:, 0] == hidden[:, 1]).all() and masked[replaced].max() > 40_000
    shares = hidden[:, 0].sum(), replaced.sum(), IMAGES * 10 - len(masked)
    assert [share / (IMAGES * 10) for share in shares] == pytest.approx([0.10, 0.02, 0.08], abs=0.006)
    deleted = words(drop_words=0.2)
    assert (deleted[:, 0] + 1 == deleted[:, 1]).all()
    assert 1 - len(deleted) / (IMAGES * 10) == pytest.approx(0.2, abs=0.01)
    assert len(words(drop_words=1.0)) == IMAGES, "one word stays"


def test_of_states_the_same_tokens_are_left_out_and_none_is_masked():
    tokens = captions([5, 9, 3, 12])
    states = CaptionStates(tokens, np.repeat(tokens.ids[:, None], 2, axis=1).astype(np.float32))
    rows = np.array([3, 0, 1, 2])
    ids, lengths = thinned(tokens, drop_words=0.4)(rows, 1)
    values, left = thinned(tokens, states, drop_words=0.4)(rows, 1)
    assert left.tolist() == lengths.tolist()
    inside = np.arange(ids.shape[1]) < lengths[:, None]
    assert (values[inside] == ids[inside][:, None]).all()


def test_words_are_masked_only_where_a_model_can_hide_them():
    tokens = captions([4])
    states = CaptionStates(tokens, tokens.ids[:, None].astype(np.float32))
    with pytest.raises(VseppError, match="mask"):
        thinned(tokens, states, drop_words=0.2, drop_words_by="mask")
