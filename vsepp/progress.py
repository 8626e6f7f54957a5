"""Progress of long work: a bar at a terminal, log lines everywhere else."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

log = logging.getLogger("vsepp")
T = TypeVar("T")

SECONDS_BETWEEN_LOG_LINES = 10.0


def configure_logging() -> None:
    """Send the package's log to standard error, one dated line a message."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
        datefmt="%H:%M:%S",
    )


def track(items: Iterable[T], total: int, what: str, unit: str = "it") -> Iterator[T]:
    """Yield `items` while showing how far along they are.

    Parameters
    ----------
    items
        Anything iterable.
    total
        How many items there are.
    what
        A few words naming the work, shown in front.
    unit
        What one item is ("image", "step").
    """
    if sys.stderr.isatty():
        from tqdm import tqdm

        yield from tqdm(items, total=total, desc=what, unit=unit, dynamic_ncols=True)
        return
    started = last = time.monotonic()
    for done, item in enumerate(items, start=1):
        yield item
        now = time.monotonic()
        if now - last >= SECONDS_BETWEEN_LOG_LINES and done < total:
            last = now
            rate = done / (now - started)
            log.info("%s: %d of %d %ss, %.1f %ss/s", what, done, total, unit, rate, unit)
    log.info("%s: %d %ss in %.1f s", what, total, unit, time.monotonic() - started)
