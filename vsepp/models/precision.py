"""How precisely products are computed: in a frozen pass, a training step, and when embeddings are made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch

Precision = Literal["fp32", "tf32", "bf16"]


@contextmanager
def fp32_products_in(precision: Precision, device: torch.device) -> Iterator[None]:
    """Say how a GPU multiplies fp32 tensors within, whatever torch is set to outside; put that back afterwards.

    torch's own default lets convolutions and the GRU of a GPU round their inputs to TF32, 10 bits of fraction.

    Parameters
    ----------
    precision
        `fp32`: IEEE single precision everywhere. `tf32`: TF32 in matrix products, convolutions and the GRU, where the
        hardware has it. `bf16`: TF32 in what autocast leaves to cuDNN in fp32, the GRU; matrix products outside of
        autocast, such as scores, are IEEE.
    device
        Where is computed; nothing is set for a CPU. What is set holds for all threads of the process, so for the
        backward pass too if that is within.
    """
    if device.type != "cuda":
        yield
        return
    products, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = products.allow_tf32, cudnn.allow_tf32
    products.allow_tf32, cudnn.allow_tf32 = precision == "tf32", precision != "fp32"
    try:
        yield
    finally:
        products.allow_tf32, cudnn.allow_tf32 = before


@contextmanager
def products_in(precision: Precision, device: torch.device) -> Iterator[None]:
    """Compute matrix products and convolutions within in a precision, whatever torch is set to outside.

    `fp32` is IEEE single precision. `tf32` lets all products round to TF32 where the hardware can, and is fp32
    elsewhere. `bf16` is autocast.

    Parameters
    ----------
    precision
        Of an encoder's or a run's spec.
    device
        Where is computed.
    """
    with (
        fp32_products_in(precision, device),
        torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"),
    ):
        yield
