"""Processes that share work and end together."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from vsepp.errors import VseppError
from vsepp.runtime.progress import configure_logging


def in_processes(
    call: Callable[..., Any],
    items: Sequence[tuple[Any, ...]],
    workers: int,
) -> Iterator[tuple[int, Any]]:
    """Call a function once per tuple of arguments, in several processes.

    If one fails, the others are ended. If this process ends, even by `kill -9`, they end too.

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
        Number of a call, from 0, and what it returned, in order of completion.

    Raises
    ------
    VseppError
        If a process was killed, or failed with an unexpected error. A VseppError or OSError of the function is raised
        unchanged.
    """
    if workers <= 1:
        for number, arguments in enumerate(items):
            yield number, call(*arguments)
        return
    waiting = iter(enumerate(items))
    processes: dict[Connection, SpawnProcess] = {}
    busy: dict[Connection, int] = {}
    try:
        for _ in range(min(workers, len(items))):
            here, processes[here] = _started(call)
        # After all were started: arguments that fill the pipe block until their process reads them.
        for here in processes:
            _give(here, waiting, busy)
        while busy:
            for here in wait(list(busy)):  # type: ignore[assignment]  # it gives of what it is given
                number, answer = busy.pop(here), _answer(here, processes[here])
                _give(here, waiting, busy)
                yield number, answer
    finally:
        for process in processes.values():
            process.kill()
            process.join()


def _started(call: Callable[..., Any]) -> tuple[Connection, SpawnProcess]:
    # Spawned: a fork of a process that has threads (PyTorch's, Arrow's) can hang.
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_work, args=(there, call))
    process.start()
    there.close()  # so that only the process holds it, and its end is noticed here
    return here, process


def _give(
    here: Connection, waiting: Iterator[tuple[int, tuple[Any, ...]]], busy: dict[Connection, int]
) -> None:
    """Hand a process the next call, if there is one."""
    for number, arguments in waiting:
        busy[here] = number
        with suppress(BrokenPipeError):  # it has ended; the missing answer is handled below
            here.send(arguments)
        return


def _answer(here: Connection, process: SpawnProcess) -> Any:
    try:
        error, answer = here.recv()
    except (EOFError, ConnectionResetError):
        process.join()
        code = process.exitcode or 0
        how = "killed, perhaps for lack of memory" if code < 0 else "ended by the error above"
        raise VseppError(
            f"one of the processes that share this work was {how} ({_status(code)}). What is done is kept: run the step "
            "again, with fewer processes if memory is short"
        ) from None
    if error is not None:
        raise error
    return answer


def _status(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"status {code}"


def _work(there: Connection, call: Callable[..., Any]) -> None:
    """Make each call that arrives and send its result or error."""
    configure_logging()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, BrokenPipeError):  # the other side is gone
        while True:
            arguments = there.recv()
            try:
                answer: tuple[Exception | None, Any] = None, call(*arguments)
            except (VseppError, OSError) as error:
                answer = error, None
            there.send(answer)


def _end_with_parent() -> None:
    """End this process when its parent is gone; otherwise it would go on after a kill of the parent."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
