"""Disks that are too small."""

import pytest
from processes import no_room

from vsepp.apps.cli import main
from vsepp.base.errors import VseppError
from vsepp.base.files import check_space


def test_what_the_disk_cannot_hold_is_not_begun(tmp_path):
    check_space(tmp_path, 1, "a byte")
    with pytest.raises(VseppError, match=f"{tmp_path}: .*a file"):
        check_space(tmp_path, 1 << 60, "a file")


def test_a_step_that_cannot_write_ends_with_a_sentence(tmp_path, capsys):
    kind = '{"name": "constellations", "positive": [0, 1], "negatives": [[[1, 1]]]}'
    spec = f'{{"kind": {kind}, "losses": [{{"name": "max_of_hinges"}}]}}'
    with no_room():
        assert main(["make", "figure_data", "--spec", spec, "--output", str(tmp_path / "out")]) == 1
    (said,) = capsys.readouterr().err.splitlines()
    assert str(tmp_path / "out") in said and "File too large" in said
