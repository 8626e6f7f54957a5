"""Processes that share work and end together."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from vsepp.base.errors import VseppError
from vsepp.base.progress import configure_logging


def in_processes(
    call: Callable[..., Any], items: Sequence[tuple[Any, ...]], workers: int
) -> Iterator[tuple[int, Any]]:
    """Call a function once per tuple of arguments, in several processes.

    If a call fails, no further call begins. If this process ends, even by `kill -9`, the others end too.

    Parameters
    ----------
    call
        A function at the top level of a module, so that new processes can import it.
    items
        The arguments of each call.
    workers
        Number of processes, each making one call at a time; 1: this process makes the calls.

    Yields
    ------
    tuple
        Number of a call, from 0, and its result, in order of completion.

    Raises
    ------
    VseppError
        If a process was killed. An error of the function is raised unchanged.
    """
    if workers <= 1:
        for number, arguments in enumerate(items):
            yield number, call(*arguments)
        return
    # Spawned: a fork of a process that has threads (PyTorch's, Arrow's) can hang.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(items)), context, initializer=_begin) as pool:
        # Processes start here with Ctrl-C blocked: it stops this process, which ends them.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        numbers = {pool.submit(call, *arguments): number for number, arguments in enumerate(items)}
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        try:
            for future in as_completed(numbers):
                yield numbers.pop(future), future.result()
        except BrokenProcessPool as error:
            raise VseppError(
                "one of the processes that share this work was killed, perhaps for lack of memory. What is done is kept: "
                "run the step again, with fewer processes if memory is short"
            ) from error
        finally:
            # Waits for what runs: else the pool's thread may close its pipe while Python ends and writes to it.
            pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Set a new process up: its messages look like its parent's, and it ends with its parent."""
    configure_logging()
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when its parent is gone; otherwise it would go on after a kill of the parent."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
