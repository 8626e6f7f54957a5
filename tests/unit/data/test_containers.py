import os
import random
import unicodedata
import zipfile
from pathlib import Path

import pytest

from vsepp.base.errors import VseppError
from vsepp.data.raw import Container


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "photographs"
    (root / "Flicker8k_Dataset").mkdir(parents=True)
    for i in range(20):
        (root / "Flicker8k_Dataset" / f"{i}.jpg").write_bytes(bytes([i]) * 10_000)
    return root


@pytest.fixture
def archive(folder, tmp_path):
    path = tmp_path / "photographs.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        out.mkdir("Flicker8k_Dataset")
        for file in sorted((folder / "Flicker8k_Dataset").iterdir()):
            out.write(file, f"Flicker8k_Dataset/{file.name}")
        out.writestr("__MACOSX/Flicker8k_Dataset/3.jpg", b"shadow")
    return path


def test_a_folder_and_its_archive_hold_the_same(folder, archive):
    one, other = Container(folder), Container(archive)
    assert one.names == other.names
    assert len(one.names) == 20
    assert all(one.read(name) == other.read(name) for name in one.names)


def test_members_are_found_by_path_and_by_base_name(folder, archive):
    for container in (Container(folder), Container(archive)):
        assert container.locate("Flicker8k_Dataset/3.jpg") == "Flicker8k_Dataset/3.jpg"
        assert container.locate("3.jpg") == "Flicker8k_Dataset/3.jpg"
        assert container.locate("elsewhere/3.jpg") is None
        assert container.locate("99.jpg") is None
    assert Container(folder / "Flicker8k_Dataset").locate("Flicker8k_Dataset/3.jpg") == "3.jpg"


def test_of_two_members_with_one_name_the_one_with_the_path_is_meant(tmp_path):
    for name in ("coco/train2014/a.jpg", "coco/thumbs/a.jpg"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(b"")
    assert Container(tmp_path).locate("train2014/a.jpg") == "coco/train2014/a.jpg"
    with pytest.raises(
        VseppError, match=r"a\.jpg is ambiguous: coco/thumbs/a\.jpg and coco/train2014/a\.jpg"
    ):
        Container(tmp_path).locate("a.jpg")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, r"a\.zip: no such file"),
        (
            b"<html>404</html>",
            r"a\.zip: is an HTML page",
        ),
        (-200, r"a\.zip: ends early \([\d,]+ bytes.* whole zip archive.*truncated"),
    ],
)
def test_what_is_no_archive_is_refused_and_named(archive, tmp_path, content, said):
    if content is not None:
        data = content if isinstance(content, bytes) else archive.read_bytes()[:content]
        (tmp_path / "a.zip").write_bytes(data)
    with pytest.raises(VseppError, match=said):
        Container(tmp_path / "a.zip")


def stored_in(path, name: str, content: bytes, compression=zipfile.ZIP_DEFLATED):
    """An archive of `good.jpg` and another member."""
    with zipfile.ZipFile(path, "w", compression) as out:
        out.writestr("good.jpg", b"good")
        out.writestr(name, content)
    return path


def patched(path, name: str, central: dict[int, bytes]):
    """Overwrite fields of a member's entry in the archive's directory, by their offset in the entry."""
    data = bytearray(path.read_bytes())
    entry = data.rindex(b"PK\x01\x02", 0, data.rindex(name.encode()))
    for offset, value in central.items():
        data[entry + offset : entry + offset + len(value)] = value
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    "compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
@pytest.mark.parametrize("where", ["header", "middle", "end"])
def test_one_wrong_byte_anywhere_in_a_member_is_found_and_named(tmp_path, compression, where):
    content = random.Random(0).randbytes(3000)
    path = stored_in(tmp_path / "a.zip", "bad.jpg", content, compression)
    with zipfile.ZipFile(path) as plain:
        info = plain.getinfo("bad.jpg")
        first = info.header_offset + 30 + len("bad.jpg")
    data = bytearray(path.read_bytes())
    place = {
        "header": info.header_offset,
        "middle": first + info.compress_size // 2,
        "end": first + info.compress_size - 1,
    }
    data[place[where]] ^= 0xFF
    path.write_bytes(data)
    container = Container(path)
    assert container.read("good.jpg") == b"good"
    with pytest.raises(VseppError, match=r"a\.zip/bad\.jpg: it is damaged"):
        container.read("bad.jpg")


@pytest.mark.parametrize(
    ("central", "said"),
    [
        ({10: b"\x63\0"}, "it is damaged"),
        ({8: b"\1\0"}, "is encrypted; give a copy that needs no password"),
        ({8: b"\1\0", 10: b"\x63\0"}, "is encrypted"),  # AES
    ],
)
def test_a_member_packed_in_an_unknown_way_is_named(tmp_path, central, said):
    path = patched(stored_in(tmp_path / "a.zip", "bad.jpg", b"x" * 50), "bad.jpg", central)
    with pytest.raises(VseppError, match=rf"a\.zip/bad\.jpg: {said}"):
        Container(path).read("bad.jpg")


@pytest.mark.parametrize(
    "name", ["../outside.jpg", "/etc/a.jpg", "a..b/c.jpg", "über/c d:e.jpg", "a/C:x.jpg"]
)
def test_members_may_have_any_name_since_nothing_is_unpacked(tmp_path, name):
    container = Container(stored_in(tmp_path / "a.zip", name, b"x"))
    assert container.names == tuple(sorted(["good.jpg", name])) and container.read(name) == b"x"


def sizes(packed, unpacked):
    """Fields of the directory for what a member declares."""
    return {20: packed.to_bytes(4, "little"), 24: unpacked.to_bytes(4, "little")}


def test_what_is_too_large_for_memory_is_refused_and_named(tmp_path):
    with (tmp_path / "huge.jpg").open("wb") as stream:
        stream.truncate(3 << 30)
    packed = patched(stored_in(tmp_path / "a.zip", "huge.jpg", b"x"), "huge.jpg", sizes(1 << 30, 3 << 30))
    for path in (tmp_path, packed):
        with pytest.raises(VseppError, match=rf"{path}/huge\.jpg: has {3 << 30:,} bytes"):
            Container(path).read("huge.jpg")


@pytest.mark.parametrize("declared", [0, 100])
def test_a_member_that_holds_more_than_it_declares_is_refused(tmp_path, declared):
    path = stored_in(tmp_path / "a.zip", "liar.jpg", random.Random(1).randbytes(5000))
    patched(path, "liar.jpg", {24: declared.to_bytes(4, "little")})
    with pytest.raises(VseppError, match=r"liar\.jpg: it is damaged"):
        Container(path).read("liar.jpg")


def test_a_member_may_be_read_as_a_stream(folder, archive):
    for container in (Container(folder), Container(archive)):
        with container.open("Flicker8k_Dataset/3.jpg") as (stream, size):
            assert size == 10_000
            stream.seek(9_990)
            assert stream.read() == b"\x03" * 10
        with pytest.raises(VseppError, match=rf"{container.path}/99\.jpg: .*no such"):
            container.read("99.jpg")


def test_what_is_no_file_is_refused_and_never_opened(tmp_path):
    os.mkfifo(tmp_path / "a.jpg")
    (tmp_path / "b.jpg").mkdir()
    (tmp_path / "c.jpg").symlink_to("/dev/zero")
    (tmp_path / "d.jpg").symlink_to("d.jpg")
    kinds = {"a": "a FIFO", "b": "a folder", "c": "a device", "d": "Too many levels of symbolic links"}
    for name, said in kinds.items():
        with pytest.raises(VseppError, match=rf"{tmp_path}/{name}\.jpg: .*{said}"):
            Container(tmp_path).read(f"{name}.jpg")
    for path, said in ((tmp_path / "a.jpg", "a FIFO"), (Path("/dev/zero"), "a device")):
        with pytest.raises(VseppError, match=f"{path}: {said}, not a file; expected a folder or a whole zip"):
            Container(path)


def test_links_to_files_are_read_and_links_to_folders_are_not_followed(folder, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/one.jpg").write_bytes(b"x")
    (folder / "one.jpg").symlink_to(tmp_path / "elsewhere/one.jpg")
    (folder / "out").symlink_to(tmp_path / "elsewhere")
    (folder / "round").symlink_to(folder)
    linked = tmp_path / "linked"
    linked.symlink_to(folder)
    for container in (Container(folder), Container(linked)):
        assert len(container.names) == 21
        assert container.read("one.jpg") == b"x"


def test_two_members_of_one_name_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as out, pytest.warns(UserWarning, match="Duplicate"):
        out.writestr("good.jpg", b"one")
        out.writestr("good.jpg", b"other")
    with pytest.raises(VseppError, match=r"b\.zip: .*good\.jpg"):
        Container(tmp_path / "b.zip")


SYSTEM = (
    "._a.jpg",
    ".Trash-1000/a.jpg",
    ".thumbnails/a.jpg",
    "@eaDir/THUMB_M.jpg",
    "#recycle/a.jpg",
    "__MACOSX/._a.jpg",
    ".ipynb_checkpoints/a.jpg",
    "$RECYCLE.BIN/a.jpg",
    "__pycache__/a.jpg",
    "@__thumb/a.jpg",
    "b/~$c.jpg",
    "b/Thumbs.db",
    "desktop.ini",
)


def test_what_is_hidden_or_of_the_system_is_left_out_and_counted_in_folders_and_archives(tmp_path):
    for name in ("a.jpg", "b/c.jpg", *SYSTEM):
        (tmp_path / "p" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "p" / name).write_bytes(b"x")
    with zipfile.ZipFile(tmp_path / "p.zip", "w") as out:
        for name in ("a.jpg", "b/c.jpg", *SYSTEM):
            out.writestr(name, b"x")
    for path in (tmp_path / "p", tmp_path / "p.zip"):
        container = Container(path)
        assert container.names == ("a.jpg", "b/c.jpg")
        assert sum(container.left_out.values()) == len(SYSTEM)


def test_fifos_devices_and_links_to_nothing_are_left_out_and_counted(tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"x")
    os.mkfifo(tmp_path / "fifo.jpg")
    for name, target in {
        "nothing": "gone",
        "circle": "circle.jpg",
        "zero": "/dev/zero",
        "link": "a.jpg",
    }.items():
        (tmp_path / f"{name}.jpg").symlink_to(target)
    container = Container(tmp_path)
    assert container.names == ("a.jpg", "link.jpg")
    assert sum(container.left_out.values()) == 4


def test_one_name_in_two_spellings_of_unicode_is_one_name(tmp_path):
    composed, apart = (unicodedata.normalize(form, "é.jpg") for form in ("NFC", "NFD"))
    for stored, asked in ((composed, apart), (apart, composed)):
        folder = tmp_path / stored
        folder.mkdir()
        (folder / stored).write_bytes(b"x")
        assert Container(folder).read(Container(folder).locate(asked)) == b"x"


class Coded(zipfile.ZipInfo):
    """A member with its name in a code page, as archives from elsewhere have it: without the flag of UTF-8."""

    codec = "latin-1"

    def _encodeFilenameFlags(self):  # the name of zipfile
        return self.filename.encode(self.codec), 0


class CodedInUtf8(Coded):
    """UTF-8 without the flag that says so."""

    codec = "utf-8"


def test_names_of_another_code_page_are_refused_where_one_of_them_is_missed(tmp_path):
    for kind in (Coded, CodedInUtf8):
        with zipfile.ZipFile(tmp_path / f"{kind.codec}.zip", "w") as out:
            out.writestr(kind("é.jpg"), b"x")
            out.writestr("a.jpg", b"x")
    assert Container(tmp_path / "utf-8.zip").locate("é.jpg") == "é.jpg"
    coded = Container(tmp_path / "latin-1.zip")
    assert coded.locate("a.jpg") == "a.jpg" and coded.locate("b.jpg") is None
    with pytest.raises(VseppError, match=r"latin-1\.zip: .*unpack"):
        coded.locate("é.jpg")


@pytest.mark.parametrize("name", ["../outside.jpg", "/etc/passwd", "a/../../outside.jpg"])
def test_names_that_lead_out_of_the_folder_are_refused(tmp_path, name):
    (tmp_path / "outside.jpg").write_bytes(b"x")
    (tmp_path / "p" / "a").mkdir(parents=True)
    with pytest.raises(VseppError, match="leads out"):
        Container(tmp_path / "p").read(name)


@pytest.mark.parametrize("count", [3, 70_000])
def test_an_archive_that_lost_entries_of_its_directory_is_refused(tmp_path, count):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as out:
        for number in range(count):
            out.writestr(f"{number}.jpg", b"")
    assert len(Container(path).names) == count
    data = bytearray(path.read_bytes())
    # A large archive counts them elsewhere.
    at, width = (data.rfind(b"PK\5\6") + 10, 2) if count < 0xFFFF else (data.rfind(b"PK\6\6") + 32, 8)
    assert int.from_bytes(data[at : at + width], "little") == count
    data[at : at + width] = (count + 5).to_bytes(width, "little")
    path.write_bytes(data)
    with pytest.raises(VseppError, match=rf"a\.zip: .*{count} of {count + 5}"):
        Container(path)


def test_archives_whose_directory_lacks_their_first_members_are_refused(archive, tmp_path):
    whole = archive.read_bytes()
    with zipfile.ZipFile(tmp_path / "comment.zip", "w") as out:
        out.writestr("a.jpg", b"x")
        out.comment = b"PK\5\6" + bytes(18)  # looks like the end of an archive without members
    broken = {"middle": whole[:500] + whole[900:], "start": whole[500:], "two": whole + whole}
    broken["comment"] = (tmp_path / "comment.zip").read_bytes()
    for name, data in broken.items():
        (tmp_path / f"{name}.zip").write_bytes(data)
        with pytest.raises(VseppError, match=rf"{name}\.zip: .*first members"):
            Container(tmp_path / f"{name}.zip")


@pytest.mark.parametrize("place", range(len("flickr/0.jpg")))
def test_a_name_that_a_wrong_byte_cuts_loses_no_member(tmp_path, place):
    path = stored_in(tmp_path / "a.zip", "flickr/0.jpg", b"x")
    data = bytearray(path.read_bytes())
    data[data.rindex(b"flickr/0.jpg") + place] = 0
    path.write_bytes(data)
    with pytest.raises(VseppError, match=r"a\.zip"):
        [Container(path).read(name) for name in Container(path).names]


def test_two_members_whose_names_become_one_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as out:
        out.writestr(CodedInUtf8("é.jpg"), b"one")
        out.writestr("é.jpg", b"other")
    with pytest.raises(VseppError, match=r"b\.zip: .*é\.jpg"):
        Container(tmp_path / "b.zip")


def test_names_from_windows_have_folders_and_links_in_archives_are_counted(tmp_path):
    packed = zipfile.ZipInfo("cats\\a.jpg")
    packed.create_system = 0
    link = zipfile.ZipInfo("b.jpg")
    link.create_system, link.external_attr = 3, 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as out:
        out.writestr(packed, b"x")
        out.writestr(link, b"/etc/passwd")
    container = Container(tmp_path / "a.zip")
    assert container.names == ("cats/a.jpg",) and container.read(container.locate("cats/a.jpg")) == b"x"
    assert sum(container.left_out.values()) == 1
