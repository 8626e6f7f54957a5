import numpy as np
import pytest

from vsepp.features.resumable_array import GrowingRows

ROWS = np.arange(70, dtype=np.float32).reshape(10, 7)

pytestmark = pytest.mark.resume


@pytest.mark.parametrize("content", [b"", b"nonsense" * 40])
def test_a_file_of_something_else_is_begun_anew(tmp_path, content):
    path = tmp_path / "rows.npy"
    path.write_bytes(content)
    assert GrowingRows(path, (10, 7), np.float32, 4).done == 0
    GrowingRows(path, (10, 7), np.float32, 4).append(ROWS[:4])
    assert GrowingRows(path, (10, 8), np.float32, 4).done == 0
