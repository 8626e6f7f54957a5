"""Reproduction of VSE++: visual-semantic embeddings with hard negatives (Faghri et al., 2018).

    import vsepp

    model = vsepp.load("flickr8k")                     # or the folder of a trained run
    images = model.embed_images(["a.jpg", "b.jpg"])
    captions = model.embed_captions(["two dogs on grass"])
    model.scores(images, captions)                     # scores[image, caption]
    vsepp.rank(model.scores(images, captions).T, k=1)  # the image nearest to each caption

`import vsepp` alone takes no time: torch is imported when `load` or another of its functions is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from vsepp.base.errors import VseppError

if TYPE_CHECKING:
    from vsepp.api import Model, evaluate, load, rank

__version__ = "0.3.0"
__all__ = ["Model", "VseppError", "__version__", "evaluate", "load", "rank"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'vsepp' has no attribute {name!r}")
    return getattr(import_module("vsepp.api"), name)


def __dir__() -> list[str]:
    return __all__
