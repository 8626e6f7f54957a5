import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsepp.runtime.shards import Shards

lengths = st.lists(st.integers(1, 6), min_size=1, max_size=5)
bounds = st.one_of(st.none(), st.integers(-40, 40))


def cut(rows, lengths):
    return np.split(rows, np.cumsum(lengths)[:-1])


@given(lengths, st.data())
def test_rows_are_those_of_one_array(lengths, data):
    whole = np.arange(3 * sum(lengths)).reshape(-1, 3)
    shards = Shards(cut(whole, lengths))
    assert (len(shards), shards.shape, shards.ndim, shards.nbytes) == (
        len(whole),
        whole.shape,
        2,
        whole.nbytes,
    )
    np.testing.assert_array_equal(np.asarray(shards), whole)
    part = data.draw(st.builds(slice, bounds, bounds, st.sampled_from([None, 1, 2, -1])))
    np.testing.assert_array_equal(shards[part], whole[part])
    rows = np.array(data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=9)), dtype=np.int64)
    np.testing.assert_array_equal(shards[rows], whole[rows])
    assert [shards[int(row)].tolist() for row in rows] == whole[rows].tolist()


def test_a_range_in_one_shard_is_a_view():
    whole = np.arange(10)
    assert np.shares_memory(Shards(cut(whole, [4, 6]))[5:9], whole)


def test_a_range_that_ends_before_it_starts_is_empty():
    assert Shards(cut(np.arange(10), [1, 9]))[1:0].shape == (0,)


@pytest.mark.parametrize("row", [7, -8])
def test_a_row_beyond_the_last_is_refused(row):
    with pytest.raises(IndexError):
        Shards([np.arange(3), np.arange(4)])[row]
