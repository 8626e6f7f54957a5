"""Protocols: which test images are ranked against which, and whose metrics are averaged.

| name | folds | metrics |
|---|---|---|
| `1K` | the first `fold_size` images | of that fold (all of Flickr30K's 1,000) |
| `5x1K` | five consecutive folds of `fold_size` images | mean of each metric over the folds |
| `5K` | all images at once | of all images (all of COCO's 5,000) |

Folds follow the order of the test images' file. A single fold's score is higher than that of all
images and not comparable with it, so a record keeps its protocol.
"""

from __future__ import annotations

import typing
from typing import Literal

from vsepp.errors import VseppError

Protocol = Literal["1K", "5x1K", "5K"]
FOLDS = {"1K": 1, "5x1K": 5}
"""Protocol → folds of the test set; any other protocol takes all images."""
DEFAULT_FOLD_SIZE = 1000


def protocol_folds(protocol: str, n_images: int, fold_size: int = DEFAULT_FOLD_SIZE) -> list[slice]:
    """Ranges of test images that a protocol ranks among themselves; errors as in `vsepp.evaluation.protocols.evaluate`."""
    known = typing.get_args(Protocol)
    if protocol not in known:
        raise VseppError(f"protocol: expected one of {', '.join(known)}, got {protocol!r}")
    if protocol == "5K":
        return [slice(0, n_images)]
    if fold_size < 1:
        raise VseppError(f"fold size: expected at least 1 image, got {fold_size}")
    folds = FOLDS[protocol]
    if n_images < folds * fold_size:
        raise VseppError(
            f"protocol {protocol} needs {folds} × {fold_size} = {folds * fold_size} test images, "
            f"got {n_images}; give a smaller fold size, or take protocol 5K, which ranks all images at once"
        )
    return [slice(start, start + fold_size) for start in range(0, folds * fold_size, fold_size)]
