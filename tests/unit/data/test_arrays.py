"""Archives of arrays that others wrote: what each kind of damage gets, before any memory is taken for it."""

import io
import os
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from vsepp.base.errors import VseppError
from vsepp.data.arrays import read_arrays

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
        read_arrays(path, KNOWN, "an .npz of rows")
    assert str(caught.value).startswith(str(path))
    return str(caught.value)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("order", ["C", "F"])
def test_plain_arrays_come_back(tmp_path, method, order):
    arrays = {"rows": np.array(ROWS, order=order), "name": np.array("über")}
    path = archive(
        tmp_path / "a.npz", *((f"{key}.npy", npy(value)) for key, value in arrays.items()), method=method
    )
    found = read_arrays(path, KNOWN, "an .npz of rows")
    assert found.keys() == arrays.keys()
    for key, value in arrays.items():
        np.testing.assert_array_equal(found[key], value)
        assert found[key].dtype == value.dtype and found[key].flags.writeable


MEMBERS = {
    "unknown": (
        [("rowz.npy", npy())],
        "'rowz.npy', expected rows, name; did you mean rows?",
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
