"""Where what belongs to a trained run lies: artefacts of `results/<preset>`, told by digests and not by their names."""

from __future__ import annotations

from pathlib import Path

from vsepp.provenance.manifest import MANIFEST, artefact_digest, read_manifest


def beside(folder: Path, pattern: str) -> list[Path]:
    """What matches a pattern in `results/<preset>`, for a run in `results/<preset>/<variant>/runs/<run>/<seed>`."""
    above = folder.absolute().parents
    return sorted(above[3].glob(pattern)) if len(above) > 3 else []


def beside_with(folder: Path, pattern: str, digest: str | None) -> Path | None:
    """The first artefact that matches a pattern, as `beside`, and has a digest; `None` where there is none."""
    for place in beside(folder, pattern):
        if (place / MANIFEST).is_file() and artefact_digest(place) == digest:
            return place
    return None


def evaluation_place(folder: Path) -> Path:
    """Where the workflow keeps the evaluation of a run."""
    folder = folder.absolute()
    return folder.parent.parent.parent / "evaluations" / folder.parent.name / folder.name


def evaluation_of(folder: Path) -> Path | None:
    """Folder of the evaluation of a run's present model; `None` where it was not evaluated, or only another model was."""
    place = evaluation_place(folder)
    if not (place / MANIFEST).is_file():
        return None
    return place if read_manifest(place)["inputs"].get("run") == artefact_digest(folder) else None
