"""Choosing where an array lies whose rows every step reads, and bringing it there."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch

from vsepp.data.host_memory import available_memory
from vsepp.data.out_of_memory import gib, move_data_off
from vsepp.data.placed import Placed, in_file
from vsepp.errors import VseppError
from vsepp.runtime.progress import track_bytes

log = logging.getLogger("vsepp")

WHERE = ("auto", "device", "pinned", "mapped")

# Weights, gradients and moments of the paper's text encoder and maps, activations of a batch of some hundred pairs,
# workspaces of the libraries: together below this.
HEAD_BYTES = 2 << 30
# Of a GPU's memory, for what its allocator cannot use of the pieces between tensors.
_FRAGMENTS = 1 / 20
# Of the host's available memory, what one process's arrays may take: the rest is for all else, and for files.
_OF_HOST = 1 / 2
_CHUNK_BYTES = 64 << 20


class Placement:
    """Puts the arrays that a job reads where its device gets at them fastest, each file once.

    `auto` puts an array on a GPU where it fits into what is free there less `leave` and a twentieth for
    fragments; else into pinned memory of the host where it fits into half of what is available there, shared
    with the other processes of the run and of the GPU; else it stays in its file. On a CPU `auto` leaves it in
    its file, which the kernel keeps in memory as far as there is room. What a job computes does not depend on
    the place.

    Parameters
    ----------
    device
        Where the job computes.
    where
        `auto`, or one of `device`, `pinned`, `mapped`, which is then a demand. On a CPU, `device` and `pinned`
        are both ordinary memory.
    leave
        Bytes on a GPU that the model and the activations of a step need; an encoder's come on top, see
        `leave_for`.
    share
        Jobs that share the device, this one included; each may take its part of it.
    processes
        Of this job on this host, each with a device; by default as `torchrun` says.

    Raises
    ------
    VseppError
        When `where` is none of these.
    """

    def __init__(
        self,
        device: torch.device,
        where: str = "auto",
        *,
        leave: int = HEAD_BYTES,
        share: int = 1,
        processes: int | None = None,
    ) -> None:
        if where not in WHERE:
            raise VseppError(f"--data-on: got {where!r}; expected one of {', '.join(WHERE)}")
        self.device = device
        self.where = where
        self.leave = leave
        self.share = share
        self.processes = processes or int(os.environ.get("LOCAL_WORLD_SIZE", 1))
        self.chosen: dict[str, str] = {}
        """What was placed → where and why, for the manifest."""
        self.resident_bytes: dict[str, int] = {}
        """What lies on the GPU → its size."""
        self._files: dict[str, Placed] = {}
        self._stream: torch.cuda.Stream | None = None

    def leave_for(self, needed: Callable[[], int]) -> None:
        """Leave so many bytes of a GPU free besides; they are reckoned only where there is one."""
        if self.device.type == "cuda":
            self.leave += needed()

    def place(self, array: np.ndarray, what: str) -> Placed:
        """Choose a place for an array and put it there.

        Raises
        ------
        VseppError
            When it was demanded in a place where it does not fit.
        """
        file = _file(array)
        if file not in self._files:
            placed = self.put(array, self.choose(array.nbytes, what), what)
            if not file:
                return placed
            self._files[file] = placed
        return self._files[file]

    def find(self, array: np.ndarray, what: str) -> Placed:
        """Use the place of a file that has one already, and leave any other in its file."""
        return self._files.get(_file(array)) or in_file(array, what)

    def choose(self, size: int, what: str) -> str:
        """Decide where so many bytes go, and keep the reason.

        Raises
        ------
        VseppError
            As `place` does.
        """
        on_gpu = self.device.type == "cuda"
        if self.where == "mapped" or (self.where == "auto" and not on_gpu):
            reason = "as demanded" if self.where == "mapped" else "the device is a CPU"
            return self._decided(what, size, "mapped", reason)
        reasons = []
        for place in ("device", "pinned") if self.where == "auto" else (self.where,):
            room, reason = self._device_room() if place == "device" and on_gpu else self._host_room()
            if size <= room:
                return self._decided(what, size, place, reason)
            reasons.append(reason)
        if self.where == "auto":
            return self._decided(what, size, "mapped", "; ".join(reasons))
        other = "pinned, mapped or auto" if self.where == "device" else "mapped or auto"
        raise VseppError(
            f"--data-on {self.where}: {what} takes {gib(size)}, but {reasons[0]}; set resources.data_on "
            f"(--data-on) to {other}"
        )

    def put(self, array: np.ndarray, where: str, what: str, *, quiet: bool = False) -> Placed:
        """Copy an array to a place, chunk by chunk, so that the host never holds it twice.

        May be called in any thread; the copy has ended when it returns. Where the driver refuses to lock memory, an
        array that was not demanded there stays in its file, with a warning.

        Raises
        ------
        VseppError
            When memory was demanded to be locked, and the driver refuses.
        """
        if where == "mapped":
            return Placed(array, where)
        if where == "device" and self.device.type == "cuda":
            self._stream = self._stream or torch.cuda.Stream(self.device)
            # One stream for all, so that memory of an array that went is used again by the next one.
            with torch.cuda.stream(self._stream):
                return Placed(_loaded(array, self.device, what, quiet), where)
        host = torch.device("cpu")
        if self.device.type != "cuda":
            return Placed(_loaded(array, host, what, quiet), where)
        try:
            # In the context of this device: the current one of a new thread is the first GPU.
            with torch.cuda.device(self.device):
                return Placed(_loaded(array, host, what, quiet, lock=True), where, locked=True)
        except torch.cuda.CudaError as error:
            _forget_failure(self.device)
            return self._not_locked(array, what, error)

    def settle(self) -> None:
        """Wait until the GPU has read all that it was told to: before an array goes."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def what_to_lower(self, *more: str) -> str:
        """What to change where memory ran out: one sentence, without its end.

        Parameters
        ----------
        more
            What to try after moving the data and sharing the device among fewer.
        """
        advice = [move_data_off(self.resident_bytes)] if self.resident_bytes else []
        if not advice and any(not said.startswith("mapped") for said in self.chosen.values()):
            advice.append("set resources.data_on (--data-on) to mapped")
        if self.share > 1:
            advice.append(f"lower resources.runs_per_gpu (--device-share), now {self.share}")
        text = "; or ".join([*advice, *more]) or "end what else takes memory here, or use a larger machine"
        return text[0].upper() + text[1:]

    def _not_locked(self, array: np.ndarray, what: str, error: Exception) -> Placed:
        """Leave an array in its file that the driver would not lock in memory, unless it was demanded there."""
        said = f"{what}: {gib(array.nbytes)} of the host's memory could not be locked ({error})"
        if self.where == "pinned":
            raise VseppError(
                f"--data-on pinned: {said}; set resources.data_on (--data-on) to mapped or auto"
            ) from error
        log.warning("%s; read from its file instead", said)
        self.chosen[what] = f"mapped: {gib(array.nbytes)}; could not be locked in memory ({error})"
        return in_file(array, what)

    def _decided(self, what: str, size: int, where: str, reason: str) -> str:
        self.chosen[what] = f"{where}: {gib(size)}; {reason}"
        if where == "device" and self.device.type == "cuda":
            self.resident_bytes[what] = size
        return where

    def _device_room(self) -> tuple[float, str]:
        free, there = torch.cuda.mem_get_info(self.device)
        taken = torch.cuda.memory_allocated(self.device)
        free += torch.cuda.memory_reserved(self.device) - taken
        room = min(free, there // self.share - taken) - self.leave - _FRAGMENTS * there
        shared = f", of which {self.share} jobs share {gib(there)}" if self.share > 1 else ""
        return room, (
            f"{self.device} has {gib(free)} free{shared} and keeps {gib(self.leave + _FRAGMENTS * there)} for "
            "the model, a step and fragments"
        )

    def _host_room(self) -> tuple[float, str]:
        available = available_memory()
        jobs = self.share * self.processes
        part = f"half of that is shared by {jobs} processes" if jobs > 1 else "half of that may be taken"
        return _OF_HOST * available / jobs, f"the host has {gib(available)} available and {part}"


def _loaded(
    array: np.ndarray, device: torch.device, what: str, quiet: bool, *, lock: bool = False
) -> torch.Tensor:
    """Copy an array into a tensor of its own."""
    kind = torch.from_numpy(np.empty(0, array.dtype)).dtype
    whole = torch.empty(array.shape, dtype=kind, device=device)
    if lock:
        _lock(whole)
    rows = max(1, _CHUNK_BYTES // max(1, array[:1].nbytes))
    shape = (min(rows, len(array)), *array.shape[1:])
    staging = torch.empty(shape, dtype=kind, pin_memory=True) if device.type == "cuda" else None

    def copy(advance: Callable[[int], object]) -> None:
        for start in range(0, len(array), rows):
            part = array[start : start + rows]
            if staging is None:
                np.copyto(whole.numpy()[start : start + rows], part)
            else:
                np.copyto(staging.numpy()[: len(part)], part)
                # Waits: the next chunk is read into the same memory.
                whole[start : start + rows].copy_(staging[: len(part)])
            advance(part.nbytes)

    if quiet:
        copy(lambda count: None)
    else:
        with track_bytes(array.nbytes, f"{what} to {device}") as advance:
            copy(advance)
    return whole


def _lock(tensor: torch.Tensor) -> None:
    """Keep a tensor of the host in physical memory, for as long as it lives.

    Registered rather than allocated as pinned: torch rounds what it allocates so up to a power of two.
    """
    if tensor.nbytes:
        cuda, start = torch.cuda.cudart(), tensor.data_ptr()
        torch.cuda.check_error(cuda.cudaHostRegister(start, tensor.nbytes, 0))
        weakref.finalize(tensor, cuda.cudaHostUnregister, start).atexit = False


def _forget_failure(device: torch.device) -> None:
    """Let a kernel take the error that a failed call has left to the next one, whichever that is."""
    with suppress(RuntimeError):
        torch.ones(1, device=device)


def _file(array: np.ndarray) -> str:
    """The file of a memory map; empty for any other array."""
    name = getattr(array, "filename", None)
    return str(Path(name).resolve()) if name else ""
