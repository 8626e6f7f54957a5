import resource
import signal

import numpy as np
import pytest

from vsepp.errors import VseppError
from vsepp.features.growing import GrowingRows
from vsepp.provenance.space import check_space

ROWS = np.arange(70, dtype=np.float32).reshape(10, 7)

pytestmark = pytest.mark.resume


def test_a_finished_file_is_a_npy_file(tmp_path):
    path = tmp_path / "rows.npy"
    rows = GrowingRows(path, (10, 7), np.float32, 4)
    for start in (0, 4, 8):
        rows.append(ROWS[start : start + 4])
    np.testing.assert_array_equal(np.load(path, mmap_mode="r"), ROWS)
    assert GrowingRows(path, (10, 7), np.float32, 4).done == 10


def test_what_was_cut_off_in_the_middle_of_a_chunk_is_written_again(tmp_path):
    path = tmp_path / "rows.npy"
    GrowingRows(path, (10, 7), np.float32, 4).append(ROWS[:4])
    with path.open("ab") as stream:
        stream.write(b"x" * 61)
    rows = GrowingRows(path, (10, 7), np.float32, 4)
    assert rows.done == 4
    assert rows.missing_bytes == 6 * 7 * 4
    rows.append(ROWS[4:8])
    rows.append(ROWS[8:])
    np.testing.assert_array_equal(np.load(path), ROWS)


@pytest.mark.parametrize("content", [b"", b"nonsense" * 40])
def test_a_file_of_something_else_is_begun_anew(tmp_path, content):
    path = tmp_path / "rows.npy"
    path.write_bytes(content)
    assert GrowingRows(path, (10, 7), np.float32, 4).done == 0
    GrowingRows(path, (10, 7), np.float32, 4).append(ROWS[:4])
    assert GrowingRows(path, (10, 8), np.float32, 4).done == 0


def test_a_full_disk_is_said_and_keeps_what_is_done(tmp_path):
    path = tmp_path / "rows.npy"
    rows = GrowingRows(path, (10, 7), np.float32, 4)
    rows.append(ROWS[:4])
    # A limit on the size of files stops a write as a full disk does.
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 50, before[1]))
    try:
        with pytest.raises(VseppError, match=r"rows\.npy: no space left after 4 of 10 rows"):
            rows.append(ROWS[4:8])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    again = GrowingRows(path, (10, 7), np.float32, 4)
    assert again.done == 4


def test_too_little_space_is_said_before_anything_is_written(tmp_path):
    check_space(tmp_path, 1, "nothing")
    with pytest.raises(VseppError, match=r"a tape needs 1,152,921,504\.61 GB"):
        check_space(tmp_path, 2**60, "a tape")
