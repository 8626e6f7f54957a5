"""Downloads against a real server: whole and verified, or one message that says what happened."""

import hashlib
import json
import logging
import os
import subprocess
import sys
import zipfile

import pytest
import yaml
from artefacts import written
from file_server import Served, serve
from processes import no_room

from vsepp.base.errors import VseppError
from vsepp.base.spec import SourceSpec
from vsepp.data import transfer
from vsepp.data.download import fetch

SLICE = 1 << 18  # what the client reads at once


def sha(content):
    return hashlib.sha256(content).hexdigest()


def source(server, *names, file="photographs.bin", **known):
    return SourceSpec(file=file, mirrors=tuple(server.url(name) for name in names or ("a",)), **known)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Downloads within this process wait for tenths of a second where others wait for a minute."""
    quick = transfer.RETRIES.new(total=2, backoff_factor=0.01, retry_after_max=0.3)
    monkeypatch.setattr(transfer, "RETRIES", quick)
    monkeypatch.setattr(transfer, "TIMEOUTS", (5.0, 0.5))


def get(spec, folder):
    return fetch(spec, folder / spec.file, folder / "sources.lock.yaml")


def left_over(folder):
    """Files of unfinished downloads."""
    return [path for path in folder.rglob(".state/*/*") if path.is_file()]


def in_a_process(spec, folder, before=""):
    """Call the command in a process of its own."""
    plan = written(folder, sources={spec: folder / spec.file}, lock=folder / "sources.lock.yaml")
    program = f"{before}\nimport sys\nfrom vsepp.apps.cli import main\nsys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "fetch", spec.file, "--plan", str(plan)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def test_a_file_arrives_whole_with_its_manifest(tmp_path, content):
    with serve({"a": content}) as server:
        spec = source(server, sha256=sha(content).upper(), size=len(content), licence="CC0", citation="Us")
        facts = get(spec, tmp_path / "deep")
    target = tmp_path / "deep" / "photographs.bin"
    assert target.read_bytes() == content
    assert facts == json.loads((tmp_path / "deep" / "photographs.bin.manifest.json").read_text())
    assert (facts["url"], facts["sha256"], facts["size"]) == (server.url("a"), sha(content), len(content))
    assert (facts["verified"], facts["licence"], facts["citation"]) == ("published", "CC0", "Us")
    assert facts["mtime_ns"] == target.stat().st_mtime_ns
    assert not (tmp_path / "deep" / "sources.lock.yaml").exists()
    assert not left_over(tmp_path)


@pytest.mark.parametrize(
    "behaviour",
    [
        {"cut_after": 1_000_000, "cuts": 2},
        {"stall_after": 1_000_000, "cuts": 1},
        {"cut_after": 1_000_000, "cuts": 1, "announce_length": False},
        {"cut_after": 2 * SLICE},  # as often as it brings something new
    ],
)
def test_after_a_broken_or_stalled_connection_the_rest_is_asked_for(tmp_path, content, behaviour):
    with serve({"a": Served(content, **behaviour)}) as server:
        get(source(server, sha256=sha(content)), tmp_path)
    assert (tmp_path / "photographs.bin").read_bytes() == content
    first, *later = server.requests
    assert (first.status, {request.status for request in later}) == (200, {206})
    starts = [int(request.range.removeprefix("bytes=").rstrip("-")) for request in later]
    assert starts == sorted(set(starts))
    assert sum(request.sent for request in server.requests) <= len(content) + len(later) * SLICE


@pytest.mark.parametrize(("status", "wait"), [(500, None), (429, None), (503, "86400")])
def test_errors_that_pass_are_tried_again_and_a_server_may_ask_for_some_time(tmp_path, content, status, wait):
    headers = {"Retry-After": wait} if wait else {}
    with serve({"a": Served(content, statuses=[status, status], headers=headers)}) as server:
        get(source(server, sha256=sha(content)), tmp_path)
    assert [request.status for request in server.requests] == [status, status, 200]


@pytest.mark.parametrize(
    ("fault", "statuses"), [("refuse_ranges", [200, 416, 200]), ("ignore_ranges", [200, 200])]
)
def test_refused_and_ignored_ranges_start_over(tmp_path, content, fault, statuses):
    with serve({"a": Served(content, cut_after=1_000_000, cuts=1, **{fault: True})}) as server:
        get(source(server, sha256=sha(content)), tmp_path)
    assert [request.status for request in server.requests] == statuses
    assert (tmp_path / "photographs.bin").read_bytes() == content


def test_a_file_that_is_no_whole_zip_goes_to_the_next_mirror(tmp_path, content):
    with zipfile.ZipFile(tmp_path / "whole.zip", "w") as archive:
        archive.writestr("a.txt", content)
    whole = (tmp_path / "whole.zip").read_bytes()
    with serve({"a": content, "b": whole[:-100], "c": whole}) as server:
        facts = get(source(server, "a", "b", "c", file="a.zip"), tmp_path)
    assert facts["url"] == server.url("c")
    kept = {f"a.zip.bad-{sha(other)[:12]}" for other in (content, whole[:-100])}
    assert {path.name for path in tmp_path.glob("*.bad-*")} == kept


def test_a_wrong_sum_is_kept_aside_and_the_fault_of_every_mirror_told(tmp_path, content):
    other = content[::-1]
    headers = {"Content-Type": "text/html; charset=utf-8"}
    page = Served(b"<!DOCTYPE html><title>Sign in</title>", headers=headers)
    with serve({"a": other, "b": Served(content, always=404), "c": page, "d": content}) as server:
        with pytest.raises(VseppError) as error:
            get(source(server, "a", "b", "c", sha256=sha(content)), tmp_path)
        assert (tmp_path / f"photographs.bin.bad-{sha(other)[:12]}").read_bytes() == other
        assert not (tmp_path / "photographs.bin").exists()
        facts = get(source(server, "a", "d", sha256=sha(content)), tmp_path)
        assert facts["url"] == server.url("d")
    for part in (f"/a: sha256 {sha(other)}, expected {sha(content)}", "/b: status 404", "/c: ", "HTML"):
        assert part in str(error.value)


def test_a_file_of_another_size_is_refused_before_its_first_byte(tmp_path, content):
    with serve({"a": content}) as server, pytest.raises(VseppError, match="3,000,000 bytes, expected 12"):
        get(source(server, size=12), tmp_path)
    # The answer's head is read; of the body at most what the sockets hold.
    assert not left_over(tmp_path)


def test_a_host_that_is_not_there_goes_to_the_next_mirror(tmp_path, content):
    with serve({}) as gone:
        dead = gone.url("a")
    with serve({"b": content}) as server:
        spec = SourceSpec("a.bin", mirrors=(dead, "http:///a", server.url("b")), sha256=sha(content))
        assert get(spec, tmp_path)["url"] == server.url("b")


class TestResume:
    """An interrupted download, taken up by a later call."""

    @pytest.fixture
    def begun(self, tmp_path, content):
        """A server whose mirrors both have the file, and a third of it on disk."""
        with serve({"a": Served(content, cut_after=1_000_000, statuses=[0, 404]), "b": content}) as server:
            with pytest.raises(VseppError, match="/a: status 404"):
                get(source(server), tmp_path)
            server.files["a"].cut_after = None
            server.requests.clear()
            yield server

    def test_goes_on_where_it_was(self, begun, tmp_path, content):
        get(source(begun), tmp_path)
        (request,) = begun.requests
        assert request.status == 206
        assert request.headers["If-Range"] == begun.files["a"].identity()
        assert (tmp_path / "photographs.bin").read_bytes() == content

    def test_a_changed_file_starts_over(self, begun, tmp_path, content):
        begun.files["a"].content = content[::-1]
        get(source(begun), tmp_path)
        assert [request.status for request in begun.requests] == [200]
        assert (tmp_path / "photographs.bin").read_bytes() == content[::-1]

    def test_another_mirror_starts_over(self, begun, tmp_path, content):
        begun.files["a"].always = 404
        get(source(begun, "a", "b", sha256=sha(content)), tmp_path)
        assert [(request.name, request.status) for request in begun.requests] == [("a", 404), ("b", 200)]
        assert (tmp_path / "photographs.bin").read_bytes() == content

    def test_damaged_bytes_on_disk_cost_one_more_go_at_the_same_mirror(self, begun, tmp_path, content):
        (partial,) = [path for path in left_over(tmp_path) if path.name == "content"]
        with partial.open("r+b") as stream:
            stream.write(b"zeros of a power cut")
        get(source(begun, sha256=sha(content)), tmp_path)
        assert [request.status for request in begun.requests] == [206, 200]
        assert len(list(tmp_path.glob("*.bad-*"))) == 1
        assert (tmp_path / "photographs.bin").read_bytes() == content

    def test_without_etag_or_sum_it_starts_over_and_with_a_date_it_goes_on(self, tmp_path, content):
        for dated, status in ((False, 200), (True, 206)):
            served = Served(content, cut_after=1_000_000, statuses=[0, 404], etag=False, last_modified=dated)
            with serve({"a": served}) as server:
                with pytest.raises(VseppError):
                    get(source(server), tmp_path / str(dated))
                served.cut_after = None
                get(source(server), tmp_path / str(dated))
                assert server.requests[-1].status == status


def test_a_full_disk_keeps_the_bytes_that_came(tmp_path, content):
    with serve({"a": content}) as server:
        spec = source(server, sha256=sha(content))
        with no_room(1_000_000), pytest.raises(OSError, match="File too large"):
            get(spec, tmp_path)
        get(spec, tmp_path)
        assert [request.range for request in server.requests] == [None, "bytes=1000000-"]
    assert (tmp_path / "photographs.bin").read_bytes() == content


def test_a_file_that_cannot_fit_is_refused_before_its_first_byte(tmp_path, content):
    with serve({"a": Served(content, announce_length=False), "b": content}) as server:
        with pytest.raises(VseppError, match=r"1,000,000,000\.00 GB"):
            get(source(server, "a", "b", size=10**18), tmp_path)
        assert len(server.requests) == 1  # no other mirror makes room


def test_without_mirrors_the_way_by_hand_is_told(tmp_path):
    spec = SourceSpec("a.zip", instructions="Ask the authors.", accepts=("a_b",), licence="research only")
    with pytest.raises(VseppError) as error:
        get(spec, tmp_path)
    for part in (str(tmp_path / "a.zip"), "Ask the authors.", "a_b", "`archives`", "research only"):
        assert part in str(error.value)


def test_the_sum_of_a_first_download_is_recorded_loudly_and_demanded_afterwards(tmp_path, content, caplog):
    lock = tmp_path / "sources.lock.yaml"
    with serve({"a": content}) as server, caplog.at_level(logging.WARNING, "vsepp"):
        spec = source(server)
        assert get(spec, tmp_path)["verified"] == "recorded first time"
        assert sha(content) in caplog.text
        entry = yaml.safe_load(lock.read_text())["photographs.bin"]
        assert (entry["sha256"], entry["size"], entry["url"]) == (sha(content), len(content), server.url("a"))
        (tmp_path / "photographs.bin").unlink()
        assert get(spec, tmp_path)["verified"] == "recorded before"
        (tmp_path / "photographs.bin").unlink()
        server.files["a"].content = content[::-1]
        with pytest.raises(VseppError, match=rf"{sha(content)} .*sources\.lock\.yaml"):
            get(spec, tmp_path)


class TestFilesPutThere:
    """A file that somebody put in the place of the download."""

    def test_a_file_is_read_once_and_its_note_speaks_for_it_until_it_is_written_to(self, tmp_path, content):
        target = tmp_path / "photographs.bin"
        target.write_bytes(content)
        spec = SourceSpec("photographs.bin", sha256=sha(content), size=len(content))
        facts = get(spec, tmp_path)
        assert (facts["verified"], facts["url"]) == ("published", None)
        time = target.stat().st_mtime_ns
        target.write_bytes(content[::-1])
        os.utime(target, ns=(time, time))
        assert get(spec, tmp_path) == facts
        os.utime(target, ns=(time + 1, time + 1))
        with pytest.raises(VseppError, match=sha(content[::-1])):
            get(spec, tmp_path)

    def test_another_file_is_refused_and_left_alone(self, tmp_path, content):
        target = tmp_path / "photographs.bin"
        target.write_bytes(content)
        with pytest.raises(VseppError, match=rf"sha256 {sha(content)}, expected {sha(b'')}"):
            get(SourceSpec("photographs.bin", sha256=sha(b"")), tmp_path)
        with pytest.raises(VseppError, match="3,000,000 bytes, expected 7"):
            get(SourceSpec("photographs.bin", size=7), tmp_path)
        assert target.read_bytes() == content


def test_of_processes_that_want_one_file_one_fetches_it_and_all_record_their_sums(tmp_path, content):
    """Three processes, two of them for the same file."""
    slow, quick = Served(content, bytes_per_second=3e6), content[:200_000]
    with serve({"a": slow, "b": quick}) as server:
        fetching = [in_a_process(source(server, name, file=name), tmp_path) for name in "aab"]
        assert [process.communicate()[1] for process in fetching if process.wait()] == []
        assert sorted(request.name for request in server.requests) == ["a", "b"]
    assert (tmp_path / "a").read_bytes() == content and (tmp_path / "b").read_bytes() == quick
    assert list(yaml.safe_load((tmp_path / "sources.lock.yaml").read_text())) == ["a", "b"]
