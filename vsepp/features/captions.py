"""Features of captions: states of all tokens under a frozen text encoder, and vectors that say how
alike captions are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vsepp.base import components
from vsepp.base.errors import VseppError
from vsepp.base.publish import publish
from vsepp.base.spec import CaptionStatesSpec, VectorsSpec
from vsepp.data.arrays import open_rows, write_rows
from vsepp.data.captions import Tokens, Vocabulary
from vsepp.data.vectors import CaptionVectors, tfidf_vectors

if TYPE_CHECKING:
    import torch


FILE = "states.npy"
BATCH = 128
# Captions between two points from which a killed step can continue; within them captions of one length
# are encoded together.
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
            If the file is missing, damaged or of other tokens.
        """
        return cls(tokens, open_rows(folder / FILE, np.float32, (None,), len(tokens.ids)))

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each caption, `(n_captions,)` int64."""
        return self.tokens.lengths

    def eval(self, rows: np.ndarray | Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """States of some captions, padded with zeros: float32 `(n, longest, size)`; and
        lengths, int64 `(n,)`."""
        places, mask, lengths = self.tokens.places(rows)
        states = np.zeros((*mask.shape, self.states.shape[1]), np.float32)
        states[mask] = self.states[places[mask]]
        return states, lengths


def open_captions(folders: Mapping[str, Path], count: int) -> Tokens | CaptionStates:
    """Open what a run's model reads for captions.

    Parameters
    ----------
    folders
        Role → folder: `tokens`, of all captions of the corpus; with a frozen text encoder `caption_states`,
        the states of these tokens.
    count
        Number of captions in the table.

    Raises
    ------
    VseppError
        If an artefact is damaged or belongs to another corpus.
    """
    tokens = Tokens.load(folders["tokens"])
    if len(tokens) != count:
        raise VseppError(
            f"{folders['tokens']}: has tokens of {len(tokens)} captions, expected {count} as in the table of "
            "captions; it was made from another corpus: run the step that makes it again"
        )
    if "caption_states" not in folders:
        return tokens
    return CaptionStates.open(folders["caption_states"], tokens)


def make_caption_states(
    spec: CaptionStatesSpec, tokens: Path, weights: Path | None, out: Path, state: Path, device: torch.device
) -> dict[str, Any]:
    """Write the states of all captions; `tokens` is a folder, `weights` the file that the text encoder starts
    from. See `write_caption_states`."""
    options = components.options("text encoder", spec.text)
    words = len(Vocabulary.read(tokens))
    text = components.make("text encoder", spec.text, words)
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

    def make(first: int, last: int) -> np.ndarray:
        captions = np.arange(*np.searchsorted(tokens.offsets, (first, last)))
        return _states(text, size, tokens, captions, device)

    starts = tokens.offsets[:-1:CHUNK].tolist()
    what = f"states of {len(tokens)} captions"
    write_rows(state / FILE, (len(tokens.ids), size), np.float32, starts, make, what=what, unit="token")
    publish({state / FILE: out / FILE})


def _states(text: Any, size: int, tokens: Tokens, captions: np.ndarray, device: torch.device) -> np.ndarray:
    """States of captions of neighbouring rows, one after another: float32 `(n_tokens, size)`."""
    import torch

    begin, end = tokens.offsets[captions[0]], tokens.offsets[captions[-1] + 1]
    states = np.empty((end - begin, size), np.float32)
    by_length = captions[np.argsort(tokens.lengths[captions], kind="stable")]
    with torch.inference_mode():
        for start in range(0, len(captions), BATCH):
            rows = by_length[start : start + BATCH]
            ids, lengths = map(torch.from_numpy, tokens.eval(rows))
            padded = text.states(ids.to(device), lengths).cpu().numpy()
            places, mask, _ = tokens.places(rows)
            states[places[mask] - begin] = padded[mask]
    return states


def make_vectors(spec: VectorsSpec, inputs: Mapping[str, Path], out: Path) -> dict[str, Any]:
    """Write the vectors of all captions of a corpus, made of the table `captions`, or of the folders `tokens`
    and `caption_states`."""
    from vsepp.data.tables import read_tables  # a model that is used reads no tables

    if spec.encoder == "minilm":
        tokens = Tokens.load(inputs["tokens"])
        vectors = mean_vectors(CaptionStates.open(inputs["caption_states"], tokens))
    else:
        _, captions = read_tables(inputs["captions"].parent)
        vectors = tfidf_vectors(captions, spec.splits)
    vectors.save(out)
    return {"captions": len(vectors)}


def mean_vectors(states: CaptionStates) -> CaptionVectors:
    """The mean of each caption's states, `[CLS]` and `[SEP]` included, as all-MiniLM-L6-v2 was trained to
    compare captions by."""
    offsets = states.tokens.offsets
    values = np.empty((len(states), states.states.shape[1]), np.float16)
    for start in range(0, len(states), CHUNK):
        bounds = offsets[start : start + CHUNK + 1]
        sums = np.add.reduceat(states.states[bounds[0] : bounds[-1]], bounds[:-1] - bounds[0], axis=0)
        values[start : start + CHUNK] = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    return CaptionVectors(values)
