import multiprocessing
import pickle
import random
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest

from vsepp.data.containers import Container
from vsepp.errors import VseppError


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
    assert one.names() == other.names()
    assert len(one.names()) == 20
    assert all(one.read(name) == other.read(name) for name in one.names())


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


def test_a_missing_member_is_named_with_its_container(folder, archive):
    for path in (folder, archive):
        with pytest.raises(VseppError, match=rf"{path}.*99\.jpg"):
            Container(path).read("99.jpg")


def test_nothing_at_the_path(tmp_path):
    with pytest.raises(VseppError, match=r"gone\.zip: no such"):
        Container(tmp_path / "gone.zip")


def test_a_truncated_archive_is_refused_and_named(archive):
    archive.write_bytes(archive.read_bytes()[:-200])
    with pytest.raises(VseppError, match=r"photographs\.zip.*whole zip archive.*truncated"):
        Container(archive)


def test_a_file_that_is_no_archive_is_refused(tmp_path):
    (tmp_path / "page.zip").write_text("<html>404</html>")
    with pytest.raises(VseppError, match=r"page\.zip.*16 bytes"):
        Container(tmp_path / "page.zip")


def test_a_damaged_member_is_named(archive):
    container = Container(archive)
    with zipfile.ZipFile(archive) as plain:
        start = plain.getinfo("Flicker8k_Dataset/7.jpg").header_offset
    data = bytearray(archive.read_bytes())
    data[start + 60 : start + 66] = b"\xff" * 6
    archive.write_bytes(data)
    with pytest.raises(VseppError, match=r"photographs\.zip: Flicker8k_Dataset/7\.jpg cannot be read"):
        container.read("Flicker8k_Dataset/7.jpg")


def test_threads_may_share_one(archive):
    container = Container(archive)
    names = container.names() * 10
    with ThreadPoolExecutor(8) as pool:
        contents = list(pool.map(container.read, names))
    assert contents == [Container(archive).read(name) for name in names]


def test_spawned_processes_may_share_one(archive):
    container = Container(archive)
    names = container.names() * 10
    expected = [container.read(name) for name in names]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(container.read, names, chunksize=7) == expected


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
def test_forked_processes_do_not_share_the_file_position(tmp_path):
    # Larger than a read buffer and not compressible: every member is fetched from its place in the file.
    with zipfile.ZipFile(tmp_path / "noise.zip", "w") as out:
        for i in range(20):
            out.writestr(f"{i}.jpg", random.Random(i).randbytes(50_000))
    container = Container(tmp_path / "noise.zip")
    expected = {name: container.read(name) for name in container.names()}

    def read_all():
        for name in container.names() * 100:
            assert container.read(name) == expected[name]

    processes = [multiprocessing.get_context("fork").Process(target=read_all) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]


def test_it_survives_pickling(archive):
    container = pickle.loads(pickle.dumps(Container(archive)))
    assert container.read("Flicker8k_Dataset/3.jpg") == b"\x03" * 10_000
