import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsepp.base.errors import VseppError
from vsepp.data.tokens import PAD, Tokens

captions_as_lists = st.lists(
    st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=9), min_size=1, max_size=20
)


@given(captions_as_lists)
def test_captions_come_back_as_they_went(rows):
    tokens = Tokens.from_lists(rows)
    assert len(tokens) == len(rows)
    assert [part.tolist() for part in np.split(tokens.ids, tokens.offsets[1:-1])] == rows
    assert tokens.lengths.tolist() == [len(row) for row in rows]
    assert tokens.ids.dtype == np.int32
    assert tokens.offsets.dtype == np.int64


@given(captions_as_lists, st.data())
def test_padding_is_what_a_loop_gives(rows, data):
    tokens = Tokens.from_lists(rows)
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=8))
    ids, lengths = tokens.eval(chosen)
    longest = max((len(rows[i]) for i in chosen), default=0)
    assert ids.shape == (len(chosen), longest)
    assert ids.dtype == lengths.dtype == np.int64
    assert lengths.tolist() == [len(rows[i]) for i in chosen]
    assert ids.tolist() == [rows[i] + [PAD] * (longest - len(rows[i])) for i in chosen]


def test_saved_tokens_are_the_same(tmp_path):
    tokens = Tokens.from_lists([[1, 7, 2], [1, 2], [1, 5, 6, 2]])
    tokens.save(tmp_path / "tokens")
    back = Tokens.load(tmp_path / "tokens")
    assert np.array_equal(back.ids, tokens.ids)
    assert np.array_equal(back.offsets, tokens.offsets)


def test_a_missing_or_damaged_file_is_named(tmp_path):
    with pytest.raises(VseppError, match=r"tokens\.npz: no such file"):
        Tokens.load(tmp_path)
    (tmp_path / "tokens.npz").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(VseppError, match=r"tokens\.npz: it is damaged; expected a token file"):
        Tokens.load(tmp_path)
