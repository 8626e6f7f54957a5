"""All problems of one kind in one message."""

from __future__ import annotations

from collections.abc import Sequence

from vsepp.errors import VseppError

NAMED = 5


def refuse(problems: Sequence[str], what: str, advice: str) -> None:
    """Raise one error that names the first problems and counts them all; do nothing when there are none.

    Parameters
    ----------
    problems
        One text a problem: where it is and what was found.
    what
        What is wrong with each of them.
    advice
        What to do next.

    Raises
    ------
    VseppError
        When there is a problem.
    """
    if problems:
        raise VseppError(f"{what} ({len(problems)} in all): {first_of(problems)}. {advice}")


def first_of(items: Sequence[str]) -> str:
    """Name the first few items and say how many more there are."""
    more = f"; and {len(items) - NAMED} more" if len(items) > NAMED else ""
    return "; ".join(items[:NAMED]) + more
