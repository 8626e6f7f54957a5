"""The manifest beside a download spares the reading of all its bytes, as long as it speaks for them."""

import json
import os

from vsepp.base.digests import file_digest
from vsepp.base.manifest import artefact_digest, sidecar_path
from vsepp.base.spec import SourceSpec
from vsepp.data.download import fetch


def test_the_noted_sum_is_the_digest_of_a_file_of_that_time_and_size(tmp_path):
    path = tmp_path / "photographs.bin"
    path.write_bytes(b"photographs")
    fetch(SourceSpec(path.name, sha256=file_digest(path)), path, tmp_path / "lock.yaml")
    note = json.loads(sidecar_path(path).read_text())
    sidecar_path(path).write_text(json.dumps(note | {"sha256": "noted"}))
    assert artefact_digest(path) == "noted"
    os.utime(path, ns=(note["mtime_ns"] + 1, note["mtime_ns"] + 1))
    assert artefact_digest(path) == file_digest(path)
    path.write_bytes(b"other photographs")
    os.utime(path, ns=(note["mtime_ns"], note["mtime_ns"]))
    assert artefact_digest(path) == file_digest(path)
    for damaged in ("{", "[]", '{"size": 11}'):
        sidecar_path(path).write_text(damaged)
        assert artefact_digest(path) == file_digest(path)
