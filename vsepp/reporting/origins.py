"""Which commits the numbers of a file come from, and whether any commit holds all that made them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from vsepp.provenance.manifest import MANIFEST, dirty_parts, read_manifest
from vsepp.reporting import filters

UNKNOWN_COMMIT = "unknown"
MARK = "†"
"""Of numbers behind which are code or parameters that no commit holds."""

State = tuple[str, bool]
"""Commit, and whether code or parameters differed from it."""


@dataclass(frozen=True)
class Origin:
    """How a file of numbers came about."""

    trained: State | None
    """By what the model was trained; `None` where that is not known."""
    evaluated: State | None
    """By what it was embedded and scored; `None` for the history of a training."""
    dirty: tuple[str, ...] = ()
    """Steps behind the numbers, in the order of the workflow, whose code or parameters differed from the commit."""


_STEPS = (
    "scenes",
    "corpus",
    "tokens",
    "store",
    "pretrain",
    "encoder",
    "features",
    "precomputed",
    "tape",
    "train",
)


def read_origin(file: Path) -> Origin:
    """Origin of a `metrics.json` or a `history.csv`, from the manifest beside it.

    A file that was brought from elsewhere without a manifest has an unknown commit.

    Raises
    ------
    VseppError
        Where the manifest is no longer as its step wrote it.
    """
    training = file.name == "history.csv"
    if not (file.parent / MANIFEST).is_file():
        unknown = (UNKNOWN_COMMIT, False)
        return Origin(unknown if training else None, None if training else unknown)
    manifest = read_manifest(file.parent)
    made = {"": {"step": manifest["step"], **manifest["git"]}, **manifest["ancestors"]}
    steps = {made["" if part == "itself" else part]["step"] for part in dirty_parts(manifest)}
    dirty = tuple(
        sorted(steps, key=lambda step: (_STEPS.index(step) if step in _STEPS else len(_STEPS), step))
    )
    if training:
        return Origin(_state(made, "", "init_from"), None, dirty)
    trained = _state(made, "run", "run.init_from") if "run" in made else None
    return Origin(trained, _state(made, "", "embeddings"), dirty)


def _state(made: Mapping[str, Mapping[str, Any]], role: str, *others: str) -> State:
    """Commit of a step, dirty where it or one of the others was."""
    dirty = any(made[name].get("dirty") for name in (role, *others) if name in made)
    return str(made[role].get("commit", UNKNOWN_COMMIT)), dirty


def dirty_steps(origins: Iterable[Origin]) -> tuple[str, ...]:
    """Steps of several origins whose code or parameters differed from the commit, each once."""
    return tuple(dict.fromkeys(step for origin in origins for step in origin.dirty))


def dirty_note(steps: Iterable[str]) -> str:
    """What `MARK` means, for the steps that it stands for here."""
    return (
        f"made in part with uncommitted changes of code or parameters ({filters.listing(list(steps))}); no commit holds "
        "them, so these numbers cannot be made again from one."
    )


def commits(origins: Iterable[tuple[str, Origin]], what: Literal["trained", "evaluated"]) -> dict[State, int]:
    """How many distinct runs were trained, or evaluated, by each commit.

    Parameters
    ----------
    origins
        (run, origin); a run may be there more than once.
    what
        Which of the two. Runs of which it is not known are left out.
    """
    runs: dict[State, set[str]] = {}
    for run, origin in origins:
        if state := getattr(origin, what):
            runs.setdefault(state, set()).add(run)
    return {state: len(names) for state, names in sorted(runs.items())}
