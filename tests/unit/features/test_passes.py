"""The steps that run a frozen encoder, on files, as a user runs and kills them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import tiny_corpus as tiny
import torch
from processes import wait_until

from vsepp.errors import VseppError
from vsepp.features.passes import make_features, make_tape
from vsepp.runtime.placing import Placing
from vsepp.spec import CropSpec, FeaturesSpec, TapeSpec

EPOCHS = 16
ENCODER = tiny.ENCODERS["vgg"]

pytestmark = [pytest.mark.tape, pytest.mark.resume]


def tape(corpus, out, state, **machine):
    spec = TapeSpec(ENCODER, tiny.RC.crop, 4, EPOCHS, ("train", "restval"))
    placing = Placing(tiny.CPU, **machine)
    return make_tape(spec, corpus / "store", corpus / "encoder-vgg", corpus / "corpus", out, state, placing)


def bytes_of(tape):
    return {path.name: path.read_bytes() for path in sorted(tape.glob("*.npy"))}


def test_a_killed_step_goes_on_to_the_same_bits(corpus, tmp_path):
    out, state = tmp_path / "tape", tmp_path / "state"
    folders = [str(corpus), str(out), str(state)]
    process = subprocess.Popen(
        [sys.executable, "-c", f"from test_passes import Path, tape; tape(*map(Path, {folders!r}))"],
        env={**os.environ, "PYTHONPATH": f"{Path(__file__).parent}:{os.environ['PYTHONPATH']}"},
    )
    wait_until(lambda: any(path.stat().st_size > 1000 for path in state.glob("epoch-*.npy")), process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not bytes_of(out)
    done = {path.name: path.stat().st_ino for path in state.glob("*.npy")}
    assert tape(corpus, out, state) == {"image store": "mapped"}
    assert all((out / name).stat().st_ino == inode for name, inode in done.items())
    assert not list(state.iterdir())
    tape(corpus, tmp_path / "whole", state)
    assert bytes_of(out) == bytes_of(tmp_path / "whole") and len(bytes_of(out)) == EPOCHS + 1


def test_features_are_the_same_whereever_the_images_lie_which_is_told(corpus, tmp_path):
    spec, found = FeaturesSpec(ENCODER, CropSpec("1C", tiny.CROP)), []
    for data_on, where in (("auto", "mapped"), ("mapped", "mapped"), ("device", "device")):
        folders = corpus / "store", corpus / "encoder-vgg", tmp_path / data_on, tmp_path / "state"
        assert make_features(spec, *folders, Placing(tiny.CPU, data_on)) == {"image store": where}
        found.append((tmp_path / data_on / "features.npy").read_bytes())
    assert found[0] == found[1] == found[2]


def test_a_pass_without_memory_says_what_to_lower(corpus, tmp_path, monkeypatch):
    def refused(*arguments, **options):
        torch.empty(1 << 60, dtype=torch.uint8)

    monkeypatch.setattr("vsepp.features.passes.write_tape", refused)
    with pytest.raises(VseppError) as caught:
        tape(corpus, tmp_path, tmp_path / "state", data_on="device", share=2)
    for part in (
        "random-crop features: out of memory on cpu",
        "Set resources.data_on to mapped; or lower resources.runs_per_gpu, now 2; or take a smaller encoder than "
        "mini/vgg_mini or a smaller input_size than 24",
    ):
        assert part in str(caught.value)
