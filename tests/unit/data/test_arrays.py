"""Arrays in files: what each kind of damage gets, before any memory is taken for it; a file that grows goes on after a kill."""

import io
import os
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from vsepp.base.errors import VseppError
from vsepp.data.arrays import open_rows, read_npz, write_rows

KNOWN = ("rows", "name")
ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)


def npy(array=ROWS, **header):
    """A `.npy` file; parts of its header may say something else."""
    stream = io.BytesIO()
    np.save(stream, array)
    if not header:
        return stream.getvalue()
    said = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape, **header}
    text = repr(said).encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + array.tobytes()


def archive(path, *members, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as out:
        for name, content in members:
            out.writestr(name, content)
    return path


def refused(path):
    with pytest.raises(VseppError) as caught:
        read_npz(path, KNOWN, "an .npz of rows")
    assert str(caught.value).startswith(str(path))
    return str(caught.value)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("order", ["C", "F"])
def test_plain_arrays_come_back(tmp_path, method, order):
    arrays = {"rows": np.array(ROWS, order=order), "name": np.array("über")}
    path = archive(
        tmp_path / "a.npz", *((f"{key}.npy", npy(value)) for key, value in arrays.items()), method=method
    )
    found = read_npz(path, KNOWN, "an .npz of rows")
    assert found.keys() == arrays.keys()
    for key, value in arrays.items():
        np.testing.assert_array_equal(found[key], value)
        assert found[key].dtype == value.dtype and found[key].flags.writeable


MEMBERS = {
    "unknown": (
        [("rowz.npy", npy())],
        "'rowz.npy', none of rows, name; did you mean rows?",
    ),
    "no .npy": ([("rows", npy())], "'rows'"),
    "twice": (
        [("rows.npy", npy()), ("rows.npy", npy())],
        "'rows.npy'",
    ),
    "objects": ([("rows.npy", npy(descr="|O"))], "rows"),
    "no header": ([("rows.npy", b"x" * 200)], "rows"),
    "93 GiB": ([("rows.npy", npy(shape=(25_000_000_000,)))], "rows"),
    "more rows": ([("rows.npy", npy(shape=(4, 4)))], "rows"),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("case", MEMBERS)
def test_members_that_are_not_as_they_should_be_are_named(tmp_path, case):
    members, said = MEMBERS[case]
    assert said in refused(archive(tmp_path / "a.npz", *members))


def test_what_is_no_archive_is_said_to_be_what_it_is(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    assert "a FIFO, not a file; expected an .npz of rows" in refused(tmp_path / "fifo")
    assert "a folder, not a file" in refused(tmp_path)
    assert "no such file" in refused(tmp_path / "none")
    assert "a device, not a file" in refused(Path("/dev/zero"))


def test_an_encrypted_archive_is_called_encrypted(tmp_path):
    path = archive(tmp_path / "a.npz", ("rows.npy", npy()))
    data = bytearray(path.read_bytes())
    for head, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(head) + flags] |= 1
    path.write_bytes(data)
    assert "rows.npy: is encrypted; give a copy that needs no password" in refused(path)


@pytest.mark.parametrize(("field", "number"), [(24, 100 << 30), (42, 1 << 40)])
def test_a_directory_that_lies_about_sizes_takes_no_memory(tmp_path, field, number):
    path = archive(tmp_path / "a.npz", ("rows.npy", npy()))
    data = bytearray(path.read_bytes())
    entry = data.index(b"PK\x01\x02")
    data[entry + field : entry + field + 4] = b"\xff" * 4
    extra = struct.pack("<HHQ", 1, 8, number)
    data[entry + 30 : entry + 32] = struct.pack("<H", len(extra))
    end = entry + 46 + len("rows.npy")
    data[end:end] = extra
    eocd = data.index(b"PK\x05\x06")
    data[eocd + 12 : eocd + 16] = struct.pack("<I", eocd - entry)
    path.write_bytes(data)
    tracemalloc.start()
    try:
        refused(path)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_rows_come_back_read_only(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    for tail in ((4,), (None,), None):
        mapped = open_rows(tmp_path / "rows.npy", np.float32, tail, 3)
        np.testing.assert_array_equal(mapped, ROWS)
        assert isinstance(mapped, np.memmap) and not mapped.flags.writeable


def _pickled(path):
    np.save(path, np.array([{}, {}], object), allow_pickle=True)


DAMAGED = {
    "pickled": _pickled,
    "cut": lambda path: path.write_bytes(npy()[:-1]),
    "longer": lambda path: path.write_bytes(npy() + b"more"),
    "something else": lambda path: path.write_bytes(b"no array" * 40),
    "an archive": lambda path: archive(path, ("rows.npy", npy())),
    "empty": lambda path: path.write_bytes(b""),
    "no rows": lambda path: np.save(path, ROWS[:0]),
    "more rows": lambda path: np.save(path, np.zeros((4, 4), np.float32)),
    "another type": lambda path: np.save(path, ROWS.astype(np.float16)),
    "another width": lambda path: np.save(path, ROWS[:, :2]),
    "other dimensions": lambda path: np.save(path, ROWS[:, None]),
    "a folder": lambda path: path.mkdir(),
    "missing": lambda path: None,
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_file_of_our_own_is_named_with_what_to_delete(tmp_path, case):
    path = tmp_path / "rows.npy"
    DAMAGED[case](path)
    with pytest.raises(VseppError) as caught:
        open_rows(path, np.float32, (4,), 3)
    assert str(caught.value).startswith(str(path)) and f"delete {tmp_path}" in str(caught.value)


def write(path, starts, rows=ROWS):
    made = []

    def make(first, last):
        made.append((first, last))
        return rows[first:last]

    write_rows(path, rows.shape, rows.dtype, starts, make, what="rows", unit="row")
    return made


@pytest.mark.resume
@pytest.mark.parametrize(
    ("rows_written", "made"), [(0, [(0, 2), (2, 3)]), (1, [(0, 2), (2, 3)]), (2, [(2, 3)]), (3, [])]
)
def test_a_killed_file_goes_on_after_its_last_whole_chunk(tmp_path, rows_written, made):
    path = tmp_path / "state" / "rows.npy"
    assert write(path, [0, 2]) == [(0, 2), (2, 3)]
    whole = path.read_bytes()
    assert whole == npy()
    path.write_bytes(whole[: len(whole) - (3 - rows_written) * 16 + (rows_written < 3) * 5])
    assert write(path, [0, 2]) == made
    assert path.read_bytes() == whole


@pytest.mark.resume
@pytest.mark.parametrize("content", [b"", b"nonsense" * 40, npy(ROWS.T.copy())])
def test_a_file_of_something_else_is_begun_anew(tmp_path, content):
    path = tmp_path / "rows.npy"
    path.write_bytes(content)
    assert write(path, [0, 1, 2]) == [(0, 1), (1, 2), (2, 3)]
    assert path.read_bytes() == npy()
