"""The manifest beside every artefact: inputs, code, machine and cost of its making."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError

from vsepp.base.declared import mistakes_of
from vsepp.base.digests import FileCache, path_digest, value_digest
from vsepp.base.errors import VseppError, first_of
from vsepp.base.files import read_json, reading, require_file, shortly, write_text
from vsepp.base.provenance import cpu_seconds, git_state, machine, peak_memory, versions

log = logging.getLogger("vsepp")
MANIFEST = "manifest.json"
SEAL = "digest"
"""Key of a manifest that holds the digest of all other keys."""
CLOCKED = ("history.csv",)
"""Outputs that also record times, which differ between trainings of the same model: they are verified, but
are not part of the artefact's digest."""


def _bare(name: str) -> str:
    """A name that cannot lead out of its folder, and that a step can have given."""
    if "/" in name or name.startswith(".") or not name.isprintable() or not 0 < len(name.encode()) < 256:
        raise ValueError(f"got {shortly(name)}; expected a bare name of a file or folder")
    if name == MANIFEST:
        raise ValueError(f"got {name}, which is the manifest itself; expected a file that the step wrote")
    return name


class _Read(BaseModel):
    model_config = ConfigDict(strict=True, defer_build=True)


class Origin(_Read):
    """The commit of some code."""

    commit: str
    dirty: bool | None
    """Whether code or parameters differed from it; `None` where git does not track the code."""


class Ancestor(Origin):
    """An artefact that another was made from."""

    step: str
    digest: str
    spec_digest: str
    code_digest: str


def _listed(ancestors: Any) -> Any:
    """Earlier manifests have them under dotted roles, such as `run.features.encoder`."""
    return list(ancestors.values()) if isinstance(ancestors, dict) else ancestors


class Machine(_Read):
    """Where a step ran."""

    platform: str
    processor: str
    python: str
    cores: int | None


class Manifest(_Read):
    """What a manifest holds; other versions may know more keys."""

    step: str
    spec: dict[str, Any]
    spec_digest: str
    code_digest: str
    inputs: dict[str, str]
    """Role → digest."""
    ancestors: Annotated[list[Ancestor], BeforeValidator(_listed)]
    """What it was made from, directly or indirectly; as `ancestors_of` gives them."""
    outputs: dict[Annotated[str, AfterValidator(_bare)], str]
    """Name of a file or folder → digest."""
    seed: int | None
    git: Origin
    versions: dict[str, str]
    """Package → version."""
    machine: Machine
    wall_seconds: float
    start_cpu_seconds: float = 0.0
    """Of its process, before the step began. Earlier manifests lack this and the next key."""
    cpu_seconds: float = 0.0
    peak_memory_bytes: int
    facts: dict[str, Any]
    digest: str
    """The seal: digest of all other keys."""


@contextmanager
def recorded(
    folder: Path,
    step: str,
    *,
    spec: Mapping[str, Any],
    inputs: Mapping[str, Path],
    digests: Mapping[str, str] | None = None,
    code: str = "",
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
    digests
        Role → digest of that input, where the digests are known.
    code
        Digest of the computing modules.
    seed
        The seed, where the step has one.
    """
    started, cpu_before = time.monotonic(), cpu_seconds()
    facts: dict[str, Any] = {}
    git = git_state()  # of the code that runs, whatever is checked out when it ends
    # Of what is read, not of what may lie there at the end.
    digests = digests or {role: artefact_digest(path) for role, path in inputs.items()}
    yield facts
    manifest = {
        "step": step,
        "spec": dict(spec),
        "spec_digest": value_digest(spec),
        "code_digest": code,
        "inputs": dict(digests),
        "ancestors": _ancestors(inputs),
        "outputs": {
            path.name: path_digest(path)
            for path in sorted(folder.iterdir())
            if path.name != MANIFEST and not path.name.startswith(".")
        },
        "seed": seed,
        "git": git,
        "versions": versions(),
        "machine": machine(),
        "wall_seconds": time.monotonic() - started,
        "start_cpu_seconds": cpu_before,
        "cpu_seconds": cpu_seconds() - cpu_before,
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
        If it is missing, is no longer as its step wrote it, or is no manifest.
    """
    folder = made_in(artefact)
    path = folder / MANIFEST
    if not path.is_file():
        raise VseppError(f"{path}: missing, so {artefact} has no provenance; run its step again")
    try:
        return checked_manifest(read_json(path, "a manifest"), str(path))
    except VseppError as error:
        raise VseppError(
            f"{error}. So {folder} has no provenance: delete it, and make or get it again"
        ) from error


def checked_manifest(value: Any, where: str) -> dict[str, Any]:
    """A manifest that was read, if it has the keys and types of `Manifest` and its seal.

    Raises
    ------
    VseppError
        Naming the key, and its type.
    """
    with reading(where, "a manifest"):
        if not is_intact(value):
            raise VseppError(
                "is not as its step wrote it (edited by hand, damaged, or of another version of vsepp)"
            )
    try:
        Manifest.model_validate(value)
    except ValidationError as error:
        mistakes = [f"{key}: {what}" for key, what in mistakes_of(error, Manifest)]
        raise VseppError(f"{where}: {first_of(mistakes)}") from error
    manifest: dict[str, Any] = value
    return manifest


def manifest_if_intact(artefact: Path) -> dict[str, Any] | None:
    """Manifest of an artefact; `None` where it is missing or damaged; the log names the damage."""
    if not (made_in(artefact) / MANIFEST).is_file():
        return None
    try:
        return read_manifest(artefact)
    except VseppError as error:
        log.warning("%s", error)
        return None


def is_intact(manifest: Any) -> bool:
    """Whether a manifest is as its step wrote it, by its seal."""
    return isinstance(manifest, dict) and manifest.get(SEAL) == _seal(manifest)


def _seal(manifest: Mapping[str, Any]) -> str:
    """Digest of a manifest without its seal, in the form that is read back: JSON turns
    every key into text."""
    unsealed = {key: value for key, value in manifest.items() if key != SEAL}
    return value_digest(json.loads(json.dumps(unsealed)))


def _ancestors(inputs: Mapping[str, Path]) -> list[dict[str, Any]]:
    """Every artefact behind some inputs that has a manifest, each once and after the artefacts
    that it was made from.

    A manifest needs this where an ancestor is not at hand: random-crop features are deleted after their last
    reader, a model is fetched alone, a record is kept without data.
    """
    ancestors: list[dict[str, Any]] = []
    for path in inputs.values():
        folder = made_in(path)
        if not (folder / MANIFEST).is_file():
            continue
        manifest = read_manifest(folder)
        parent = {
            "digest": artefact_digest(path),
            **{key: manifest[key] for key in ("step", "spec_digest", "code_digest")},
            **manifest["git"],
        }
        for ancestor in (*ancestors_of(manifest), parent):
            if ancestor not in ancestors:
                ancestors.append(ancestor)
    return ancestors


def ancestors_of(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each `Ancestor` of an artefact, the earliest first."""
    ancestors = manifest["ancestors"]
    if isinstance(ancestors, dict):
        return [ancestors[role] for role in sorted(ancestors, key=lambda role: (-role.count("."), role))]
    return list(ancestors)


def parent_of(manifest: Mapping[str, Any], role: str) -> dict[str, Any]:
    """The ancestor that was read in a role; empty where it had no manifest."""
    digest = manifest["inputs"].get(role)
    return next((ancestor for ancestor in ancestors_of(manifest) if ancestor["digest"] == digest), {})


def uncommitted_steps(manifest: Mapping[str, Any]) -> list[str]:
    """Steps behind an artefact, its own step last, whose code or parameters no commit holds."""
    steps = [ancestor["step"] for ancestor in ancestors_of(manifest) if ancestor.get("dirty")]
    own = [manifest["step"]] if manifest["git"].get("dirty") else []
    return list(dict.fromkeys(steps + own))


def sidecar_path(path: Path) -> Path:
    """Path of the manifest of a single file, such as a download."""
    return path.with_name(f"{path.name}.{MANIFEST}")


def read_sidecar(path: Path) -> dict[str, Any] | None:
    """Manifest of a single file, or `None` if there is none or the file was written to since."""
    try:
        facts = read_json(sidecar_path(path), "a manifest")
        status = path.stat()
    except (OSError, VseppError):
        return None
    if not isinstance(facts, dict) or not isinstance(facts.get("sha256"), str):
        return None
    unchanged = (facts.get("size"), facts.get("mtime_ns")) == (status.st_size, status.st_mtime_ns)
    return facts if unchanged else None


def artefact_digest(path: Path, known: FileCache | None = None) -> str:
    """Digest of an input: the digest that its manifest records or, without a manifest,
    the digest of its bytes.

    Equal models have equal digests, however long their training took.

    Parameters
    ----------
    path
        File or folder.
    known
        Digests of files that need not be read again.
    """
    folder = made_in(path)
    if (folder / MANIFEST).is_file():
        outputs = read_manifest(folder)["outputs"]
        if folder == path:
            return value_digest({name: digest for name, digest in outputs.items() if name not in CLOCKED})
        if path.name in outputs:
            return str(outputs[path.name])
    if path.is_file() and (facts := read_sidecar(path)):
        return str(facts["sha256"])
    return path_digest(path, known)


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
                f"{path}: is not what its step wrote: expected digest {recorded_digest[:12]}, got "
                f"{present[:12]}. Delete {folder} and make it again"
            )
    return manifest


def require_as_written(path: Path) -> None:
    """Refuse a file that is not as its step wrote it, where its folder has a manifest; errors as
    in `require_intact`."""
    if (path.parent / MANIFEST).is_file():
        require_intact(path.parent, path.name)


class Differences(NamedTuple):
    """In what a finished artefact is not what is wanted; empty parts where it is."""

    spec: list[tuple[str, Any, Any]]
    """Dotted key, wanted and found value; `None` for a missing value. Of digests of specs: an
    empty key and both."""
    inputs: list[tuple[str, str | None, str | None]]
    """Role, wanted and found digest; `None` where only one side has the role."""
    code: bool
    """Whether other code made it."""


def differences(
    manifest: Mapping[str, Any],
    *,
    spec: Mapping[str, Any] | str | None = None,
    inputs: Mapping[str, str] | None = None,
    code: str | None = None,
) -> Differences:
    """Whether a finished artefact is what is wanted; `None` compares nothing.

    Parameters
    ----------
    manifest
        Its manifest or, with `spec` as a digest, what the manifest of another artefact
        says of it as an ancestor.
    spec
        The wanted spec, or its digest.
    inputs
        Role → digest of each input that it should have.
    code
        Digest of the code that makes it now.
    """
    recorded_spec = manifest.get("spec_digest" if isinstance(spec, str) else "spec")
    return Differences(
        [] if spec is None else differing(spec, recorded_spec),
        [] if inputs is None else differing(inputs, manifest["inputs"]),
        code is not None and code != manifest.get("code_digest"),
    )


def differing(wanted: Any, present: Any, key: str = "") -> list[tuple[str, Any, Any]]:
    """Innermost differences of two JSON values: dotted key and both values, `None` for a missing value."""
    if wanted == present:
        return []
    if isinstance(wanted, dict) and isinstance(present, dict):
        names = sorted(wanted.keys() | present.keys())
        parts = [(name, wanted.get(name), present.get(name)) for name in names]
    elif _are_objects(wanted) and _are_objects(present) and len(wanted) == len(present):
        parts = [(str(row), *pair) for row, pair in enumerate(zip(wanted, present, strict=True))]
    else:
        return [(key, wanted, present)]
    return [
        difference
        for name, wanted_part, present_part in parts
        for difference in differing(wanted_part, present_part, f"{key}.{name}".lstrip("."))
    ]


def _are_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def require_input(artefact: Path, role: str, used: Path) -> None:
    """Refuse an artefact that was made from another version of `used`.

    Raises
    ------
    VseppError
        Naming both artefacts and what to do.
    """
    manifest = read_manifest(artefact)
    wanted = {**manifest["inputs"], role: artefact_digest(used)}
    for _, present, recorded_digest in differences(manifest, inputs=wanted).inputs:
        raise VseppError(
            f"{artefact} was made from another {role} than {used}: expected digest {str(present)[:12]}, its "
            f"manifest says {str(recorded_digest)[:12]}. Delete it and make it again"
        )
