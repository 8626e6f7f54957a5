"""Where the models and the encoders' weights that come with the package lie."""

from __future__ import annotations

import os
from pathlib import Path

from vsepp.base.errors import VseppError, did_you_mean
from vsepp.base.manifest import MANIFEST


def shipped_models() -> dict[str, Path]:
    """Name → folder of each model that comes with the package."""
    return {path.parent.name: path.parent for path in sorted(Path(__file__).parent.glob(f"*/{MANIFEST}"))}


def encoder_weights(architecture: str) -> Path:
    """File of an encoder's weights, such as `mini/vgg_mini`'s, if they come with the package."""
    return Path(__file__).parent / "encoders" / f"{architecture}.safetensors"


def model_folder(model: str | os.PathLike[str]) -> Path:
    """The folder of a model, given as a folder or as the name of a model that comes with the package.

    Raises
    ------
    VseppError
        If it is neither.
    """
    shipped = shipped_models()
    if not isinstance(model, str | os.PathLike) or not str(model):
        raise VseppError(f"model: got {model!r}; expected a folder, or one of {', '.join(shipped)}")
    folder = Path(model)
    if str(model) in shipped and not (folder / MANIFEST).is_file():
        return shipped[str(model)]
    if not folder.is_dir():
        raise VseppError(
            f"{model}: no such folder; expected a trained run, an exported model, or the name of a model that comes with "
            f"vsepp: {', '.join(shipped)}{did_you_mean(str(model), shipped)}"
        )
    return folder
