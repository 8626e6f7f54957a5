import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from plans import plan
from processes import python

from vsepp.errors import VseppError
from vsepp.runtime.memory import out_of_memory_explained
from vsepp.steps.making import make
from vsepp.steps.scenes import STEP as SCENES


def refused_by_torch():
    torch.empty(1 << 60, dtype=torch.uint8)


def refused_by_numpy():
    np.empty(1 << 60, np.uint8)


def refused_by_a_library():
    raise RuntimeError("first line\ncuDNN error: CUDNN_STATUS_ALLOC_FAILED")


@pytest.mark.parametrize("refused", [refused_by_torch, refused_by_numpy, refused_by_a_library])
def test_a_lack_of_memory_in_a_step_is_one_sentence(refused, tmp_path):
    greedy = dataclasses.replace(SCENES, run=lambda spec, inputs, out, job: refused())
    with pytest.raises(VseppError) as caught:
        make(greedy, plan().parameters.preset.scenes, {}, tmp_path / "scenes")
    assert re.fullmatch(
        rf"{SCENES.title} {tmp_path}/scenes: out of memory on cpu \(.*(memory|allocate|ALLOC_FAILED).*\); this process took "
        r"[\d.]+ [MG]B at most; the machine has [\d.]+ GB",
        str(caught.value),
    )
    assert not (tmp_path / "scenes").exists()


def test_other_failures_pass():
    with pytest.raises(RuntimeError, match="shape"), out_of_memory_explained("run tiny"):
        torch.ones(2).view(3)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_what_the_starting_process_took_is_not_counted():
    """`getrusage` would say 300 MB of a program that a process of that size starts."""
    program = "from vsepp.runtime.progress import peak_memory; print(peak_memory())"
    starting = f"import subprocess, sys; held = bytearray(300_000_000); sys.exit(subprocess.call([sys.executable, '-c', {program!r}]))"
    assert 1e6 < int(python(starting)) < 100e6
