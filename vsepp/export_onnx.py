"""Both encoders of a trained model as ONNX, for runtimes without torch."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import nn

from vsepp.errors import VseppError
from vsepp.evaluation.encode import evaluation_mode
from vsepp.retrieval import Model

log = logging.getLogger("vsepp")

IMAGES, CAPTIONS = "images.onnx", "captions.onnx"
CLOSE = 1e-5
"""Largest difference between onnxruntime's embeddings and torch's, as a part of an embedding's length."""


class ImageTower(nn.Module):
    """Crops uint8 `(n·k, size, size, 3)`, the k crops of an image one after another, to embeddings `(n, d)`."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.joint, self.encoder = model.joint, model.encoder
        self.crops = 10 if model.run.eval_crop.kind == "10C" else 1

    def forward(self, crops: torch.Tensor) -> torch.Tensor:
        """Encode, average over the crops of each image, and map."""
        if self.encoder is None:
            return self.joint.embed_images(crops)
        features = self.encoder(self.encoder.normalise(crops))
        return self.joint.embed_images(features.unflatten(0, (-1, self.crops)).mean(dim=1))


class CaptionTower(nn.Module):
    """Word indices int64 `(n, longest)` and lengths int64 `(n,)` to embeddings `(n, d)`."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.joint = model.joint

    def forward(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Embed captions that are padded to one length."""
        return self.joint.map_captions(self.joint.text.padded(ids, lengths))


def export_onnx(model: Model, folder: Path) -> dict[str, float]:
    """Write `images.onnx` and `captions.onnx`, and compare onnxruntime's embeddings with torch's.

    Parameters
    ----------
    model
        A model on the CPU.
    folder
        An existing folder. Inputs are named and shaped as the arguments of `ImageTower` and `CaptionTower`, the output is
        `embeddings`; n and the length of the longest caption are free.

    Returns
    -------
    dict
        File → largest difference found, as a part of an embedding's length.

    Raises
    ------
    VseppError
        If onnx, onnxscript or onnxruntime is not installed, if images are sets, if the text encoder has no method `padded`, or if embeddings
        differ by more than `CLOSE`; then no ONNX file is left.
    """
    try:
        import onnx  # noqa: F401
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise VseppError(f"{error}; ONNX files need the extra: pip install '.[onnx]'") from error
    if model.joint.image_pooling is not None:
        raise VseppError(
            f"run {model.run.id} pools sets of image vectors, which cannot be exported to ONNX yet; expected one vector an image"
        )
    if not hasattr(model.joint.text, "padded"):
        raise VseppError(
            f"text encoder {model.run.model.text.name!r} cannot be exported to ONNX; expected a method `padded(ids, lengths)`"
        )
    if model.encoder is None and model.joint.encoder is None:
        raise VseppError(f"run {model.run.id} was trained on published features; their encoder is not here")
    found = {}
    for name, tower, inputs in (
        (IMAGES, ImageTower(model), _crops),
        (CAPTIONS, CaptionTower(model), _captions),
    ):
        path = folder / name
        with evaluation_mode(model.joint, model.device):
            expected = tower(*map(torch.from_numpy, inputs(model, 3).values())).numpy()
        _write(tower.eval(), inputs(model, 2), path)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        (embeddings,) = session.run(None, inputs(model, 3))
        lengths = np.linalg.norm(expected, axis=1)
        found[name] = float((np.linalg.norm(embeddings - expected, axis=1) / lengths).max())
        if not found[name] <= CLOSE:
            for written in folder.glob("*.onnx*"):
                written.unlink()
            raise VseppError(
                f"{path}: onnxruntime's embeddings differ from torch's by {found[name]:.1e} of their length, expected at most "
                f"{CLOSE:.0e}"
            )
    log.info(
        "onnxruntime's embeddings differ from torch's by at most %.1e of their length", max(found.values())
    )
    return found


def _write(tower: nn.Module, inputs: Mapping[str, np.ndarray], path: Path) -> None:
    """Write an encoder; inputs are examples: all their dimensions except the size of crops are free."""
    free = torch.export.Dim.AUTO
    dynamic = {name: {0: free, 1: free} if name == "ids" else {0: free} for name in inputs}
    # torch warns about its own exporter, and the optimiser logs every node that it touches.
    for name in ("onnx_ir", "onnxscript"):
        logging.getLogger(name).setLevel(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            tower,
            kwargs={name: torch.from_numpy(value) for name, value in inputs.items()},
            f=path,
            input_names=list(inputs),
            output_names=["embeddings"],
            dynamic_shapes=dynamic,
            dynamo=True,
            verbose=False,
        )


def _crops(model: Model, n: int) -> dict[str, np.ndarray]:
    """The image encoder's inputs for n images of noise."""
    crop = model.run.eval_crop
    count = n * (10 if crop.kind == "10C" else 1)
    noise = np.random.default_rng(n).integers(0, 256, (count, crop.size, crop.size, 3))
    return {"crops": noise.astype(np.uint8)}


def _captions(model: Model, n: int) -> dict[str, np.ndarray]:
    """The caption encoder's inputs for n random captions of different lengths."""
    lengths = np.arange(n, dtype=np.int64) + 4
    ids = np.random.default_rng(n).integers(1, len(model.vocabulary), (n, lengths.max()))
    ids[np.arange(lengths.max()) >= lengths[:, None]] = 0
    return {"ids": ids.astype(np.int64), "lengths": lengths}
