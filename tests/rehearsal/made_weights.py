"""Weights files of torchvision's networks with random numbers, named as torchvision names its own."""

from __future__ import annotations

from pathlib import Path

from vsepp.base.digests import file_digest


def write_weights(folder: Path, architecture: str) -> Path:
    """Write the state of a whole network, its classifier included.

    Parameters
    ----------
    folder
        Made where it is missing.
    architecture
        `vgg19` (575 MB), `resnet152` (241 MB) or any other of torchvision's.

    Returns
    -------
    Path
        `<architecture>-<first 8 hexadecimal digits of the file's SHA-256>.pth`.
    """
    import torch
    import torchvision

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        state = torchvision.models.get_model(architecture, weights=None).state_dict()
    for key, value in state.items():
        # As training leaves them: with a scale of 1, fifty residual blocks in evaluation mode overflow 16 bits.
        if key.endswith("bn3.weight"):
            value.mul_(0.2)
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f".{architecture}.part"
    # Through a stream: given a path, torch writes its name into the file, and the sum would depend on it.
    with partial.open("wb") as stream:
        torch.save(state, stream)
    return partial.rename(folder / f"{architecture}-{file_digest(partial)[:8]}.pth")
