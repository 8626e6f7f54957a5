"""Where results lie and how they are made: the commands that messages tell, a run's folder, and what lies beside it."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

from vsepp.base.errors import VseppError, as_started
from vsepp.base.files import text_of
from vsepp.base.manifest import MANIFEST, artefact_digest, read_manifest
from vsepp.base.spec import RunSpec, from_json

PHASES = ("corpus", "features", "models", "results")
"""Phases of dvc.yaml; the workflow's target `all_<phase>` makes each."""
CONFIG = "config.json"
VOCABULARY = "vocabulary.json"


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
    """The command that fetches results, verifies them and tells Snakemake that they are done, to be pasted into a shell.

    Without names DVC deletes results of other presets. A pull gives files new times, so that Snakemake takes most of them for
    out of date; `--touch` declares done whatever lies there.
    """
    steps = (
        f"dvc pull {' '.join(PHASES)}",
        "vsepp verify",
        f"snakemake --cores 1 --touch --forceall --notemp -- {' '.join(f'all_{phase}' for phase in PHASES)}",
    )
    return " && ".join(as_started() + step for step in steps)


def fixes(*commands: str) -> str:
    """Commands that mend what a message tells of, each on a line of its own at its end."""
    return "".join(f"\n    {'or' if k else 'fix'}: {command}" for k, command in enumerate(commands))


def spec_of(folder: Path) -> RunSpec:
    """The spec that a run was trained under, read from its folder.

    Raises
    ------
    VseppError
        If it is not the folder of a run.
    """
    if not (folder / CONFIG).is_file():
        raise VseppError(f"{folder}: no {CONFIG}; expected the folder of a trained run")
    return from_json(RunSpec, text_of(folder / CONFIG, "JSON of a RunSpec"), f"{folder / CONFIG}: ")


def beside(folder: Path, pattern: str) -> list[Path]:
    """Paths that match a pattern in `results/<preset>`, for a run in `results/<preset>/<variant>/runs/<run>/<seed>`."""
    above = folder.absolute().parents
    return sorted(above[3].glob(pattern)) if len(above) > 3 else []


def beside_with(folder: Path, pattern: str, digest: str | None) -> Path | None:
    """The first artefact that matches a pattern, as `beside`, and has a digest; `None` where there is none."""
    for artefact in beside(folder, pattern):
        if (artefact / MANIFEST).is_file() and artefact_digest(artefact) == digest:
            return artefact
    return None


def evaluation_place(folder: Path) -> Path:
    """Where the workflow keeps the evaluation of a run."""
    folder = folder.absolute()
    return folder.parents[2] / "evaluations" / folder.parent.name / folder.name


def evaluation_of(folder: Path) -> Path | None:
    """Folder of the evaluation of a run's present model; `None` where it was not evaluated, or only another model was."""
    if len(folder.absolute().parents) < 3:
        return None
    evaluation = evaluation_place(folder)
    if not (evaluation / MANIFEST).is_file():
        return None
    return evaluation if read_manifest(evaluation)["inputs"].get("run") == artefact_digest(folder) else None
