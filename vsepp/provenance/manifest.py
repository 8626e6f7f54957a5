"""The manifest beside every artefact: what it was made from, with which code, where and at what cost."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from vsepp.errors import VseppError
from vsepp.foreign import json_of, require_file, text_of
from vsepp.provenance.digests import path_digest, value_digest
from vsepp.runtime.files import write_text
from vsepp.runtime.progress import peak_memory

MANIFEST = "manifest.json"
SEAL = "digest"
"""Key of a manifest that holds the digest of all others."""
ACCEPTED = "accepted"
"""Key of a manifest, and of what it names of ancestors: for which code their result was accepted, when and why."""
HELD_TO = "held_to"
"""Key of a manifest, and of what it names of ancestors: the digest by which the workflow knows the code, where it is that of an
accepted result which was made again."""
FILES = "files"
"""Key of the facts: every file that a step wrote, where its outputs are folders whose files are asked for one by one."""
CLOCKED = ("history.csv",)
"""Outputs that also record times, in which two trainings of the same model differ: they are verified, but are not part of
the artefact's digest."""
# Paths whose content decides what is computed and shown: an edit elsewhere makes nothing dirty.
_DECIDING = ("vsepp", "params", "workflow", "profiles", "reports/templates", "Snakefile", "pyproject.toml")
_CODE = Path(__file__).resolve().parents[2]
_VERSIONS_OF = ("vsepp", "torch", "torchvision", "numpy", "pandas", "pyarrow", "pillow", "nltk", "snakemake")


@contextmanager
def recorded(
    folder: Path,
    step: str,
    *,
    spec: Mapping[str, Any],
    inputs: Mapping[str, Path],
    code: str = "",
    held_to: str | None = None,
    seed: int | None = None,
) -> Iterator[dict[str, Any]]:
    """Write `folder/manifest.json` once the body has succeeded.

    Yields a dictionary; what the body puts into it (device, counts, warnings) is saved under `facts`.

    Parameters
    ----------
    folder
        Where the step publishes its outputs; every file in it is digested.
    step
        The command that ran.
    spec
        All that decides what the step computes.
    inputs
        Role → artefact that was read.
    code
        Digest of the computing modules.
    held_to
        The digest by which the workflow knows this code, if it does.
    seed
        The seed, where the step has one.
    """
    started = time.monotonic()
    facts: dict[str, Any] = {}
    git = git_state()  # of the code that runs, whatever is checked out when it ends
    yield facts
    manifest = {
        "step": step,
        "spec": dict(spec),
        "spec_digest": value_digest(spec),
        "code_digest": code,
        **({HELD_TO: held_to} if held_to not in (None, code) else {}),
        "inputs": {role: artefact_digest(path) for role, path in inputs.items()},
        "ancestors": ancestors(inputs),
        "outputs": {
            path.name: path_digest(path)
            for path in sorted(folder.iterdir())
            if path.name != MANIFEST and not path.name.startswith(".")
        },
        "seed": seed,
        "git": git,
        "versions": _versions(),
        "machine": {
            "platform": platform.platform(),
            "processor": processor(),
            "python": platform.python_version(),
            "cores": os.cpu_count(),
        },
        "wall_seconds": time.monotonic() - started,
        "peak_memory_bytes": peak_memory(),
        "facts": facts,
    }
    write_manifest(folder, manifest)


def made_in(path: Path) -> Path:
    """The folder whose manifest covers a path: the path itself, or the folder that it is in."""
    own = path.is_dir() and ((path / MANIFEST).is_file() or not (path.parent / MANIFEST).is_file())
    return path if own else path.parent


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write a folder's manifest, sealed with a digest of its content."""
    sealed = {**manifest, SEAL: _seal(manifest)}
    write_text(folder / MANIFEST, json.dumps(sealed, indent=1, sort_keys=True) + "\n")


def read_manifest(artefact: Path) -> dict[str, Any]:
    """Manifest of an artefact: of the folder itself, or of the folder that a file is in.

    Raises
    ------
    VseppError
        If it is missing, or is no longer as its step wrote it.
    """
    folder = made_in(artefact)
    path = folder / MANIFEST
    if not path.is_file():
        raise VseppError(
            f"{path}: missing, so {artefact} has no provenance; run the step that makes it again"
        )
    try:
        manifest = json_of(text_of(path, "a manifest"), str(path))
        intact = is_intact(manifest)
    except VseppError:
        intact = False
    if not intact:
        raise VseppError(
            f"{path}: is not as its step wrote it (edited by hand, damaged, or of another version of vsepp), so {folder} "
            f"has no provenance. Make it again: delete {folder} and run the same command"
        )
    return manifest


def is_intact(manifest: Any) -> bool:
    """Whether a manifest is as its step wrote it, by its seal."""
    try:
        return bool(manifest[SEAL] == _seal(manifest))
    except (ValueError, TypeError, KeyError, AttributeError):
        return False


def _seal(manifest: Mapping[str, Any]) -> str:
    """Digest of a manifest without its seal, in the form that is read back: JSON turns every key into text."""
    unsealed = {key: value for key, value in manifest.items() if key != SEAL}
    return value_digest(json.loads(json.dumps(unsealed)))


def ancestors(inputs: Mapping[str, Path]) -> dict[str, dict[str, Any]]:
    """Everything that artefacts were made from, directly or indirectly, if it has a manifest.

    Parameters
    ----------
    inputs
        Role → artefact.

    Returns
    -------
    dict
        Dotted roles, such as `run.features.encoder`, to step, digests of content, spec and code, commit, whether
        tracked files differed from it, and the acceptance, if there is one.
    """
    found: dict[str, dict[str, Any]] = {}
    for role, path in inputs.items():
        folder = made_in(path)
        if not (folder / MANIFEST).is_file():
            continue
        manifest = read_manifest(folder)
        found[role] = {
            "step": manifest["step"],
            "digest": artefact_digest(path),
            "spec_digest": manifest["spec_digest"],
            "code_digest": manifest["code_digest"],
            **manifest["git"],
            **{key: manifest[key] for key in (ACCEPTED, HELD_TO) if key in manifest},
        }
        found |= {f"{role}.{other}": entry for other, entry in manifest["ancestors"].items()}
    return found


def dirty_parts(manifest: Mapping[str, Any]) -> list[str]:
    """Which steps behind an artefact used uncommitted code: `itself`, and dotted roles of ancestors."""
    own = ["itself"] if manifest["git"].get("dirty") else []
    return own + sorted(role for role, entry in manifest["ancestors"].items() if entry.get("dirty"))


def is_accepted(made: Mapping[str, Any], code: str) -> bool:
    """Whether a result counts as made by code with this digest, by its manifest or what another one names of it: it was, was
    accepted for it, or an accepted result of that code was made again."""
    return code in (made.get("code_digest"), made.get(ACCEPTED, {}).get("for"), made.get(HELD_TO))


def accepted_steps(manifest: Mapping[str, Any], below: str = "") -> list[str]:
    """Of the steps behind an artefact that other code made and somebody accepted: step, day and reason, each once.

    Parameters
    ----------
    manifest
        Of the artefact.
    below
        Beginning of the roles that count; the artefact itself is `itself`.
    """
    made = {"itself": manifest, **manifest["ancestors"]}
    return list(
        dict.fromkeys(
            f"{entry['step']}, {entry[ACCEPTED]['when'][:10]}: {entry[ACCEPTED]['why']}"
            for part, entry in made.items()
            if ACCEPTED in entry and part.startswith(below)
        )
    )


def sidecar_path(path: Path) -> Path:
    """Path of the manifest of a single file, such as a download."""
    return path.with_name(f"{path.name}.{MANIFEST}")


def read_sidecar(path: Path) -> dict[str, Any] | None:
    """Manifest of a single file, or `None` if there is none or the file was written to since."""
    try:
        noted = json_of(text_of(sidecar_path(path), "a manifest"), str(path))
        status = path.stat()
    except (OSError, VseppError):
        return None
    if not isinstance(noted, dict) or not isinstance(noted.get("sha256"), str):
        return None
    same = (noted.get("size"), noted.get("mtime_ns")) == (status.st_size, status.st_mtime_ns)
    return noted if same else None


def artefact_digest(path: Path, digest: Callable[[Path], str] = path_digest) -> str:
    """Digest of an input: the one that its manifest records or, without a manifest, that of its bytes.

    Equal models have equal digests, however long their training took.

    Parameters
    ----------
    path
        File or folder.
    digest
        Function that digests bytes.
    """
    if path.is_dir() and (path / MANIFEST).is_file():
        outputs = read_manifest(path)["outputs"]
        return value_digest({name: digest for name, digest in outputs.items() if name not in CLOCKED})
    if (path.parent / MANIFEST).is_file():
        outputs = read_manifest(path)["outputs"]
        if path.name in outputs:
            return outputs[path.name]
    if path.is_file() and (noted := read_sidecar(path)):
        return noted["sha256"]
    return digest(path)


def require_intact(folder: Path, *names: str) -> dict[str, Any]:
    """Manifest of an artefact, after a check that the named files, or all, are as its step wrote them.

    Raises
    ------
    VseppError
        If the manifest was changed, or a file is missing or was changed.
    """
    manifest = read_manifest(folder)
    for name in names or manifest["outputs"]:
        path, recorded_digest = folder / name, str(manifest["outputs"].get(name))
        if path.exists() and not path.is_dir():
            require_file(path, "what its step wrote")
        present = path_digest(path) if path.exists() else "nothing"
        if present != recorded_digest:
            raise VseppError(
                f"{path}: is not what its step wrote: expected digest {recorded_digest[:12]}, got {present[:12]}. Make it "
                f"again: delete {folder} and run the same command"
            )
    return manifest


def missing_files(folder: Path) -> list[str]:
    """Files that are gone of those that a folder's manifest names, in its folders too; none where it has no manifest."""
    if not (folder / MANIFEST).is_file():
        return []
    manifest = read_manifest(folder)
    names = {*manifest["outputs"], *manifest["facts"].get(FILES, ())}
    return sorted(name for name in names if not (folder / name).exists())


def require_as_written(path: Path) -> None:
    """Refuse a file that is not as its step wrote it, where its folder has a manifest; errors as in `require_intact`."""
    if (path.parent / MANIFEST).is_file():
        require_intact(path.parent, path.name)


def require_input(artefact: Path, role: str, used: Path) -> None:
    """Refuse an artefact that was made from another version of `used`.

    Raises
    ------
    VseppError
        Naming both artefacts and what to do.
    """
    recorded_digest = read_manifest(artefact)["inputs"].get(role)
    present = artefact_digest(used)
    if recorded_digest != present:
        raise VseppError(
            f"{artefact} was made from another {role} than {used}: expected digest {present[:12]}, its manifest "
            f"says {str(recorded_digest)[:12]}. Make it again: delete it and run the same "
            "command, or snakemake if that made it"
        )


@cache
def git_state(root: Path = _CODE) -> dict[str, Any]:
    """Commit, and whether code or parameters differ from it; the variable VSEPP_GIT_COMMIT if git does not track this code."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True, timeout=20
        ).stdout.strip()

    try:
        # An installed package may be in a folder that some other repository ignores.
        git("ls-files", "--error-unmatch", "vsepp/__init__.py")
        # Without files that are written while results are made: DVC's lock, and checksums of first downloads.
        but = [f":(exclude){name}" for name in ("dvc.lock", "params/sources.lock.yaml")]
        changed = git("status", "--porcelain", "--untracked-files=all", "--", *_DECIDING, *but)
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(changed)}
    except (OSError, subprocess.SubprocessError):
        return {"commit": os.environ.get("VSEPP_GIT_COMMIT", "unknown"), "dirty": None}


def _versions() -> dict[str, str]:
    """Versions of the packages that numbers may depend on."""
    from importlib.metadata import (
        PackageNotFoundError,
        version,
    )  # not at start-up: it imports sockets and mail

    found = {}
    for name in _VERSIONS_OF:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def processor() -> str:
    """Name of this machine's processor."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()
