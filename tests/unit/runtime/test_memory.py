import re

import numpy as np
import pytest
import torch

from vsepp.errors import VseppError
from vsepp.runtime.memory import out_of_memory_explained

CPU = torch.device("cpu")


def refused_by_torch():
    torch.empty(1 << 60, dtype=torch.uint8)


def refused_by_numpy():
    np.empty(1 << 60, np.uint8)


def refused_by_a_library():
    raise RuntimeError("first line\ncuDNN error: CUDNN_STATUS_ALLOC_FAILED")


@pytest.mark.parametrize("refused", [refused_by_torch, refused_by_numpy, refused_by_a_library])
def test_a_lack_of_memory_says_what_to_lower(refused):
    with (
        pytest.raises(VseppError) as caught,
        out_of_memory_explained("run tiny", CPU, ["lower this", "that"]),
    ):
        refused()
    assert re.fullmatch(
        r"run tiny: out of memory on cpu \(.*(memory|allocate|ALLOC_FAILED).*\); this process took [\d.]+ [MG]B at most; the "
        r"machine has [\d.]+ GB\. Lower this; or that; or end other programs that use memory here\. Then run the same command "
        r"again: it continues where it was",
        str(caught.value),
    )


def test_other_failures_pass():
    with pytest.raises(RuntimeError, match="shape"), out_of_memory_explained("run tiny", CPU, []):
        torch.ones(2).view(3)
