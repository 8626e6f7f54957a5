"""The manifest beside a download spares the reading of all its bytes, as long as it speaks for them."""

import json
import os

from vsepp.provenance.digests import file_digest
from vsepp.provenance.manifest import artefact_digest, read_sidecar, sidecar_path
from vsepp.sources.sums import check_present
from vsepp.spec import SourceSpec


def fetched(folder):
    path = folder / "train2014.zip"
    path.write_bytes(b"photographs")
    check_present(SourceSpec(path.name, sha256=file_digest(path)), path, folder / "lock.yaml")
    return path


def test_the_noted_sum_is_the_digest(tmp_path):
    path = fetched(tmp_path)
    assert artefact_digest(path) == file_digest(path)
    note = json.loads(sidecar_path(path).read_text())
    sidecar_path(path).write_text(json.dumps(note | {"sha256": "noted"}))
    assert artefact_digest(path) == "noted"


def test_a_file_of_another_time_or_size_is_read(tmp_path):
    path = fetched(tmp_path)
    note = json.loads(sidecar_path(path).read_text())
    sidecar_path(path).write_text(json.dumps(note | {"sha256": "noted"}))
    os.utime(path, ns=(note["mtime_ns"] + 1, note["mtime_ns"] + 1))
    assert artefact_digest(path) == file_digest(path)
    path.write_bytes(b"other photographs")
    os.utime(path, ns=(note["mtime_ns"], note["mtime_ns"]))
    assert artefact_digest(path) == file_digest(path)


def test_a_damaged_note_is_none(tmp_path):
    path = fetched(tmp_path)
    for text in ("{", "[]", '{"size": 11}'):
        sidecar_path(path).write_text(text)
        assert read_sidecar(path) is None
        assert artefact_digest(path) == file_digest(path)
