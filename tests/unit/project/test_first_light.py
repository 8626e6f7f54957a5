"""The first light of a new machine: what it finds right and wrong, that it goes on where it was, and what it advises."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from csv_rows import csv_rows
from raw_layouts import jpeg

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "benchmarks"))

import checks  # noqa: E402
import first_light  # noqa: E402

from vsepp.report.records import Study  # noqa: E402

SHORT = [
    "correct/features/*/bf16",
    "correct/steps/Order0/*",
    "measured/forward/*/bf16",
    "measured/tape/*/bf16",
]


def call(out, *more):
    return first_light.main(["--device", "cpu", "--tiny", "--out", str(out), *more])


def kept(out):
    return json.loads((out / "first-light.json").read_text())["pieces"]


def test_what_is_done_is_kept_and_not_done_again(tmp_path, capsys):
    out = tmp_path / "out"
    assert call(out, "--only", *SHORT, "--minutes", "0") == 3
    assert "0 of 5 pieces" in capsys.readouterr().out
    assert call(out, "--only", *SHORT) == 0
    pieces = kept(out)
    assert {piece["state"] for piece in pieces.values()} == {"done"} and len(pieces) == 5
    rows = csv_rows(out / "first-light.csv")
    assert list(rows[0]) == list(csv_rows(ROOT / "benchmarks/results.csv")[0])
    assert [row["what"] for row in rows] == ["forward", "tape"]
    assert "\n  mini/vgg_mini@24: {precision: bf16}    # " in capsys.readouterr().out
    assert call(out, "--only", *SHORT) == 0
    assert kept(out) == pieces


def test_what_is_wrong_is_said_and_tried_again(tmp_path, capsys, monkeypatch):
    with monkeypatch.context() as bounds:
        bounds.setitem(checks.FEATURE_BOUNDS, "bf16", 1e-9)
        bounds.setitem(checks.STEP_BOUNDS, "bf16", (1e-9, 1e-9))
        assert call(tmp_path / "out", "--only", "correct/features/*/bf16", "correct/steps/VSE0/bf16") == 1
    assert {piece["state"] for piece in kept(tmp_path / "out").values()} == {"WRONG"}
    assert "WRONG: correct/features/mini/vgg_mini@24/bf16: relative error" in capsys.readouterr().out
    assert call(tmp_path / "out", "--only", "correct/features/*/bf16", "correct/steps/VSE0/bf16") == 0


def archives(folder):
    """Flickr8k's two archives with as many photographs as it has, each a small one."""
    folder.mkdir()
    sizes = {"train": 6000, "dev": 1000, "test": 1000}
    names = {split: [f"{split}{k}.jpg" for k in range(count)] for split, count in sizes.items()}
    photographs = [jpeg(seed, (40, 30)) for seed in range(8)]
    with zipfile.ZipFile(folder / "Flickr8k_Dataset.zip", "w") as archive:
        for number, name in enumerate(name for some in names.values() for name in some):
            archive.writestr(f"Flicker8k_Dataset/{name}", photographs[number % 8])
    words = ["a dog runs on grass", "two dogs play", "a man climbs", "a child in red", "people by the water"]
    with zipfile.ZipFile(folder / "Flickr8k_text.zip", "w") as archive:
        lines = [
            f"{name}#{k}\t{words[k]} {name[0]}" for some in names.values() for name in some for k in range(5)
        ]
        archive.writestr("Flickr8k.token.txt", "\n".join(lines) + "\n")
        for split, some in names.items():
            archive.writestr(f"Flickr_8k.{split}Images.txt", "\n".join(some) + "\n")
    return folder


def without_the_workflow(folder, out, *options):
    """Call the script, and what it calls, on a machine where the workflow's packages are not installed."""
    hidden = folder / "hidden"
    hidden.mkdir()
    for name in ("snakemake", "dvc", "nltk"):
        (hidden / f"{name}.py").write_text(f"raise ModuleNotFoundError({name!r})\n")
    command = [
        sys.executable,
        ROOT / "benchmarks/first_light.py",
        "--device",
        "cpu",
        "--tiny",
        "--out",
        out,
        *options,
    ]
    paths = os.pathsep.join([str(hidden), str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths}
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.whole
def test_all_of_it_in_small_with_the_runs_that_wait_for_a_gpu(tmp_path, capsys):
    data, prepared, out = archives(tmp_path / "data"), tmp_path / "prepared", tmp_path / "out"
    assert first_light.main(["--prepare", str(prepared), "--data", str(data), "--tiny"]) == 0
    options = ["--data", str(data), "--prepared", str(prepared), "--minutes", "20"]
    options += [
        "--only",
        "correct/steps/VSE0/*",
        "measured/step-1c/*",
        "used/*",
    ]  # the others are tried alone
    done = without_the_workflow(tmp_path, out, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    pieces = kept(out)
    assert {piece["state"] for piece in pieces.values()} == {"done"}
    assert {name.partition("/")[0] for name in pieces} == {"correct", "measured", "used"}
    assert "rsum" in pieces["used/evaluation f8k-vse0-rc-ft/seed-0"]["message"]
    assert set(Study(out / "records").read_all()) == {("f8k-vse0-rc", 0), ("f8k-vse0-rc-ft", 0)}
    assert first_light.main(["--prepare", str(prepared), "--data", str(data), "--tiny"]) == 2
    assert "already exists" in capsys.readouterr().err
