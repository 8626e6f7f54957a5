"""The command line: clear errors, and steps that work by hand."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from vsepp.cli import main
from vsepp.config import make_plan
from vsepp.spec import RunSpec, from_json

PARAMS = Path(__file__).resolve().parents[3] / "params"


@pytest.fixture
def embeddings(tmp_path):
    rng = np.random.default_rng(0)
    images = rng.normal(size=(50, 8)).astype(np.float32)
    images /= np.linalg.norm(images, axis=1, keepdims=True)
    path = tmp_path / "mine" / "embeddings.npz"
    path.parent.mkdir()
    np.savez(
        path,
        image_embeddings=images,
        caption_embeddings=np.repeat(images, 2, axis=0),
        caption_to_image=np.repeat(np.arange(50), 2),
    )
    return path


def test_anyones_embeddings_are_scored(embeddings, capsys):
    assert main(["evaluate", str(embeddings), "--protocol", "5x1K", "5K", "--fold-size", "10"]) == 0
    out = capsys.readouterr().out
    assert "5 folds of 10 images" in out
    assert out.count("100.0") == 12


def test_metrics_and_ranks_are_published_with_a_manifest(embeddings, tmp_path):
    out = tmp_path / "out"
    assert (
        main(["evaluate", str(embeddings), "--protocol", "1K", "--fold-size", "20", "--output", str(out)])
        == 0
    )
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["1K"]["i2t"]["r1"] == 100.0
    assert metrics["1K"]["n_images"] == 20
    assert np.load(out / "ranks.npz")["1K_t2i"].tolist() == [0.0] * 40
    assert set(json.loads((out / "manifest.json").read_text())["outputs"]) == {"metrics.json", "ranks.npz"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["evaluate", "nowhere.npz"], "nowhere.npz"),
        (["train", "--spec", "{", "--corpus", "c", "--tokens", "t", "--output", "o"], "not valid JSON"),
        (
            ["train", "--spec", '{"id": "x"}', "--corpus", "c", "--tokens", "t", "--output", "o"],
            "missing keys",
        ),
        (
            ["train", "--spec", "no.json", "--corpus", "c", "--tokens", "t", "--output", "o"],
            "no such spec file",
        ),
        (["corpus", "--spec", '{"colour": 1}', "--output", "o"], "unknown keys ['colour']"),
        (["show", "nobody", "--params", str(PARAMS)], "nobody: no run of preset mini"),
        (["runs", "--params", str(PARAMS), "--config", "preset"], "expected KEY=VALUE"),
        (["runs", "--params", str(PARAMS), "--config", "preset=huge"], "no such file"),
    ],
)
def test_bad_input_is_one_message_and_status_one(arguments, expected, capsys):
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert expected in error
    assert "Traceback" not in error


def test_a_missing_gpu_is_an_error_only_when_it_was_asked_for(tmp_path):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    from argparse import Namespace

    from vsepp.cli.common import use_machine
    from vsepp.errors import VseppError

    facts = {}
    assert use_machine(Namespace(device="auto", threads=None), facts).type == "cpu"
    assert facts["device"] == "cpu"
    with pytest.raises(VseppError, match="torch finds no GPU"):
        use_machine(Namespace(device="cuda", threads=None), {})
    with pytest.raises(VseppError, match="expected auto, cpu, cuda"):
        use_machine(Namespace(device="quantum", threads=None), {})


def test_show_prints_the_spec_that_train_reads(capsys):
    assert main(["show", "flickr-vsepp-rc", "--params", str(PARAMS), "--json"]) == 0
    spec = from_json(RunSpec, capsys.readouterr().out)
    assert spec == make_plan(PARAMS, {}).runs["flickr-vsepp-rc"].spec


def test_show_names_the_origin_of_every_value(capsys):
    assert main(["show", "coco-order0-10c-rv", "--params", str(PARAMS), "--config", "preset=paper"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "0.05" in lines["margin"]
    assert lines["margin"].endswith("runs.yaml: coco-order0-10c-rv")
    assert "fidelity/paper.yaml" in lines["resize"]


def test_runs_lists_every_run_with_its_rows(capsys):
    assert main(["runs", "--params", str(PARAMS), "--config", "preset=paper"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 32
    assert any("coco-vsepp-rc-rv-ft" in line and "1.9 (5x1K), 1.13 (5K)" in line for line in lines)


def test_help_is_given_without_importing_torch():
    probe = "import sys\nfrom vsepp.cli import main\ntry: main(['--help'])\nexcept SystemExit: print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("False\n")
