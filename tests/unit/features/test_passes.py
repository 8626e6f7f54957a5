"""The steps that run a frozen encoder: several processes write one tape, the same bits whatever their number."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from vsepp.data.tables import write_tables
from vsepp.errors import VseppError
from vsepp.features.passes import FrozenPass, make_features, make_tape, writers_of
from vsepp.features.tape import epoch_file
from vsepp.features.tape_writer import CHUNK_CAPTIONS
from vsepp.models.encoder import save_encoder
from vsepp.runtime import devices
from vsepp.spec import CropSpec, FeaturesSpec, TapeSpec, from_json, to_json

IMAGES, CAPTIONS_PER_IMAGE, EPOCHS = 600, 5, 6

pytestmark = [pytest.mark.tape, pytest.mark.resume]


@pytest.fixture(scope="module")
def made(tmp_path_factory, make):
    """Store, corpus, encoder, the spec of a tape, and the tape that one process wrote."""
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
    pixels = np.random.default_rng(0).integers(0, 256, (IMAGES, 30, 30, 3), dtype=np.uint8)
    np.save(folder / "store" / "images.npy", pixels)
    encoder = make("mini/vgg_mini")
    save_encoder(encoder, folder / "encoder")
    spec = TapeSpec(encoder.spec, CropSpec("RC", 24), 4, EPOCHS, ("train",))
    (folder / "spec.json").write_text(to_json(spec))
    facts = step(folder, folder / "whole", folder / "state")
    assert facts == {
        "device": "cpu", "threads": 1, "writers": 1, "data_on": {"image store": "mapped"},
    }  # fmt: skip
    return folder


def frozen(folder, spec, **changes):
    machine = {"device": "cpu", "threads": 1, **changes}
    return FrozenPass(spec, folder / "store", folder / "encoder", **machine)


def step(folder, out, state, writers=1):
    wanted = frozen(folder, from_json(TapeSpec, str(folder / "spec.json")))
    return make_tape(wanted, folder / "corpus", out, state, writers)


def start(*arguments):
    """A process that makes the step."""
    text = [str(argument) for argument in arguments[:3]]
    command = f"from test_passes import Path, step; step(*map(Path, {text!r}), {arguments[3]})"
    path = os.pathsep.join([str(Path(__file__).parent), os.environ["PYTHONPATH"]])
    return subprocess.Popen(
        [sys.executable, "-c", command],
        env={**os.environ, "PYTHONPATH": path},
        stderr=subprocess.PIPE,
        text=True,
    )


def bytes_of(tape):
    return {path.name: path.read_bytes() for path in sorted(tape.glob("*.npy"))}


def writers(process):
    """Ids of the processes that write for a step."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(pid) for pid in children if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()]


def wait_for_a_chunk(process, state):
    """Wait until some of an epoch is written."""
    deadline = time.monotonic() + 60
    while not any(path.stat().st_size > 1000 for path in state.glob("epoch-*.npy")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.005)


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_killed_writer_ends_the_step_and_the_next_writers_go_on_to_the_same_bits(made, tmp_path):
    assert len(np.load(made / "whole" / epoch_file(0))) == 2700 > 2 * CHUNK_CAPTIONS
    out, state = tmp_path / "tape", tmp_path / "state"
    process = start(made, out, state, 2)
    wait_for_a_chunk(process, state)
    victim, other = writers(process)
    os.kill(victim, signal.SIGKILL)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1 and said.strip().splitlines()[-1].startswith("vsepp.errors.VseppError: ")
    assert "killed, perhaps for want of memory (signal 9). What is done is kept: run the step again" in said
    assert gone(other) and not bytes_of(out)
    done = {path.name: path.stat().st_ino for path in state.glob("*.npy")}
    facts = step(made, out, state, 2)
    assert bytes_of(out) == bytes_of(made / "whole")
    assert facts["writers"] == 2 and facts["device"] == "cpu" and not list(state.iterdir())
    assert done and all((out / name).stat().st_ino == inode for name, inode in done.items())


def test_writers_end_with_a_step_that_is_killed_and_the_next_one_goes_on(made, tmp_path):
    out, state = tmp_path / "tape", tmp_path / "state"
    process = start(made, out, state, 2)
    wait_for_a_chunk(process, state)
    writing = writers(process)
    process.kill()
    process.communicate()
    # At once the next step, whose writer may come upon one that is about to end.
    step(made, out, state)
    assert bytes_of(out) == bytes_of(made / "whole")
    deadline = time.monotonic() + 20
    while not all(map(gone, writing)):
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
    assert writers_of(4, device, epochs) == expected


def test_no_writers_at_all_are_an_error(made, tmp_path):
    with pytest.raises(VseppError, match="writers of a tape: got 0; expected at least 1"):
        step(made, tmp_path / "none", tmp_path / "state", 0)


@pytest.mark.parametrize("data_on", ["mapped", "device"])
def test_features_are_the_same_whereever_the_images_lie_which_is_told(made, tmp_path, data_on):
    spec = FeaturesSpec(from_json(TapeSpec, str(made / "spec.json")).encoder, CropSpec("1C", 24))
    found = []
    for place in ("auto", data_on):
        facts = make_features(frozen(made, spec, data_on=place), tmp_path / place, tmp_path / "state")
        found.append((tmp_path / place / "features.npy").read_bytes())
    assert facts["data_on"] == {"image store": data_on} and found[0] == found[1]


def test_a_pass_without_memory_says_what_to_lower(made, tmp_path, monkeypatch):
    def refused(*arguments, **options):
        torch.empty(1 << 60, dtype=torch.uint8)

    monkeypatch.setattr("vsepp.features.passes.write_epochs", refused)
    spec = dataclasses.replace(from_json(TapeSpec, str(made / "spec.json")), epochs=1)
    with pytest.raises(VseppError) as caught:
        make_tape(
            frozen(made, spec, data_on="device", share=2), made / "corpus", tmp_path, tmp_path / "state"
        )
    for part in (
        "random-crop features: out of memory on cpu",
        "Set resources.data_on to mapped; or lower resources.runs_per_gpu, now 2; or take a smaller encoder than "
        "mini/vgg_mini or a smaller input_size than 24",
    ):
        assert part in str(caught.value)
