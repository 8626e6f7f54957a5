"""The steps that run a frozen encoder, on files, as a user runs and kills them."""

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
from vsepp.features.passes import make_features, make_tape
from vsepp.features.tape import epoch_file
from vsepp.features.tape_writer import CHUNK_CAPTIONS
from vsepp.models.encoder import save_encoder
from vsepp.runtime.placing import Placing
from vsepp.spec import CropSpec, FeaturesSpec, TapeSpec, from_json, to_json

IMAGES, CAPTIONS_PER_IMAGE, EPOCHS = 600, 5, 6
CPU = torch.device("cpu")

pytestmark = [pytest.mark.tape, pytest.mark.resume]


@pytest.fixture(scope="module")
def made(tmp_path_factory, make):
    """Store, corpus, encoder, and the spec of a tape."""
    folder = tmp_path_factory.mktemp("made")
    names = [f"{number}.jpg" for number in range(IMAGES)]
    splits = np.where(np.arange(IMAGES) % 10, "train", "test")
    images = {"image_id": names, "file_name": names, "container": "images", "member": names, "split": splits}
    owners = np.repeat(np.arange(IMAGES, dtype=np.int32), CAPTIONS_PER_IMAGE)
    ids = np.arange(len(owners)) * 7 + 100
    captions = {"caption_id": ids, "image_index": owners, "text": "a thing", "split": splits[owners]}
    write_tables(folder / "corpus", pd.DataFrame(images), pd.DataFrame(captions))
    (folder / "store").mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (IMAGES, 30, 30, 3), dtype=np.uint8)
    np.save(folder / "store" / "images.npy", pixels)
    encoder = make("mini/vgg_mini")
    save_encoder(encoder, folder / "encoder")
    spec = TapeSpec(encoder.spec, CropSpec("RC", 24), 4, EPOCHS, ("train",))
    (folder / "spec.json").write_text(to_json(spec))
    return folder


def tape(folder, out, state, **machine):
    spec = from_json(TapeSpec, str(folder / "spec.json"))
    placing = Placing(CPU, **machine)
    return make_tape(spec, folder / "store", folder / "encoder", folder / "corpus", out, state, placing)


def bytes_of(tape):
    return {path.name: path.read_bytes() for path in sorted(tape.glob("*.npy"))}


def test_a_killed_step_goes_on_to_the_same_bits(made, tmp_path):
    out, state = tmp_path / "tape", tmp_path / "state"
    folders = [str(made), str(out), str(state)]
    process = subprocess.Popen(
        [sys.executable, "-c", f"from test_passes import Path, tape; tape(*map(Path, {folders!r}))"],
        env={**os.environ, "PYTHONPATH": f"{Path(__file__).parent}:{os.environ['PYTHONPATH']}"},
    )
    deadline = time.monotonic() + 60
    while not any(path.stat().st_size > 1000 for path in state.glob("epoch-*.npy")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not bytes_of(out)
    done = {path.name: path.stat().st_ino for path in state.glob("*.npy")}
    assert tape(made, out, state) == {"image store": "mapped"}
    assert all((out / name).stat().st_ino == inode for name, inode in done.items())
    assert not list(state.iterdir())
    tape(made, tmp_path / "whole", state)
    assert len(np.load(out / epoch_file(0))) == 2700 > 2 * CHUNK_CAPTIONS
    assert bytes_of(out) == bytes_of(tmp_path / "whole") and len(bytes_of(out)) == EPOCHS + 1


def test_features_are_the_same_whereever_the_images_lie_which_is_told(made, tmp_path):
    spec = FeaturesSpec(from_json(TapeSpec, str(made / "spec.json")).encoder, CropSpec("1C", 24))
    found = []
    for data_on, where in (("auto", "mapped"), ("mapped", "mapped"), ("device", "device")):
        folders = made / "store", made / "encoder", tmp_path / data_on, tmp_path / "state"
        assert make_features(spec, *folders, Placing(CPU, data_on)) == {"image store": where}
        found.append((tmp_path / data_on / "features.npy").read_bytes())
    assert found[0] == found[1] == found[2]


def test_a_pass_without_memory_says_what_to_lower(made, tmp_path, monkeypatch):
    def refused(*arguments, **options):
        torch.empty(1 << 60, dtype=torch.uint8)

    monkeypatch.setattr("vsepp.features.passes.write_tape", refused)
    with pytest.raises(VseppError) as caught:
        tape(made, tmp_path, tmp_path / "state", data_on="device", share=2)
    for part in (
        "random-crop features: out of memory on cpu",
        "Set resources.data_on to mapped; or lower resources.runs_per_gpu, now 2; or take a smaller encoder than "
        "mini/vgg_mini or a smaller input_size than 24",
    ):
        assert part in str(caught.value)
