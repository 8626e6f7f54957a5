"""The precision of matrix products: in a frozen encoder, in a training step, and in embeddings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from vsepp.base.declared import Precision


@contextmanager
def fp32_products_in(precision: Precision, device: torch.device) -> Iterator[None]:
    """Set how a GPU multiplies fp32 tensors within, whatever torch is set to outside, and restore that afterwards.

    By default, torch lets convolutions and the GRU round their inputs to TF32 (10 bits of mantissa) on a GPU.

    Parameters
    ----------
    precision
        `fp32`: IEEE single precision everywhere. `tf32`: TF32 in matrix products, convolutions and the GRU, if the
        hardware has it. `bf16`: TF32 in the GRU, which autocast leaves to cuDNN in fp32; matrix products outside of
        autocast, such as scores, are IEEE.
    device
        Where to compute; nothing is set for a CPU. Settings apply to all threads of the process, so also to a backward
        pass within.
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
    """Compute matrix products and convolutions within in this precision, whatever torch is set to outside.

    `fp32` is IEEE single precision. `tf32` lets all products round to TF32 if the hardware can, and is fp32
    otherwise. `bf16` is autocast.

    Parameters
    ----------
    precision
        The precision of an encoder's or a run's spec.
    device
        Where to compute.
    """
    with (
        fp32_products_in(precision, device),
        torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"),
    ):
        yield
