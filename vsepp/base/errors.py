"""The one exception that users are meant to read, one message for many problems of a kind, and commands
that messages print."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from shlex import quote

_NAMED, _LONGEST = 5, 1200
_LONGEST_MESSAGE = 5000
PHASES = ("corpus", "features", "models", "results")
"""Phases of dvc.yaml; the workflow's target `all_<phase>` makes each."""


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


def cut(text: str, longest: int = _LONGEST) -> str:
    """A text, without its middle where it is long."""
    return text if len(text) <= longest else f"{text[: longest - 300]} … {text[-300:]}"


def printable(message: str) -> str:
    """A message of bounded length; text from other people's files in it cannot steer the terminal."""
    return "".join(
        letter if letter.isprintable() or letter == "\n" else repr(letter)[1:-1]
        for letter in cut(message, _LONGEST_MESSAGE)
    )


def as_started() -> str:
    """Prefix of a printed command, `uv run ` or nothing, so that it can be pasted where the
    present command was given."""
    return "uv run " if "UV" in os.environ else ""


def snakemake(target: object, config: str = "", again: object = None) -> str:
    """The command that makes a file or a target of the workflow, to be pasted into a shell.

    Parameters
    ----------
    target
        A path, or the name of a rule.
    config
        The option `--config` with its values, quoted for a shell.
    again
        A file that is made again although it is there.
    """
    forced = f"--forcerun {quote(str(again))}" if again else ""
    words = ["snakemake --cores all", forced, config.strip(), "--", quote(str(target))]
    return as_started() + " ".join(filter(None, words))


def pull() -> str:
    """The command that fetches results, verifies them and tells Snakemake that they are done, to
    be pasted into a shell.

    Without names DVC deletes results of other presets. A pull gives files new times, so that Snakemake takes
    most of them for out of date; `--touch` declares done whatever lies there.
    """
    steps = (
        f"dvc pull {' '.join(PHASES)}",
        "vsepp verify",
        f"snakemake --cores 1 --touch --forceall --notemp -- {' '.join(f'all_{phase}' for phase in PHASES)}",
    )
    return " && ".join(as_started() + step for step in steps)


def fixes(*commands: str) -> str:
    """Commands that mend the fault of a message, each on a line of its own at its end."""
    return "".join(f"\n    {'or' if k else 'fix'}: {command}" for k, command in enumerate(commands))


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
