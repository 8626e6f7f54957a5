"""Archives of arrays that others wrote."""

import io
import os
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from vsepp.data.arrays import read_arrays
from vsepp.errors import VseppError

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
        assert found[key].dtype == value.dtype


def test_an_array_of_another_name_is_named_with_the_nearest_known_one(tmp_path):
    path = archive(tmp_path / "a.npz", ("rowz.npy", npy()))
    assert "arrays of no known name (1 in all): rowz; did you mean rows?. Expected rows, name." in refused(
        path
    )


DAMAGED = {
    "objects": npy(descr="|O"),
    "93 GiB": npy(shape=(25_000_000_000,)),
    "more rows": npy(shape=(4, 4)),
    "less than none": npy(shape=(-3, -4)),
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_what_is_no_whole_array_of_numbers_is_refused_and_never_unpickled(tmp_path, content):
    said = refused(archive(tmp_path / "a.npz", ("rows.npy", content)))
    assert "a.npz: rows: " in said and "; expected a whole array, without Python objects" in said


def test_what_is_no_archive_is_said_to_be_what_it_is(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    assert "a FIFO, socket or device, not a file; expected an .npz of rows" in refused(tmp_path / "fifo")
    assert "a folder, not a file" in refused(tmp_path)
    assert "no such file" in refused(tmp_path / "none")
    assert "a FIFO, socket or device, not a file" in refused(Path("/dev/zero"))
    (tmp_path / "rows.npy").write_bytes(npy())
    assert "it is damaged; expected an .npz of rows" in refused(tmp_path / "rows.npy")
