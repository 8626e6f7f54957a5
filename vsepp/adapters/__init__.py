"""Adapters: objects that embed image files and captions, found as `module:name`. Here are adapters of three libraries.

`name` is an object with `embed_images(files)` and `embed_captions(texts)`, which give floating-point NumPy arrays `(n, d)` in the order of
their input, or a class or function that makes one. Scores are inner products, so for cosines an adapter normalises.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vsepp.errors import VseppError
from vsepp.runtime.progress import track

BATCH = 64
"""Files or captions that an adapter gets at a time."""
_EXTRAS = {"open_clip": "open-clip", "transformers": "transformers", "sentence_transformers": "sentences"}


def load(name: str, model: str | None = None) -> Any:
    """The object of `module:name`, looked for in the working folder too; `model` is the argument of a class or function, if any.

    Raises
    ------
    VseppError
        If there is no such module or name, it cannot be called so, or does not embed.
    """
    module, _, attribute = name.partition(":")
    sys.path.append(str(Path.cwd()))
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        extra = _EXTRAS.get(getattr(error, "name", None) or "")
        hint = f"pip install 'vsepp[{extra}]'" if extra else "expected module:name of what can be imported"
        raise VseppError(f"adapter {name}: {error}; {hint}") from error
    if model is not None or not hasattr(found, "embed_images") or isinstance(found, type):
        arguments = () if model is None else (model,)
        try:
            inspect.signature(found).bind(*arguments)
        except TypeError as error:
            how = "without the name of a model" if model is None else f"with the model {model}"
            raise VseppError(f"adapter {name}: cannot be called {how}: {error}") from error
        found = found(*arguments)
    for part in ("embed_images", "embed_captions"):
        if not callable(getattr(found, part, None)):
            raise VseppError(f"adapter {name}: expected a method {part}, {type(found).__name__} has none")
    return found


def in_batches(what: str, call: Callable[[Any], Any], items: Sequence[Any]) -> np.ndarray:
    """Embeddings `(n, d)` float32 of all items; `what` names the call in errors.

    Raises
    ------
    VseppError
        If the call gives something else than a finite row of floating-point numbers for each item, or another order of the rows.
    """
    found: list[np.ndarray] = []
    batches = [items[start : start + BATCH] for start in range(0, len(items), BATCH)]
    for batch in track(batches, len(items), what, "item", each=BATCH):
        found.append(_checked(call(batch), len(batch), found[0].shape[1] if found else "d", what))
        if len(found) > 1:
            continue
        last = _checked(call(batch[-1:]), 1, found[0].shape[1], what)
        away = np.linalg.norm(found[0] - last, axis=1)
        if away[-1] > max(10 * away.min(), 1e-3 * float(np.linalg.norm(last))):
            row = np.argmin(away)
            raise VseppError(
                f"{what}: rows in another order: expected item {len(away) - 1} last, got it at row {row}"
            )
    return np.concatenate(found)


def _checked(rows: Any, count: int, dim: int | str, what: str) -> np.ndarray:
    is_array = isinstance(rows, np.ndarray)
    wanted = f"{what}: expected a NumPy array of floating-point numbers ({count}, {dim})"
    fits = is_array and rows.dtype.kind == "f" and rows.ndim == 2 and len(rows) == count
    if not fits or dim not in ("d", rows.shape[1]):
        got = f"{rows.dtype} {rows.shape}" if is_array else f"a {type(rows).__name__}"
        hint = ", whose pooler_output may be it" if hasattr(rows, "pooler_output") else ""
        raise VseppError(f"{wanted}, got {got}{hint}")
    if not np.isfinite(rows).all():
        raise VseppError(f"{wanted}, got NaN or infinity in row {np.argwhere(~np.isfinite(rows))[0, 0]}")
    return rows.astype(np.float32)
