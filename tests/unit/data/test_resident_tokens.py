import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vsepp.data.resident_tokens import ResidentTokens
from vsepp.data.tokens import Tokens

CAPTIONS = st.lists(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=9), min_size=1, max_size=12)


@given(CAPTIONS, st.data())
def test_a_gather_gives_what_padding_on_the_host_gives(captions, data):
    tokens = Tokens.from_lists(captions)
    rows = np.array(data.draw(st.lists(st.integers(0, len(captions) - 1), max_size=20)), np.int64)
    ids, lengths = ResidentTokens(tokens, torch.device("cpu")).padded(rows)
    expected, expected_lengths = tokens.padded(rows)
    assert ids.dtype == lengths.dtype == torch.int64
    assert ids.shape == expected.shape
    assert np.array_equal(ids.numpy(), expected)
    assert np.array_equal(lengths.numpy(), expected_lengths)


@pytest.mark.parametrize("rows", [[3], [-1]])
def test_a_row_beyond_the_last_is_refused(rows):
    tokens = Tokens.from_lists([[1, 2]] * 3)
    with pytest.raises(IndexError, match="of 3"):
        ResidentTokens(tokens, torch.device("cpu")).padded(np.array(rows))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_a_batch_on_a_gpu_waits_for_nothing():
    tokens = Tokens.from_lists([[1, 5, 6, 2], [1, 2], [1, 7, 2]])
    resident = ResidentTokens(tokens, torch.device("cuda"))
    rows = np.array([2, 0, 0, 1])
    resident.padded(rows)
    torch.cuda.set_sync_debug_mode("error")
    try:
        ids, lengths = resident.padded(rows)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    expected, expected_lengths = tokens.padded(rows)
    assert lengths.device.type == "cpu"
    assert np.array_equal(ids.cpu().numpy(), expected)
    assert np.array_equal(lengths.numpy(), expected_lengths)
