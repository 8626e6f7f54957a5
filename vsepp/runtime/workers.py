"""Processes that work on one thing together and end together."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from vsepp.errors import VseppError
from vsepp.runtime.progress import configure_logging

SECONDS_BETWEEN_LOOKS = 1.0


def run_together(
    call: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    meanwhile: Callable[[], object] = lambda: None,
) -> list[Any]:
    """Call a function once per tuple of arguments, each in a process of its own, and wait for all of them.

    When one fails the others are ended, and when this process ends, by `kill -9` too, they end with it.

    Parameters
    ----------
    call
        Found by its name in the new processes, so at the top level of a module.
    arguments
        What each process passes to it.
    meanwhile
        Called about once a second, for progress.

    Returns
    -------
    list
        What each call returned, in order.

    Raises
    ------
    VseppError
        What one of them raised, or that one was killed.
    """
    context = multiprocessing.get_context("spawn")
    started: list[tuple[SpawnProcess, Connection]] = []
    try:
        for given in arguments:
            here, there = context.Pipe()
            process = context.Process(target=_work, args=(there, call, given))
            process.start()
            there.close()  # so that only the process has it, and its end is seen here
            started.append((process, here))
        return _answers(started, meanwhile)
    finally:
        for process, _ in started:
            process.kill()
            process.join()


def _answers(
    started: Sequence[tuple[SpawnProcess, Connection]], meanwhile: Callable[[], object]
) -> list[Any]:
    """What the processes return, in order."""
    answers: dict[int, Any] = {}
    while len(answers) < len(started):
        missing = {here: number for number, (_, here) in enumerate(started) if number not in answers}
        for here in wait(list(missing), SECONDS_BETWEEN_LOOKS):
            number = missing[here]
            try:
                error, answers[number] = here.recv()
            except (EOFError, ConnectionResetError):
                error = _ended(started[number][0], number, len(started))
            if error is not None:
                raise VseppError(error)
        meanwhile()
    return [answers[number] for number in range(len(started))]


def _ended(process: SpawnProcess, number: int, count: int) -> str:
    """Why a process has ended that did not say it."""
    process.join()
    code = process.exitcode or 0
    how = f"killed by signal {-code}" if code < 0 else f"ended with status {code}; see its message above"
    hint = ", for want of memory perhaps" if code == -9 else ""
    return (
        f"process {number + 1} of {count} was {how}{hint}. Run the step again: it goes on from what is done"
    )


def _work(there: Connection, call: Callable[..., Any], given: tuple[Any, ...]) -> None:
    """Call the function and send what it returns, or the message of its error."""
    configure_logging()
    threading.Thread(target=_end_with_parent, args=(there,), daemon=True).start()
    try:
        answer = None, call(*given)
    except VseppError as error:
        answer = str(error), None
    there.send(answer)


def _end_with_parent(there: Connection) -> None:
    """Nothing is ever sent this way: reading returns when the other process has ended."""
    try:
        there.recv()
    except (EOFError, OSError):
        os._exit(1)
