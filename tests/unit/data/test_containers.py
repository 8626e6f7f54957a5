"""Folders and zip archives of raw files: names, damage, and what is no data."""

import os
import random
import unicodedata
import zipfile

import pytest

from vsepp.base.errors import VseppError
from vsepp.data.container import Container


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "photographs"
    (root / "Flicker8k_Dataset").mkdir(parents=True)
    for number in range(20):
        (root / f"Flicker8k_Dataset/{number}.jpg").write_bytes(bytes([number]) * 10_000)
    return root


@pytest.fixture
def archive(folder, tmp_path):
    path = tmp_path / "photographs.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as stream:
        stream.mkdir("Flicker8k_Dataset")
        for file in sorted((folder / "Flicker8k_Dataset").iterdir()):
            stream.write(file, f"Flicker8k_Dataset/{file.name}")
    return path


def packed(path, members, compression=zipfile.ZIP_DEFLATED):
    """An archive of members: name, or `ZipInfo` → content."""
    with zipfile.ZipFile(path, "w", compression) as stream:
        for name, content in members.items():
            stream.writestr(name, content)
    return path


def patched(path, name, fields):
    """Overwrite fields of a member's entry in the archive's directory, by their offset in the entry."""
    data = bytearray(path.read_bytes())
    entry = data.rindex(b"PK\x01\x02", 0, data.rindex(name.encode()))
    for offset, value in fields.items():
        data[entry + offset : entry + offset + len(value)] = value
    path.write_bytes(data)
    return path


def test_a_folder_and_its_archive_hold_the_same_files_under_every_spelling_of_a_path(folder, archive):
    unpacked, zipped = Container(folder), Container(archive)
    assert unpacked.names == zipped.names and len(zipped.names) == 20
    assert all(unpacked.read(name) == zipped.read(name) for name in zipped.names)
    for container in (unpacked, zipped):
        assert container.locate("Flicker8k_Dataset/3.jpg") == "Flicker8k_Dataset/3.jpg"
        assert container.locate("3.jpg") == "Flicker8k_Dataset/3.jpg"
        assert container.locate("elsewhere/3.jpg") is None and container.locate("99.jpg") is None
        with container.open("Flicker8k_Dataset/3.jpg") as (stream, size):
            stream.seek(9_990)
            assert (size, stream.read()) == (10_000, b"\x03" * 10)
        with pytest.raises(VseppError, match=rf"{container.path}/99\.jpg"):
            container.read("99.jpg")
    assert Container(folder / "Flicker8k_Dataset").locate("Flicker8k_Dataset/3.jpg") == "3.jpg"


def test_of_two_members_with_one_base_name_the_path_decides(tmp_path):
    for name in ("coco/train2014/a.jpg", "coco/thumbs/a.jpg"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    assert Container(tmp_path).locate("train2014/a.jpg") == "coco/train2014/a.jpg"
    with pytest.raises(VseppError, match=r"coco/thumbs/a\.jpg"):
        Container(tmp_path).locate("a.jpg")


@pytest.mark.parametrize("damage", ["missing", "a page", "cut", "without its middle", "twice"])
def test_a_file_that_is_no_whole_archive_is_named(archive, tmp_path, damage):
    whole = archive.read_bytes()
    content = {
        "a page": b"<html>404</html>",
        "cut": whole[:-200],
        "without its middle": whole[:500] + whole[900:],
        "twice": whole + whole,
    }
    if damage in content:
        (tmp_path / "a.zip").write_bytes(content[damage])
    with pytest.raises(VseppError, match=r"a\.zip"):
        Container(tmp_path / "a.zip")


def test_an_archive_that_lost_entries_of_its_directory_is_refused(tmp_path):
    path = packed(tmp_path / "a.zip", {f"{number}.jpg": b"" for number in range(3)})
    data = bytearray(path.read_bytes())
    data[data.rfind(b"PK\5\6") + 10] = 8
    path.write_bytes(data)
    with pytest.raises(VseppError, match=r"a\.zip: .*3 of 8"):
        Container(path)


def test_one_wrong_byte_in_a_member_is_found(tmp_path):
    content = random.Random(0).randbytes(3000)
    path = packed(tmp_path / "a.zip", {"good.jpg": b"good", "bad.jpg": content}, zipfile.ZIP_STORED)
    data = bytearray(path.read_bytes())
    data[data.index(content) + 1500] ^= 0xFF
    path.write_bytes(data)
    assert Container(path).read("good.jpg") == b"good"
    with pytest.raises(VseppError, match=r"a\.zip/bad\.jpg"):
        Container(path).read("bad.jpg")


UNPACKED_SIZE, METHOD, FLAGS = 24, 10, 8


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({METHOD: b"\x63\0"}, "damaged"),
        ({FLAGS: b"\1\0"}, "encrypted"),
        ({UNPACKED_SIZE: (100).to_bytes(4, "little")}, "damaged"),  # it holds more than it declares
        ({UNPACKED_SIZE: (3 << 30).to_bytes(4, "little")}, f"{3 << 30:,} bytes"),
    ],
)
def test_a_member_that_cannot_be_read_is_named(tmp_path, fields, message):
    path = packed(tmp_path / "a.zip", {"bad.jpg": random.Random(1).randbytes(5000)})
    patched(path, "bad.jpg", fields)
    with pytest.raises(VseppError, match=rf"a\.zip/bad\.jpg: .*{message}"):
        Container(path).read("bad.jpg")


@pytest.mark.parametrize("name", ["/etc/passwd", "a/../../outside.jpg"])
def test_names_that_lead_out_of_a_folder_are_refused(tmp_path, name):
    (tmp_path / "outside.jpg").write_bytes(b"x")
    (tmp_path / "p" / "a").mkdir(parents=True)
    with pytest.raises(VseppError, match="leads out"):
        Container(tmp_path / "p").read(name)


def test_a_fifo_and_a_device_are_left_out_and_never_opened(tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"x")
    os.mkfifo(tmp_path / "fifo.jpg")
    targets = {"nothing": "gone", "circle": "circle.jpg", "zero": "/dev/zero", "link": "a.jpg"}
    for name, target in targets.items():
        (tmp_path / f"{name}.jpg").symlink_to(target)
    container = Container(tmp_path)
    assert container.names == ("a.jpg", "link.jpg") and container.read("link.jpg") == b"x"
    assert sum(container.left_out.values()) == 4
    for name in ("fifo", "zero", "circle"):
        with pytest.raises(VseppError, match=rf"{tmp_path}/{name}\.jpg"):
            container.read(f"{name}.jpg")
    with pytest.raises(VseppError, match="a FIFO"):
        Container(tmp_path / "fifo.jpg")


SYSTEM = (
    "._a.jpg",
    ".Trash-1000/a.jpg",
    "@eaDir/THUMB_M.jpg",
    "#recycle/a.jpg",
    "__MACOSX/._a.jpg",
    "$RECYCLE.BIN/a.jpg",
    "__pycache__/a.jpg",
    "@__thumb/a.jpg",
    "b/~$c.jpg",
    "b/Thumbs.db",
    "desktop.ini",
)


def test_files_of_the_system_are_left_out_and_counted(tmp_path):
    names = ("a.jpg", "b/c.jpg", *SYSTEM)
    for name in names:
        (tmp_path / "p" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "p" / name).write_bytes(b"x")
    zipped = packed(tmp_path / "p.zip", dict.fromkeys(names, b"x"))
    for container in (Container(tmp_path / "p"), Container(zipped)):
        assert container.names == ("a.jpg", "b/c.jpg")
        assert sum(container.left_out.values()) == len(SYSTEM)


def test_a_name_in_two_spellings_of_unicode_is_one_name(tmp_path):
    forms = [unicodedata.normalize(form, "é.jpg") for form in ("NFC", "NFD")]
    for stored, wanted in (forms, forms[::-1]):
        folder = tmp_path / stored
        folder.mkdir()
        (folder / stored).write_bytes(b"x")
        assert Container(folder).read(Container(folder).locate(wanted)) == b"x"


class Coded(zipfile.ZipInfo):
    """A member with its name in a code page, as archives from elsewhere have it: without the flag of UTF-8."""

    codec = "latin-1"

    def _encodeFilenameFlags(self):  # the name of zipfile
        return self.filename.encode(self.codec), 0


class CodedInUtf8(Coded):
    codec = "utf-8"


def test_names_of_another_code_page_are_refused_once_a_name_is_missed(tmp_path):
    in_utf8 = packed(tmp_path / "utf-8.zip", {CodedInUtf8("é.jpg"): b"x"})
    assert Container(in_utf8).locate("é.jpg") == "é.jpg"
    in_latin = Container(packed(tmp_path / "latin-1.zip", {Coded("é.jpg"): b"x", "a.jpg": b"x"}))
    assert in_latin.locate("a.jpg") == "a.jpg" and in_latin.locate("b.jpg") is None
    with pytest.raises(VseppError, match=r"latin-1\.zip"):
        in_latin.locate("é.jpg")


def test_two_members_whose_names_become_one_are_refused(tmp_path):
    path = packed(tmp_path / "b.zip", {CodedInUtf8("é.jpg"): b"first", "é.jpg": b"second"})
    with pytest.raises(VseppError, match=r"b\.zip: .*é\.jpg"):
        Container(path)


def test_names_from_windows_have_folders_and_links_in_archives_are_left_out(tmp_path):
    windows, link = zipfile.ZipInfo("cats\\a.jpg"), zipfile.ZipInfo("b.jpg")
    windows.create_system = 0
    link.create_system, link.external_attr = 3, 0o120777 << 16
    container = Container(packed(tmp_path / "a.zip", {windows: b"x", link: b"/etc/passwd"}))
    assert container.names == ("cats/a.jpg",) and container.read("cats/a.jpg") == b"x"
    assert sum(container.left_out.values()) == 1
