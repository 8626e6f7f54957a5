"""Several processes write one tape: the same bits whatever their number, and whoever is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from vsepp.runtime import devices
from vsepp.cli import main
from vsepp.cli.features import _writers
from vsepp.data.tables import write_tables
from vsepp.errors import VseppError
from vsepp.features.tape import epoch_file
from vsepp.features.tape_writer import CHUNK_CAPTIONS, TapeJob, begin_tape
from vsepp.models.encoder import build_encoder, save_encoder
from vsepp.spec import CropSpec, EncoderSpec, to_json

SIDE, SIZE, EPOCHS = 30, 24, 6
IMAGES, CAPTIONS_PER_IMAGE = 600, 5
SPEC = EncoderSpec(
    name="vgg",
    architecture="mini/vgg_mini",
    weights="random",
    input_size=SIZE,
    store_side=SIDE,
    mean=(0.5, 0.5, 0.5),
    std=(0.25, 0.25, 0.25),
)

pytestmark = [pytest.mark.tape, pytest.mark.resume]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Store, corpus, encoder, and a tape that one process wrote."""
    folder = tmp_path_factory.mktemp("made")
    names = [f"{number}.jpg" for number in range(IMAGES)]
    splits = np.where(np.arange(IMAGES) % 10, "train", "test")
    images = pd.DataFrame(
        {"image_id": names, "file_name": names, "container": "images", "member": names, "split": splits}
    )
    owners = np.repeat(np.arange(IMAGES, dtype=np.int32), CAPTIONS_PER_IMAGE)
    ids = np.arange(len(owners)) * 7 + 100
    captions = pd.DataFrame(
        {"caption_id": ids, "image_index": owners, "text": "a thing", "split": splits[owners]}
    )
    write_tables(folder / "corpus", images, captions)
    (folder / "store").mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (IMAGES, SIDE, SIDE, 3), dtype=np.uint8)
    np.save(folder / "store" / "images.npy", pixels)
    torch.manual_seed(0)
    save_encoder(build_encoder(SPEC), folder / "encoder")
    assert main(command(folder, folder / "whole")) == 0
    return folder


def command(folder, output, *, writers=1):
    return [
        "tape", "--encoder-spec", to_json(SPEC), "--crop", to_json(CropSpec(kind="RC", size=SIZE)),
        "--draw", "4", "--epochs", str(EPOCHS), "--splits", "train", "--store", str(folder / "store"),
        "--corpus", str(folder / "corpus"), "--encoder", str(folder / "encoder"), "--output", str(output),
        "--writers", str(writers), "--device", "cpu", "--threads", "1",
    ]  # fmt: skip


def bytes_of(tape):
    return {path.name: path.read_bytes() for path in sorted(tape.glob("*.npy"))}


def facts_of(tape):
    return json.loads((tape / "manifest.json").read_text())["facts"]


def start(arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "vsepp.cli", *arguments],
        cwd=Path(__file__).parents[3],
        stderr=subprocess.PIPE,
        text=True,
    )


def writers_of(process):
    """Ids of the processes that write for a step."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(pid) for pid in children if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()]


def wait_for_a_chunk(process, output):
    """Wait until some of an epoch is written."""
    deadline = time.monotonic() + 60
    while not any(path.stat().st_size > 1000 for path in output.parent.glob(".state/*/epoch-*.npy")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.005)


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_killed_writer_ends_the_step_and_any_number_of_writers_go_on_to_the_same_bits(made, tmp_path):
    assert len(np.load(made / "whole" / epoch_file(0))) == 2700 > 2 * CHUNK_CAPTIONS
    out = tmp_path / "tape"
    step = start(command(made, out, writers=2))
    wait_for_a_chunk(step, out)
    victim, other = writers_of(step)
    os.kill(victim, signal.SIGKILL)
    _, said = step.communicate(timeout=60)
    assert step.returncode == 1 and "Traceback" not in said
    assert "of 2 was killed by signal 9, for want of memory perhaps. Run the step again" in said
    assert gone(other) and not bytes_of(out)
    (state,) = (path for path in (tmp_path / ".state").iterdir() if path.is_dir())
    done = {path.name: path.stat().st_ino for path in state.glob("*.npy")}
    assert main(command(made, out, writers=3)) == 0
    assert bytes_of(out) == bytes_of(made / "whole")
    assert facts_of(made / "whole")["writers"] == 1
    assert facts_of(out)["writers"] == 3 and facts_of(out)["device"] == "cpu"
    assert not list((tmp_path / ".state").glob("*/*"))
    assert done and all((out / name).stat().st_ino == inode for name, inode in done.items())


def test_writers_end_with_a_step_that_is_killed_and_the_next_one_goes_on(made, tmp_path):
    out = tmp_path / "tape"
    step = start(command(made, out, writers=2))
    wait_for_a_chunk(step, out)
    writers = writers_of(step)
    step.kill()
    step.communicate()
    # At once the next step, whose writer may come upon one that is about to end.
    assert main(command(made, out)) == 0
    assert bytes_of(out) == bytes_of(made / "whole")
    deadline = time.monotonic() + 20
    while not all(map(gone, writers)):
        assert time.monotonic() < deadline, "a writer outlived its step"
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("device", "epochs", "gpus", "expected"),
    [
        ("cpu", 6, 2, 4),
        ("cpu", 3, 0, 3),
        ("auto", 6, 0, 4),
        ("auto", 6, 2, 2),
        ("auto", 1, 8, 1),
        ("cuda", 30, 8, 4),
        ("cuda:1", 6, 2, 1),
    ],
)
def test_no_more_writers_than_epochs_and_gpus(monkeypatch, device, epochs, gpus, expected):
    monkeypatch.setattr(devices, "installed", lambda: gpus)
    monkeypatch.delenv(devices.VISIBLE, raising=False)
    assert _writers(Namespace(device=device, writers=4), epochs) == expected


def test_no_writers_at_all_are_an_error(made, tmp_path, capsys):
    assert main(command(made, tmp_path / "none", writers=0)) == 1
    assert "--writers: got 0; expected at least 1" in capsys.readouterr().err


def test_space_for_the_whole_tape_is_asked_for_before_anything_is_written(tmp_path):
    rows = np.arange(1000)
    job = TapeJob(
        CropSpec("RC", SIZE), rows, rows, rows, 2**30, 0, range(3), tmp_path / "tape", tmp_path / "state"
    )
    with pytest.raises(VseppError, match=r"a tape of 3 epochs needs 6000\.00 GiB"):
        begin_tape(job)
    assert not list((tmp_path / "state").iterdir())
