"""Captions as word indices that lie on the device: a batch of them is one gather."""

from __future__ import annotations

import numpy as np
import torch

from vsepp.data.placed import upload
from vsepp.data.tokens import PAD, Tokens


class ResidentTokens:
    """The tokens of a corpus on a device; gives what `Tokens.padded` gives.

    Parameters
    ----------
    tokens
        Of the whole corpus. Their ids are copied to the device, 4 bytes a word; lengths stay on the host, which
        needs them to pack a batch.
    device
        Where to.
    """

    def __init__(self, tokens: Tokens, device: torch.device) -> None:
        self._tokens = tokens
        self._ids = torch.from_numpy(tokens.ids).to(device)

    def padded(self, rows: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """Captions of some rows `(n,)`, filled up with `<pad>` to the longest of them.

        Returns
        -------
        ids
            int64 `(n, longest)` on the device.
        lengths
            int64 `(n,)` on the CPU.

        Raises
        ------
        IndexError
            When a row is beyond the last.
        """
        rows = self._tokens.checked(rows)
        starts = self._tokens.offsets[rows]
        lengths = self._tokens.offsets[rows + 1] - starts
        first, count = upload(np.stack([starts, lengths]), self._ids.device)[:, :, None]
        columns = torch.arange(int(lengths.max(initial=0)), device=self._ids.device)
        inside = columns < count
        ids = self._ids[torch.where(inside, first + columns, 0)]
        return torch.where(inside, ids, PAD).long(), torch.from_numpy(lengths)
