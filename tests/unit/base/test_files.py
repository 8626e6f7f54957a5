"""Files are written whole; what is damaged, or has no room on the disk, is named."""

import subprocess
import sys

import pytest

from vsepp.base.errors import VseppError
from vsepp.base.files import check_space, read_json, whole_file, write_text

WRITER = """
import sys
from pathlib import Path
from vsepp.base.files import whole_file

path, content = Path(sys.argv[1]), sys.argv[2].encode()
for _ in range(200):
    with whole_file(path) as partial, partial.open("wb") as stream:
        for _ in range(10):
            stream.write(content * 100)
            stream.flush()
"""


def test_a_file_that_two_processes_write_again_and_again_is_never_mixed(tmp_path):
    path = tmp_path / "file"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, path, letter]) for letter in "ab"]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        if path.exists():
            seen.add(path.read_bytes())
    seen.add(path.read_bytes())
    assert [writer.returncode for writer in writers] == [0, 0]
    assert seen <= {b"a" * 1000, b"b" * 1000}
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    write_text(tmp_path / "folder/file", "old")
    with pytest.raises(ZeroDivisionError), whole_file(tmp_path / "folder/file") as partial:
        partial.write_text("half")
        raise ZeroDivisionError
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["file"]
    assert (tmp_path / "folder/file").read_text() == "old"


def test_what_a_killed_process_left_is_removed_by_the_next_that_writes_the_file(tmp_path):
    """The file of a process that is at work is left alone."""
    path = tmp_path / "file"
    begin = "from pathlib import Path; import sys, time; from vsepp.base.files import whole_file\n"
    write = "with whole_file(Path(sys.argv[1])) as part: part.touch(); print(flush=True); time.sleep(600)"
    killed, at_work = (
        subprocess.Popen([sys.executable, "-c", begin + write, path], stdout=subprocess.PIPE)
        for _ in range(2)
    )
    for process in (killed, at_work):
        process.stdout.readline()
    killed.kill()
    killed.wait()
    assert len(list(tmp_path.iterdir())) == 2
    write_text(path, "whole")
    left = sorted(file.name for file in tmp_path.iterdir())
    at_work.kill()
    at_work.wait()
    assert len(left) == 2 and left[0].endswith(f".{at_work.pid}.part") and left[1] == "file"


@pytest.mark.parametrize("content", [None, b'{"dim": 3', b"\xff\xfe"], ids=["none", "cut", "bytes"])
def test_a_json_file_that_is_damaged_or_missing_is_named(tmp_path, content):
    path = tmp_path / "config.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(VseppError) as error:
        read_json(path, "the spec of a run; train it again")
    assert str(error.value).startswith(f"{path}: ")


def test_what_the_disk_cannot_hold_is_not_begun(tmp_path):
    check_space(tmp_path, 1, "a byte")
    with pytest.raises(VseppError, match=f"{tmp_path}: .*a file"):
        check_space(tmp_path, 1 << 60, "a file")
