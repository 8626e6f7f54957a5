"""The steps that run a frozen encoder, on files, as a user runs and kills them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import tiny_corpus as tiny
from processes import wait_until

from vsepp.base.spec import TapeSpec
from vsepp.pipeline.step import Job
from vsepp.pipeline.steps import tape as tape_step

EPOCHS = 16
ENCODER = tiny.ENCODERS["vgg"]

pytestmark = [pytest.mark.tape, pytest.mark.resume]


def tape(corpus, out, state):
    spec = TapeSpec(ENCODER, tiny.RC.crop, 4, EPOCHS, ("train", "restval"))
    inputs = {"store": corpus / "store", "encoder": corpus / "encoder-vgg"}
    captions = corpus / "corpus" / "captions.parquet"
    return tape_step.run(spec, inputs | {"captions": captions}, out, Job(out, state, device="cpu"))


def bytes_of(tape):
    return {path.name: path.read_bytes() for path in sorted(tape.glob("*.npy"))}


def test_a_killed_step_goes_on_to_the_same_bits(corpus, tmp_path):
    out, state = tmp_path / "tape", tmp_path / "state"
    folders = [str(corpus), str(out), str(state)]
    process = subprocess.Popen(
        [sys.executable, "-c", f"from test_encoder_passes import Path, tape; tape(*map(Path, {folders!r}))"],
        env={**os.environ, "PYTHONPATH": f"{Path(__file__).parent}:{os.environ['PYTHONPATH']}"},
    )
    wait_until(lambda: any(path.stat().st_size > 1000 for path in state.glob("epoch-*.npy")), process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not bytes_of(out)
    done = {path.name: path.stat().st_ino for path in state.glob("*.npy")}
    assert tape(corpus, out, state)["data_on"] == {"image store": "mapped"}
    assert all((out / name).stat().st_ino == inode for name, inode in done.items())
    assert not list(state.iterdir())
    tape(corpus, tmp_path / "whole", state)
    assert bytes_of(out) == bytes_of(tmp_path / "whole") and len(bytes_of(out)) == EPOCHS + 1
