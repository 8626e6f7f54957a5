"""The table of a plan, written whole and read by a job."""

import json

import pytest
from plans import PARAMS, plan

from vsepp.base.digests import value_digest
from vsepp.base.errors import VseppError
from vsepp.pipeline.table import read_table


@pytest.mark.parametrize(
    "overrides", [{}, {"preset": "flickr8k"}, {"preset": "paper", "fidelity": "code"}], ids=str
)
def test_what_is_read_is_what_was_written(tmp_path, overrides):
    laid_out = plan(**overrides)
    read = read_table(laid_out.write(tmp_path))
    assert list(read.table) == list(laid_out.table) and read.files == laid_out.files
    assert (read.resources, read.lock) == (laid_out.resources, PARAMS / "sources.lock.yaml")
    for first, second in zip(laid_out.table.values(), read.table.values(), strict=True):
        assert (first.spec, first.folder) == (second.spec, second.folder)
        assert dict(first.inputs) == dict(second.inputs)
        assert first.digest == second.digest


def test_a_damaged_table_is_written_again_and_refused_until_then(tmp_path):
    path = plan().write(tmp_path)
    whole = path.read_bytes()
    for damaged in (whole[:-9], b"[]", whole.replace(b"coco", b"cocu")):
        path.write_bytes(damaged)
        with pytest.raises(VseppError, match=str(path)):
            read_table(path)
        assert plan().write(tmp_path) == path and path.read_bytes() == whole


def test_the_code_with_which_the_work_began_stays_in_a_row(tmp_path):
    table = json.loads(plan().write(tmp_path).read_bytes())
    table["rows"][0]["digest"] = "of other code"
    path = tmp_path / f"{value_digest(table)[:16]}.json"
    path.write_text(json.dumps(table))
    assert next(iter(read_table(path).table.values())).digest == "of other code"
