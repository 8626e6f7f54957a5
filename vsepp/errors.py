"""The one exception that users are meant to read, and one message for many problems of a kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_NAMED, _LONGEST = 5, 1200


class VseppError(Exception):
    """Bad input or an impossible request.

    The message says what is wrong, where (file, key or row), what was expected, what was found and what
    to do next. The command line prints it without a traceback and exits with status 1.
    """


def refuse(problems: Sequence[str], what: str, advice: str) -> None:
    """Raise one error that names the first problems and counts all of them; do nothing if there are none.

    Parameters
    ----------
    problems
        One text per problem: where it is and what was found.
    what
        What is wrong with each of them.
    advice
        What to do next.

    Raises
    ------
    VseppError
        If there is a problem.
    """
    if problems:
        raise VseppError(f"{what} ({len(problems)} in all): {first_of(problems)}. {advice}")


def first_of(items: Sequence[str]) -> str:
    """Name the first few items and say how many more there are."""
    named = map(cut, items[:_NAMED])
    more = f"; and {len(items) - _NAMED} more" if len(items) > _NAMED else ""
    return "; ".join(named) + more


def cut(text: str) -> str:
    """A text without the middle of what a file says at length."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 300]} … {text[-300:]}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The known name nearest to one that is not known, as the end of a message; nothing where none is near.

    Parameters
    ----------
    name
        What was given.
    known
        What would be accepted.
    """
    from difflib import get_close_matches

    nearest = get_close_matches(name, list(known), n=1)
    return f"; did you mean {nearest[0]}?" if nearest else ""
