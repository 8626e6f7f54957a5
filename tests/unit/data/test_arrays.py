"""Archives of arrays that others wrote: what each kind of damage gets, before any memory is taken for it."""

import io
import os
import struct
import tracemalloc
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
    "objects": (
        [("rows.npy", npy(descr="|O"))],
        "rows: expected plain numbers or text, no Python objects, found object",
    ),
    "no header": ([("rows.npy", b"x" * 200)], "rows: it is damaged; expected a .npy file"),
    "empty": ([("rows.npy", b"")], "rows: it is damaged; expected a .npy file"),
    "93 GiB": ([("rows.npy", npy(shape=(25_000_000_000,)))], "rows: expected 100,000,000,128 bytes"),
    "fewer rows": (
        [("rows.npy", npy(shape=(2, 4)))],
        "rows: expected 160 bytes for float32 (2, 4), found 176",
    ),
    "less than none": (
        [("rows.npy", npy(shape=(-3, -4)))],
        "rows: expected plain numbers or text, no Python objects, found float32 (-3, -4)",
    ),
    "numbers of no size": ([("rows.npy", npy(descr="|S0"))], "rows: expected plain numbers or text"),
    "records": (
        [("rows.npy", npy(np.zeros(3, [("a", "<f4"), ("b", "<f4")])))],
        "rows: expected plain numbers or text",
    ),
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


def test_more_numbers_than_this_machine_has_memory_for_are_refused_though_they_are_there(tmp_path):
    shape = (os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4 + 1,)
    header = npy(shape=shape)[:128]
    content, size = tmp_path / "rows.npy", 128 + 4 * shape[0]
    with content.open("wb") as stream:  # of holes
        stream.write(header)
        stream.truncate(size)
    # Stored, its checksum not computed: the sizes are refused before.
    head = struct.pack("<4s5H3I2H", b"PK\x03\x04", 45, 0, 0, 0, 0, 0, 0xFFFFFFFF, 0xFFFFFFFF, 8, 20)
    extra = struct.pack("<HHQQ", 1, 16, size, size)
    path = tmp_path / "a.npz"
    with path.open("wb") as stream:
        stream.write(head + b"rows.npy" + extra + header)
        stream.seek(len(head) + 8 + 20 + size)
        at = stream.tell()
        central = struct.pack(
            "<4s6H3I5H2I", b"PK\x01\x02", 45, 45, 0, 0, 0, 0, 0, 0xFFFFFFFF, 0xFFFFFFFF, 8, 20, 0, 0, 0, 0, 0
        )
        entry = central + b"rows.npy" + extra
        stream.write(entry)
        stream.write(struct.pack("<4sQ2H2I4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 1, 1, len(entry), at))
        stream.write(struct.pack("<4sIQI", b"PK\x06\x07", 0, at + len(entry), 1))
        stream.write(struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 1, 1, 0xFFFFFFFF, 0xFFFFFFFF, 0))
    assert f"has {size:,} bytes, expected at most" in refused(path)
