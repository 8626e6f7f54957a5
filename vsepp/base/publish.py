"""Where results lie: work in a state folder under a lock, outputs of a step published at once, and
what lies beside a run."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from vsepp.base.components import checked
from vsepp.base.digests import value_digest
from vsepp.base.errors import VseppError
from vsepp.base.files import partial_path, read_json, reading, remove
from vsepp.base.locks import file_lock
from vsepp.base.manifest import MANIFEST, artefact_digest, differing, manifest_if_intact
from vsepp.base.run_spec import COMPONENTS, RunSpec
from vsepp.base.spec import from_dict

log = logging.getLogger("vsepp")
CONFIG = "config.json"
VOCABULARY = "vocabulary.json"
MODEL_FILE = "model.safetensors"
MODEL_FILES = (MODEL_FILE, CONFIG, VOCABULARY)
"""Files of a run from which its model is opened."""
EMBEDDINGS = "embeddings.npz"
"""File of a run, or of an ensemble's evaluation, with the embeddings of the test split."""
RULE_SHELL = "VSEPP_RULE_SHELL"
"""Environment variable with the process id of the shell in which Snakemake runs a rule; see
`workflow/rules/common.smk`."""


@contextmanager
def state_folder(output: Path, **identity: Any) -> Iterator[Path]:
    """Yield a working folder that survives a kill, and remove it once the body has succeeded.

    Snakemake deletes the declared outputs of a job that failed or is about to start. So what is needed to
    resume lies beside them, in `.state/<digest of identity>`, for one process at a time. Unfinished work on
    the same output with other parameters, code or inputs is not used. It stays, since it can be used again if
    these are changed back, and the log says what differs.

    Parameters
    ----------
    output
        Folder that the step publishes to.
    identity
        Everything that decides what the step computes, by name; other values give another folder.
    """
    named = json.loads(json.dumps({"output": output.name, **identity}, default=str))
    folder = output.parent / ".state" / value_digest(named)[:16]
    folder.parent.mkdir(parents=True, exist_ok=True)
    description = folder.with_suffix(".json")
    with _locked(folder.with_suffix(".lock"), output):
        _tell_unfinished(output, named, description)
        folder.mkdir(exist_ok=True)
        description.write_text(json.dumps(named), encoding="utf-8")
        yield folder
        shutil.rmtree(folder)
        description.unlink()


def _locked(path: Path, output: Path) -> AbstractContextManager[Any]:
    """Hold a lock; say so where another process has it, since a step can take days."""
    from filelock import Timeout

    lock = file_lock(path)
    try:
        return lock.acquire(timeout=0)
    except Timeout:
        log.warning("%s: another process is making it; waiting until that has ended", output)
        return lock.acquire()


def _tell_unfinished(output: Path, identity: Mapping[str, Any], description: Path) -> None:
    """Warn of state folders of the same output with another identity, and say what differs."""
    for path in sorted(description.parent.glob("*.json")):
        if path == description or not path.with_suffix("").is_dir():
            continue
        try:
            unfinished = read_json(path, "what a step computes")
        except VseppError:
            continue  # killed while it was written, or finished meanwhile by another process
        if unfinished["output"] == output.name:
            differences = [
                f"{key}: {'nothing' if before is None else before} there, "
                f"{'nothing' if now is None else now} now"
                for key, before, now in differing(unfinished, identity)
            ]
            message = "%s: unfinished work in %s is not used: %s. Delete it unless you change that back"
            log.warning(message, output, path.with_suffix(""), "; ".join(differences))


def publish(files: dict[Path, Path]) -> None:
    """Move finished files (source → destination) into place, each atomically on one file system."""
    for source, destination in files.items():
        destination.parent.mkdir(parents=True, exist_ok=True)
        source.replace(destination)


@contextmanager
def published(output: Path) -> Iterator[Path]:
    """Yield an empty folder beside `output`; what the body wrote there is moved into
    `output`, the manifest last.

    Files in `output` under other names stay.

    Raises
    ------
    VseppError
        If Snakemake gave this job up meanwhile: it has deleted, or deletes, the files in `output`, so a
        manifest must not vouch for them.
    """
    # A link may lead to another disk, and a disk may be mounted there.
    output = output.resolve()
    staged = partial_path(output / "results" if output.is_mount() else output)
    staged.mkdir(parents=True)
    try:
        yield staged
        _require_rule(output)
        output.mkdir(exist_ok=True)
        (output / MANIFEST).unlink(missing_ok=True)
        for path in sorted(staged.iterdir(), key=lambda path: path.name == MANIFEST):
            if (output / path.name).is_dir():  # folders cannot replace each other at once
                (output / path.name).rename(staged / f".{path.name}.old")
            path.replace(output / path.name)
    finally:
        remove(staged)


def _require_rule(output: Path) -> None:
    """Refuse to go on where the shell of the rule that started this process has ended; by
    hand there is none."""
    shell = os.environ.get(RULE_SHELL)
    if shell is None:
        return
    from psutil import Process

    here = Process()
    if int(shell) not in (here.pid, *(parent.pid for parent in here.parents())):
        raise VseppError(
            f"{output}: nothing was written: the job of Snakemake that asked for it has ended. Run the same "
            "command again"
        )


def spec_of(folder: Path) -> RunSpec:
    """The spec that a run was trained under, read from its folder.

    Raises
    ------
    VseppError
        If it is not the folder of a run, or a component of its model refuses its options.
    """
    if not (folder / CONFIG).is_file():
        raise VseppError(f"{folder}: no {CONFIG}; expected the folder of a trained run")
    values = read_json(folder / CONFIG, "the spec of a run; train it again")
    run = from_dict(RunSpec, values, f"{folder / CONFIG}: ")
    with reading(folder / CONFIG, "the spec of a run; train it again"):
        for key, kind in COMPONENTS.items():
            if component := getattr(run.model, key, None):
                checked(kind, component)
    return run


def variant_folder(run: Path) -> Path | None:
    """`results/<preset>/<variant>`, for a run in its folder `runs/<run>/<seed>`; `None` where a folder lies less deep."""
    above = run.absolute().parents
    return above[2] if len(above) > 3 else None


def beside(folder: Path, pattern: str) -> list[Path]:
    """Paths that match a pattern in `results/<preset>`, for the folder of a run."""
    variant = variant_folder(folder)
    return sorted(variant.parent.glob(pattern)) if variant else []


def beside_with(folder: Path, pattern: str, digest: str | None) -> Path | None:
    """The first artefact that matches a pattern, as `beside`, and has a digest; `None`
    where there is none."""
    return next((artefact for artefact in beside(folder, pattern) if _has_digest(artefact, digest)), None)


def _has_digest(artefact: Path, digest: str | None) -> bool:
    """Whether an artefact has a manifest, which is whole, and this digest."""
    return manifest_if_intact(artefact) is not None and artefact_digest(artefact) == digest


def evaluation_of(folder: Path) -> Path | None:
    """Folder of the evaluation of a run's present model; `None` where it was not evaluated, or
    only another model was."""
    folder = folder.absolute()
    variant = variant_folder(folder)
    if variant is None:
        return None
    evaluation = variant / "evaluations" / folder.parent.name / folder.name
    manifest = manifest_if_intact(evaluation)
    return evaluation if manifest and _has_digest(folder, manifest["inputs"].get("run")) else None
