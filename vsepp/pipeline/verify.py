"""Whether artefacts are what the current parameters would make from the current inputs, and which of them other code made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vsepp.base.digests import FileCache, path_digest
from vsepp.base.errors import VseppError, fixes, pull, snakemake
from vsepp.base.manifest import ancestors_of, artefact_digest, differences, read_manifest
from vsepp.base.spec import to_dict
from vsepp.pipeline.fitting import value_text
from vsepp.pipeline.step import Artefact, owner_of


@dataclass(frozen=True)
class Finding:
    """What is to be said of an artefact: nothing where all is as the plan has it."""

    folder: Path
    differences: Sequence[str]
    """Why it cannot be trusted: what is not as parameters and inputs have it, or not as its step wrote it."""
    other_code: Sequence[str]
    """What other code than the present one made: itself, or an input that is absent."""
    mend: Sequence[str]
    """The command that makes it again, and another that serves as well."""

    def __str__(self) -> str:
        fix = fixes(*self.mend) if self.differences else ""
        return f"{self.folder}: {'; '.join([*self.other_code, *self.differences])}{fix}"


def verify_all(
    artefacts: Iterable[Artefact], known: FileCache, phase: str | None = None, config: str = ""
) -> list[Finding]:
    """Verify the artefacts of a plan.

    Parameters
    ----------
    artefacts
        The whole table.
    known
        Digests that need not be computed again; new ones are added and saved.
    phase
        Only artefacts of this phase; `None`: all.
    config
        The option `--config` that chose the plan, for the commands that mend.

    Returns
    -------
    list of Finding
        Of every artefact, but of those that are absent and may be.
    """
    table = {artefact.folder: artefact for artefact in artefacts}
    wanted = [artefact for artefact in table.values() if phase in (None, artefact.phase)]
    findings = [verify(artefact, known, table, config) for artefact in wanted]
    known.save()
    return [finding for finding in findings if finding]


def verify(
    expected: Artefact, known: FileCache, table: Mapping[Path, Artefact], config: str = ""
) -> Finding | None:
    """Compare an artefact's manifest and bytes with what is expected.

    Parameters
    ----------
    expected
        The artefact as the plan has it.
    known
        Digests that need not be computed again.
    table
        Folder → artefact that is expected there, to check inputs that are absent, such as a deleted tape.
    config
        As for `verify_all`.

    Returns
    -------
    Finding or None
        `None` for an absent artefact that is not versioned.
    """
    target = expected.targets[0]
    if not is_present(expected.folder):
        if not expected.versioned:
            return None
        # DVC knows the plan of params/config.yaml alone.
        elsewhere = () if config else (pull(),)
        return Finding(expected.folder, ["missing"], [], [snakemake(target, config), *elsewhere])
    other_code: list[str] = []
    try:
        manifest = read_manifest(expected.folder)
        mistakes = [*_differences(expected, manifest, known)]
        if differences(manifest, code=expected.code).code:
            other_code.append(f"made by other code, commit {_commit(manifest['git'])}")
        # Snakemake no longer asks for inputs that are absent.
        for absent, ancestors in _absent_inputs(expected, manifest, table):
            same = [
                ancestor for ancestor in ancestors if not differences(ancestor, spec=absent.spec_digest).spec
            ]
            if not same:
                mistakes.append(
                    f"made from a {absent.kind} with other parameters (of commit {_commit(ancestors[-1])}) than the current, "
                    f"and {absent.folder} is absent"
                )
            elif any(differences(ancestor, code=absent.code).code for ancestor in same):
                other_code.append(f"made from a {absent.kind} by other code, commit {_commit(same[-1])}")
    except VseppError as error:
        mistakes = [str(error)]
    return Finding(expected.folder, mistakes, other_code, [snakemake(target, config, again=target)])


def is_present(path: Path) -> bool:
    """Whether an artefact exists: a failed job may have left an empty folder."""
    return path.is_file() or (path.is_dir() and any(path.iterdir()))


def _differences(expected: Artefact, manifest: Mapping[str, Any], known: FileCache) -> Iterator[str]:
    """Other parameters than expected, files that were changed, and inputs with other roles or digests."""
    inputs = _wanted_inputs(expected, manifest["inputs"], known)
    differing = differences(manifest, spec=to_dict(expected.spec), inputs=inputs)
    if differing.spec:
        key, wanted, got = differing.spec[0]
        keys = ", ".join(key for key, *_ in differing.spec)
        more = f" ({len(differing.spec)} keys differ: {keys})" if len(differing.spec) > 1 else ""
        yield f"its {key} is {value_text(got)}, expected {value_text(wanted)} by params/{more}"
    for name, recorded in sorted(manifest["outputs"].items()):
        path = expected.folder / name
        if not path.exists():
            yield f"{name} is missing"
        elif (present := path_digest(path, known)) != recorded:
            yield f"{name} is not what its step wrote: {_two(recorded, present)}"
    for role, digest, read in differing.inputs:
        if digest is None:
            yield f"made from a {role}, which it should not read"
        elif read is None:
            yield f"its manifest names no {role}, expected {expected.paths[role]}"
        else:
            yield f"made from another {role} than {expected.paths[role]}: {_two(digest, read)}"


def _wanted_inputs(expected: Artefact, recorded: Mapping[str, str], known: FileCache) -> dict[str, str]:
    """Role → digest of each input; of an input that is not here, the digest that the manifest has."""
    reads_raw = any(read.raw for read in expected.inputs.values())
    wanted = {}
    for role in recorded.keys() | expected.inputs.keys():
        read = expected.inputs.get(role)
        if read is None:
            if reads_raw:  # a file in a raw folder
                wanted[role] = recorded[role]
        elif role in recorded or not read.raw:
            if is_present(read.path):
                wanted[role] = artefact_digest(read.path, known)
            else:
                wanted[role] = recorded.get(role, "absent")
    return wanted


def _absent_inputs(
    expected: Artefact, manifest: Mapping[str, Any], table: Mapping[Path, Artefact]
) -> Iterator[tuple[Artefact, list[dict[str, Any]]]]:
    """Artefacts behind an artefact that are absent, each with the ancestors of its kind that a manifest names."""
    for read in expected.inputs.values():
        absent = owner_of(read.path, table)
        if absent is None or is_present(absent.folder):
            continue
        if ancestors := [ancestor for ancestor in ancestors_of(manifest) if ancestor["step"] == absent.kind]:
            yield absent, ancestors
        yield from _absent_inputs(absent, manifest, table)


def _commit(git: Mapping[str, Any]) -> str:
    return str(git.get("commit"))[:10]


def _two(expected: str, got: str) -> str:
    return f"expected digest {expected[:12]}, got {str(got)[:12]}"
