"""Full disks and closed folders, as the libraries tell of them that write."""

import numpy as np
import pandas as pd
import pytest
import torch
from plans import PARAMS, plan
from processes import no_room
from safetensors.torch import save_file

from vsepp.cli import main
from vsepp.provenance.space import refused_by_system

WRITES = {
    "text": lambda path: path.write_text("text"),
    "numpy": lambda path: np.arange(9000).tofile(path),
    "numpy, zip": lambda path: np.savez(path, np.arange(9)),
    "torch": lambda path: torch.save(torch.ones(9), path.open("wb")),
    "safetensors": lambda path: save_file({"a": torch.ones(9)}, path),
    "parquet": lambda path: pd.DataFrame({"a": [1]}).to_parquet(path),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_full_disk_is_told_whichever_library_writes(tmp_path, write):
    with pytest.raises(Exception) as caught, no_room():
        WRITES[write](tmp_path / "file.npz")
    said = refused_by_system(caught.value, tmp_path / "not" / "there")
    assert "no space left on the disk" in said and "are free. Free some and run the step again" in said


def test_another_failure_is_not_mistaken_for_one_of_the_system(tmp_path):
    for call in (lambda: int("x"), lambda: (tmp_path / "a").read_text()):
        with pytest.raises((ValueError, FileNotFoundError)) as caught:
            call()
        assert refused_by_system(caught.value, tmp_path) is None


def test_a_step_that_cannot_write_ends_with_a_sentence(tmp_path, capsys):
    kind = '{"name": "constellations", "positive": [0, 1], "negatives": [[[1, 1]]]}'
    spec = f'{{"kind": {kind}, "losses": [{{"name": "max_of_hinges"}}]}}'
    with no_room():
        assert main(["make", "figure_data", "--spec", spec, "--output", str(tmp_path / "out")]) == 1
    (said,) = capsys.readouterr().err.splitlines()
    assert "no space left on the disk" in said


def test_a_step_by_its_name_that_cannot_write_names_its_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    row = next(iter(plan().of_kind("figure_data").values()))
    with no_room():
        assert main(["make", "figure_data", row.name, "--params", str(PARAMS)]) == 1
    assert f"{row.folder}: no space left on the disk" in capsys.readouterr().err
