"""Arrays that are used one after another, an epoch each: the next one is read while one is used."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from vsepp.data.host_memory import available_memory
from vsepp.data.placed import Placed
from vsepp.data.placement import Placement


class ReadAhead:
    """Gives the array of an epoch, at most two of them in memory at once.

    Parameters
    ----------
    open_epoch
        Maps an epoch's array, or raises a VseppError.
    exists
        Whether an epoch has one.
    placement
        Where it decides that epochs go, they are copied in a thread; epochs that stay in their files are read
        into the kernel's cache. `None` leaves all to the kernel.
    what
        A few words that name the arrays.
    """

    def __init__(
        self,
        open_epoch: Callable[[int], np.ndarray],
        exists: Callable[[int], bool],
        placement: Placement | None,
        what: str,
    ) -> None:
        self._open = open_epoch
        self._exists = exists
        self._placement = placement
        self._what = what
        self._where = "mapped" if placement is None else ""
        self._epoch = -1
        self._now: Placed | None = None
        self._next: tuple[int, Future[Placed]] | None = None
        self._reader = ThreadPoolExecutor(1, "read-ahead")

    def epoch(self, number: int) -> Placed:
        """The array of an epoch, from 0; asks for the one after it."""
        if self._now is None or number != self._epoch:
            self._forget()
            self._now = self._take(number)
            self._epoch = number
            if self._placement is not None and self._exists(number + 1):
                self._next = (number + 1, self._reader.submit(self._read, number + 1, ahead=True))
        return self._now

    def _forget(self) -> None:
        """Let the array go, so that the next but one finds room."""
        if self._now is not None and self._where == "device" and self._placement is not None:
            self._placement.settle()
        self._now, self._epoch = None, -1

    def _take(self, number: int) -> Placed:
        """What was read ahead, or, after a resume or a jump, a fresh reading."""
        awaited, self._next = self._next, None
        if awaited is not None:
            read = awaited[1].result()
            if awaited[0] == number:
                return read
            del read
        return self._read(number)

    def _read(self, number: int, *, ahead: bool = False) -> Placed:
        array = self._open(number)
        if self._placement is None:
            return Placed(array, "mapped")
        if not self._where:
            # The first one decides for all; two are there at once.
            self._where = self._placement.choose(2 * array.nbytes, f"{self._what}, two epochs")
        if ahead and self._where == "mapped":
            _into_cache(array)
        return self._placement.put(array, self._where, self._what, quiet=True)


def _into_cache(array: np.ndarray) -> None:
    """Have the kernel read a mapped file, unless that would drive the current one out."""
    name = getattr(array, "filename", None)
    if name is None or not hasattr(os, "posix_fadvise") or 2 * array.nbytes > available_memory():
        return
    with Path(name).open("rb") as stream:
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_WILLNEED)
