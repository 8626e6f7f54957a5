"""Files that did not change are not read again."""

import os

import pytest

from vsepp.provenance.digests import file_digest, path_digest
from vsepp.provenance.known import KnownDigests


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "artefact"
    (folder / "below").mkdir(parents=True)
    (folder / "weights").write_bytes(b"w" * 1000)
    (folder / "below" / "history").write_bytes(b"h" * 10)
    return folder


def kept(tmp_path):
    return KnownDigests(tmp_path / "state" / "digests.json")


def bytes_read(tmp_path, folder):
    """Bytes that digesting a folder takes, given what was kept before."""
    known = kept(tmp_path)
    assert known.path(folder) == path_digest(folder)
    known.save()
    return known.read


def test_digests_are_those_of_the_bytes_and_only_a_file_that_changed_is_read_again(tmp_path, folder):
    assert kept(tmp_path).file(folder / "weights") == file_digest(folder / "weights")
    assert bytes_read(tmp_path, folder) == 1010
    assert bytes_read(tmp_path, folder) == 0
    (folder / "below" / "history").write_bytes(b"i" * 12)
    assert bytes_read(tmp_path, folder) == 12


def test_a_file_replaced_by_one_of_the_same_size_and_time_is_read_again(tmp_path, folder):
    bytes_read(tmp_path, folder)
    weights = folder / "weights"
    before = weights.stat()
    other = folder.parent / "other"
    other.write_bytes(b"x" * 1000)
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(weights)
    assert weights.stat().st_mtime_ns == before.st_mtime_ns
    assert bytes_read(tmp_path, folder) == 1000


@pytest.mark.parametrize("damage", ["", "{", "[1]", '{"a": 3}', '{"a": [1, 2, 3, 4]}', "\x00\xff", '"text"'])
def test_a_damaged_list_costs_time_and_no_mistake(tmp_path, folder, damage):
    bytes_read(tmp_path, folder)
    (tmp_path / "state" / "digests.json").write_text(damage, encoding="latin-1")
    assert bytes_read(tmp_path, folder) == 1010
    assert bytes_read(tmp_path, folder) == 0


def test_an_entry_without_a_digest_is_not_believed(tmp_path, folder):
    status = (folder / "weights").stat()
    kept_file = tmp_path / "state" / "digests.json"
    kept_file.parent.mkdir()
    entry = f"[{status.st_size}, {status.st_mtime_ns}, {status.st_ino}, null]"
    kept_file.write_text(f'{{"{folder / "weights"}": {entry}}}')
    assert kept(tmp_path).file(folder / "weights") == file_digest(folder / "weights")


def test_files_that_are_gone_are_dropped(tmp_path, folder):
    bytes_read(tmp_path, folder)
    (folder / "weights").unlink()
    bytes_read(tmp_path, folder)
    assert "weights" not in (tmp_path / "state" / "digests.json").read_text()
