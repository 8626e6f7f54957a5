"""What a killed training needs to go on: one file in the state folder, replaced after every epoch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from vsepp.errors import VseppError

FILE = "checkpoint.pt"


def save_checkpoint(folder: Path, content: dict[str, Any]) -> None:
    """Write a checkpoint that is either there whole or the one before it.

    Parameters
    ----------
    folder
        State folder; it holds one checkpoint.
    content
        Tensors, numbers, strings and containers of them: it is read back without unpickling objects.
    """
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f".{FILE}.part"
    torch.save(content, partial)
    partial.replace(folder / FILE)


def load_checkpoint(folder: Path, run: str) -> dict[str, Any] | None:
    """Read the checkpoint of a run, or `None` where there is none.

    Parameters
    ----------
    folder
        State folder.
    run
        The run's spec as JSON; a checkpoint holds that of the run that wrote it under `run`.

    Raises
    ------
    VseppError
        When the file is damaged or another run's.
    """
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises whatever the bytes make of themselves
        raise VseppError(
            f"{path}: damaged checkpoint ({error}); delete it to train from the start"
        ) from error
    if content.get("run") != run:
        raise VseppError(f"{path}: the checkpoint of another run; give each run a state folder of its own")
    return content


def random_states(device: torch.device) -> dict[str, Any]:
    """States of the random generators that a step may draw from (dropout, in `legacy` mode)."""
    states: dict[str, Any] = {"torch": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def restore_random_states(states: dict[str, Any], device: torch.device) -> None:
    """Inverse of `random_states`."""
    torch.set_rng_state(states["torch"])
    if "cuda" in states and device.type == "cuda":
        torch.cuda.set_rng_state(states["cuda"], device)
