"""Disks that are too small."""

import pytest
from plans import plan
from processes import no_room

from vsepp.apps.cli import main
from vsepp.base.errors import VseppError
from vsepp.base.files import check_space


def test_what_the_disk_cannot_hold_is_not_begun(tmp_path):
    check_space(tmp_path, 1, "a byte")
    with pytest.raises(VseppError, match=f"{tmp_path}: .*a file"):
        check_space(tmp_path, 1 << 60, "a file")


def test_a_step_that_cannot_write_ends_with_a_sentence(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = ["make", "figure_data", "vsepp/figure1", "--plan", str(plan().write().absolute())]
    with no_room():
        assert main(command) == 1
    (said,) = capsys.readouterr().err.splitlines()
    assert "evaluations/figures/vsepp" in said and "File too large" in said
