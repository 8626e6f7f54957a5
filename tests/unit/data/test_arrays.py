"""Arrays in files: damage is named before memory is taken for it; a killed file goes on after its last whole chunk."""

import io
import struct
import zipfile

import numpy as np
import pytest

from vsepp.base.errors import VseppError
from vsepp.data.arrays import NpyRows, open_rows, read_npz, write_rows
from vsepp.data.container import Container

ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)


def npy(array=ROWS, **header):
    """A `.npy` file; parts of its header may claim something else."""
    stream = io.BytesIO()
    np.save(stream, array)
    if not header:
        return stream.getvalue()
    values = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape, **header}
    text = repr(values).encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + array.tobytes()


def archive(path, *members, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as stream:
        for name, content in members:
            stream.writestr(name, content)
    return path


def assert_refused(path, name="rows"):
    with pytest.raises(VseppError, match=name) as error:
        read_npz(path, ("rows", "name"), "an .npz of rows")
    assert str(error.value).startswith(str(path))


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("order", ["C", "F"])
def test_plain_arrays_come_back(tmp_path, method, order):
    arrays = {"rows": np.array(ROWS, order=order), "name": np.array("über")}
    members = [(f"{name}.npy", npy(array)) for name, array in arrays.items()]
    path = archive(tmp_path / "a.npz", *members, method=method)
    values = read_npz(path, ("rows", "name"), "an .npz of rows")
    assert values.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(values[name], array)
        assert values[name].dtype == array.dtype and values[name].flags.writeable


MEMBERS = {
    "an unknown name": ("rowz.npy", npy()),
    "no .npy": ("rows", npy()),
    "objects": ("rows.npy", npy(descr="|O")),
    "93 GiB": ("rows.npy", npy(shape=(25_000_000_000,))),
}


@pytest.mark.parametrize("case", MEMBERS)
def test_a_damaged_member_is_named(tmp_path, case):
    name, content = MEMBERS[case]
    assert_refused(archive(tmp_path / "a.npz", (name, content)), name.partition(".")[0])


@pytest.mark.parametrize("tail", [(4,), (None,), None])
def test_rows_are_mapped_read_only(tmp_path, tail):
    np.save(tmp_path / "rows.npy", ROWS)
    rows = open_rows(tmp_path / "rows.npy", np.float32, tail, 3)
    np.testing.assert_array_equal(rows, ROWS)
    assert isinstance(rows, np.memmap) and not rows.flags.writeable


DAMAGED = {
    "objects": npy(descr="|O"),
    "cut": npy()[:-1],
    "longer": npy() + b"more",
    "no rows": npy(ROWS[:0]),
    "other dimensions": npy(ROWS[:, None]),
    "more rows": npy(np.zeros((4, 4), np.float32)),
    "another type": npy(ROWS.astype(np.float16)),
    "another width": npy(ROWS[:, :2]),
    "missing": None,
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_file_of_rows_is_named_with_the_folder_to_delete(tmp_path, case):
    path = tmp_path / "rows.npy"
    if DAMAGED[case] is not None:
        path.write_bytes(DAMAGED[case])
    with pytest.raises(VseppError, match=f"^{path}.*delete {tmp_path}"):
        open_rows(path, np.float32, (4,), 3)


def test_rows_in_an_archive_are_compared_with_their_checksum(tmp_path):
    path = archive(tmp_path / "a.zip", ("rows.npy", npy(np.ones((50_000, 4), np.float32))))
    data = bytearray(path.read_bytes())
    data[data.index(b"\x00\x00\x80\x3f") + 400_000] ^= 1
    path.write_bytes(data)
    with pytest.raises(VseppError, match=r"rows\.npy"):
        list(NpyRows(Container(path), "rows.npy").blocks(50_000, 999))


def write(path, starts):
    """Write the rows; give the chunks that had to be computed."""
    chunks = []

    def make(first, last):
        chunks.append((first, last))
        return ROWS[first:last]

    write_rows(path, ROWS.shape, ROWS.dtype, starts, make, what="rows", unit="row")
    return chunks


@pytest.mark.resume
@pytest.mark.parametrize(
    ("bytes_lost", "chunks"),
    [
        (len(npy()), [(0, 2), (2, 3)]),
        (20, [(0, 2), (2, 3)]),  # of the first chunk one row is whole
        (16, [(2, 3)]),
        (0, []),
    ],
)
def test_a_killed_file_goes_on_after_its_last_whole_chunk(tmp_path, bytes_lost, chunks):
    path = tmp_path / "rows.npy"
    path.write_bytes(npy()[: len(npy()) - bytes_lost])
    assert write(path, [0, 2]) == chunks
    assert path.read_bytes() == npy()


@pytest.mark.resume
@pytest.mark.parametrize("content", [b"nonsense" * 40, npy(ROWS.T.copy())])
def test_a_file_of_something_else_is_begun_anew(tmp_path, content):
    path = tmp_path / "rows.npy"
    path.write_bytes(content)
    assert write(path, [0, 1, 2]) == [(0, 1), (1, 2), (2, 3)]
    assert path.read_bytes() == npy()
