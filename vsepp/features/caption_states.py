"""States of the tokens of all captions: one pass of a frozen text encoder, read by every training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vsepp.base import components
from vsepp.base.errors import VseppError
from vsepp.base.files import check_space
from vsepp.base.progress import track
from vsepp.base.publish import publish
from vsepp.base.spec import CaptionStatesSpec
from vsepp.data.tokens import Tokens
from vsepp.data.vocabulary import Vocabulary
from vsepp.features.resumable_array import GrowingRows

FILE = "states.npy"
BATCH = 128
# Captions between two points from which a killed step can continue; within them captions of one length are encoded together.
CHUNK = 16 * BATCH


@dataclass(frozen=True, eq=False)
class CaptionStates:
    """States of captions, given in batches as `Tokens` gives ids."""

    tokens: Tokens
    states: np.ndarray
    """float32 `(n_tokens, size)`, in the order of `Tokens.ids`."""

    @classmethod
    def open(cls, folder: Path, tokens: Tokens) -> CaptionStates:
        """Map the states that `write_caption_states` wrote for these tokens.

        Raises
        ------
        VseppError
            If the file is missing, or not of the expected shape.
        """
        path = folder / FILE
        if not path.is_file():
            raise VseppError(f"{path}: missing; run the step that encodes captions again")
        states = np.load(path, mmap_mode="r")
        if states.ndim != 2 or states.dtype != np.float32 or len(states) != len(tokens.ids):
            raise VseppError(
                f"{path}: expected float32 ({len(tokens.ids)}, size), a row for each token, got {states.dtype} {states.shape}; "
                "it was made of other tokens: run the step that encodes captions again"
            )
        return cls(tokens, states)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each caption, `(n_captions,)` int64."""
        return self.tokens.lengths

    def padded(self, rows: np.ndarray | Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """States of some captions, padded with zeros: float32 `(n, longest, size)`; and lengths, int64 `(n,)`."""
        places, inside, lengths = self.tokens.places(rows)
        states = np.zeros((*inside.shape, self.states.shape[1]), np.float32)
        states[inside] = self.states[places[inside]]
        return states, lengths


def make_caption_states(
    spec: CaptionStatesSpec, tokens: Path, weights: Path | None, out: Path, state: Path, device: torch.device
) -> dict[str, Any]:
    """Write the states of all captions; `tokens` is a folder, `weights` the file that the text encoder starts from. See `write_caption_states`."""
    options = components.options("text encoder", spec.text)
    words = len(Vocabulary.read(tokens))
    text = components.load("text encoder", spec.text.name).TextEncoder(words, options)
    text.start(weights)
    ids = Tokens.load(tokens)
    write_caption_states(text, options.hidden, ids, out, state, device=device)
    return {"captions": len(ids)}


def write_caption_states(
    text: Any, size: int, tokens: Tokens, out: Path, state: Path, *, device: torch.device
) -> None:
    """Write `out/states.npy`, float32 `(n_tokens, size)`, in the order of the tokens.

    Works in `state` and continues from what is there; the file is moved to `out` only when complete.

    Parameters
    ----------
    text
        A text encoder with its weights; see `vsepp.models.text`.
    size
        Number of dimensions of a token's state.
    tokens
        Tokens of all captions.
    out, state
        Folder of the result, and working folder that survives a kill.
    device
        Where to compute.

    Raises
    ------
    VseppError
        If the disk is full.
    """
    text.to(device).eval()
    state.mkdir(parents=True, exist_ok=True)
    # Rows are tokens, and a chunk is some captions: after a kill, an unfinished chunk is encoded again without the rows that are written.
    written = GrowingRows(state / FILE, (len(tokens.ids), size), np.float32, 1)
    check_space(state, written.missing_bytes, f"states of {len(tokens)} captions")
    first = int(np.searchsorted(tokens.offsets, written.done, side="right")) - 1
    starts = range(first - first % CHUNK, len(tokens), CHUNK)
    skipped = written.done - int(tokens.offsets[starts.start]) if len(starts) else 0
    for start in track(starts, len(tokens) - starts.start, "captions", "caption", each=CHUNK):
        rows = np.arange(start, min(start + CHUNK, len(tokens)))
        written.append(_states(text, size, tokens, rows, device)[skipped:])
        skipped = 0
    publish({written.path: out / FILE})


def _states(text: Any, size: int, tokens: Tokens, rows: np.ndarray, device: torch.device) -> np.ndarray:
    """States of captions of neighbouring rows, one after another: float32 `(n_tokens, size)`."""
    first, last = tokens.offsets[rows[0]], tokens.offsets[rows[-1] + 1]
    found = np.empty((last - first, size), np.float32)
    by_length = rows[np.argsort(tokens.lengths[rows], kind="stable")]
    with torch.inference_mode():
        for start in range(0, len(rows), BATCH):
            part = by_length[start : start + BATCH]
            ids, lengths = map(torch.from_numpy, tokens.padded(part))
            states = text.states(ids.to(device), lengths).cpu().numpy()
            for row, length, of_caption in zip(part, lengths.tolist(), states, strict=True):
                begin = tokens.offsets[row] - first
                found[begin : begin + length] = of_caption[:length]
    return found
