import os
import random
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
        assert container.locate("elsewhere/3.jpg") == "Flicker8k_Dataset/3.jpg"
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
            r"a\.zip: it is damaged; expected a folder or a whole zip archive",
        ),
        (-200, r"a\.zip: it is damaged; .* whole zip archive.*truncated"),
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
