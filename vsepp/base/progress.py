"""Long work: shared among processes, with a bar in a terminal and log lines elsewhere."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from vsepp.base.errors import VseppError, printable
from vsepp.base.words import bytes_text, duration_text

log = logging.getLogger("vsepp")
T = TypeVar("T")

SECONDS_BETWEEN_LOG_LINES = 10.0


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def configure_logging() -> None:
    """Send the package's log to standard error, one dated line per message."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("fontTools").setLevel(logging.WARNING)  # a hundred lines for each PDF otherwise


def track(items: Iterable[T], total: int, what: str, unit: str, *, per_item: int = 1) -> Iterator[T]:
    """Yield `items` while showing how far along they are.

    Parameters
    ----------
    items
        Pieces of the work, in order.
    total
        How many units there are in all.
    what
        A few words naming the work, shown in front.
    unit
        What is counted ("image", "step").
    per_item
        Units of an item, such as the images of a chunk; the last item may have fewer.
    """
    done = 0
    with track_amount(total, what, unit) as advance:
        for item in items:
            yield item
            count = min(per_item, total - done)
            done += count
            advance(count)


@contextmanager
def track_amount(total: int | None, what: str, unit: str, done: int = 0) -> Iterator[Callable[[int], object]]:
    """Show how far work is; yields a function to call with the units of each piece.

    Parameters
    ----------
    total
        How many units there are in all, if known.
    what
        A few words naming the work, shown in front.
    unit
        What is counted ("image", "step"); "B" for bytes.
    done
        Units that were done before.
    """
    # The first process of a run shows a bar; the others log only warnings.
    if sys.stderr.isatty() and log.isEnabledFor(logging.INFO):
        from tqdm import tqdm

        scaled = unit == "B"
        with tqdm(
            total=total, initial=done, desc=what, unit=unit, unit_scale=scaled, dynamic_ncols=True
        ) as bar:
            yield bar.update
        return
    started = last = time.monotonic()
    here, noun = 0, "" if unit == "B" else f" {unit}s"

    def advance(count: int) -> None:
        nonlocal here, last
        here += count
        now = time.monotonic()
        # Less often the longer the work takes, so that hours of it do not fill a terminal.
        if now - last < max(SECONDS_BETWEEN_LOG_LINES, (now - started) / 50) or done + here == total:
            return
        last = now
        rate = here / (now - started)
        whole, left = "", ""
        if total is not None and rate:
            whole = f" of {_amount(total, unit)}"
            left = f", about {duration_text((total - done - here) / rate)} left"
        text = f"{_amount(done + here, unit)}{whole}{noun}, {_amount(rate, unit)}/s{left}"
        log.info("%s: %s", what, text)

    yield advance
    seconds = time.monotonic() - started
    rate = here / max(seconds, 1e-9)
    log.info("%s: %s%s in %.1f s, %s/s", what, _amount(done + here, unit), noun, seconds, _amount(rate, unit))


def _amount(count: float, unit: str) -> str:
    """A number of units: `1.50 kB`, `300`, `2.37`."""
    if unit == "B":
        return bytes_text(count)
    return str(count) if isinstance(count, int) else f"{count:,.0f}" if count >= 1000 else f"{count:.3g}"


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
    # Not at start-up, since few processes start others.
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool

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
                "one of the processes that share this work was killed, perhaps for lack of memory. What is "
                "done is kept: run the step again, with fewer processes if memory is short"
            ) from error
        finally:
            # Waits for what runs: else the pool's thread may close its pipe while Python
            # ends and writes to it.
            pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Set a new process up: its messages look like its parent's, and it ends with its parent."""
    configure_logging()
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when its parent is gone; otherwise it would go on after a kill of the parent."""
    from multiprocessing import parent_process

    if (parent := parent_process()) is not None:
        parent.join()
        os._exit(1)
