"""The pictures of a folder or archive: found by their endings, read in a few threads."""

from __future__ import annotations

import logging
import os
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import PurePosixPath
from typing import TypeVar

from vsepp.base.errors import VseppError, first_of
from vsepp.base.files import shown
from vsepp.data.caption_files import BESIDE, TABLES
from vsepp.data.container import Container

log = logging.getLogger("vsepp")
T = TypeVar("T")

PHOTOGRAPHS = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".heic", ".heif")  # fmt: skip
"""Name endings by which pictures are found in a folder."""
MOST_UNREADABLE = 0.05
"""Share of many pictures that may be left out because they cannot be read."""
_THREADS = min(8, os.cpu_count() or 1)


def pictures_in(container: Container) -> list[str]:
    """Names of the pictures in a folder, sorted; a line of the log counts what else is there,
    but files of captions.

    Raises
    ------
    VseppError
        If there are none.
    """
    where = shown(str(container.path))
    names = [name for name in container.names if name.lower().endswith(PHOTOGRAPHS)]
    others = (name.lower() for name in container.names)
    endings = Counter(
        PurePosixPath(name).suffix or "without an ending"
        for name in others
        if not name.endswith((*PHOTOGRAPHS, *BESIDE, *TABLES))
    )
    left = [f"{count} {kind}" for kind, count in [*container.left_out.items(), *endings.most_common()]]
    left_out = f"left out: {first_of(left)}" if left else ""
    if not names:
        raise VseppError(
            f"{where}: expected pictures ({', '.join(PHOTOGRAPHS)}), found none; {left_out}".rstrip("; ")
        )
    if left_out:
        log.info("%s: %s", where, left_out)
    return names


def readable(names: Sequence[str], read: Callable[[str], T]) -> Iterator[tuple[str, T]]:
    """Read many pictures in a few threads; one that cannot be read is left out, and named in the log.

    Parameters
    ----------
    names
        Of the pictures.
    read
        Reads the picture of a name, and may compute something of it.

    Yields
    ------
    tuple
        A name and the result of `read`, in order. A few results are made ahead.

    Raises
    ------
    VseppError
        As soon as more than `MOST_UNREADABLE` of all cannot be read.
    """
    problems: list[str] = []
    for number, (name, reading) in enumerate(zip(names, _ahead(names, read), strict=True), start=1):
        try:
            result = reading.result()
        except VseppError as error:
            log.warning("left out: %s", error)
            problems.append(str(error))
        else:
            yield name, result
        if len(problems) > MOST_UNREADABLE * len(names):
            raise VseppError(
                f"{len(problems)} of the first {number} pictures cannot be read, more than "
                f"{MOST_UNREADABLE:.0%} of all {len(names)}: {first_of(problems)}"
            )


def _ahead(names: Sequence[str], read: Callable[[str], T]) -> Iterator[Future[T]]:
    """The readings of all names, in order; a few are made ahead."""
    with ThreadPoolExecutor(_THREADS) as pool:
        waiting: deque[Future[T]] = deque()
        for name in names:
            waiting.append(pool.submit(read, name))
            if len(waiting) > 2 * _THREADS:
                yield waiting.popleft()
        yield from waiting
