"""Results that other code made and a person has accepted for the present one: they are not made again, and pages mark them.

An acceptance stands in a manifest beside the digest of the code that it is about, as `accepted`: `for` the digest of the
present code, `when` and `why`. It holds for that code alone: another edit makes the result again.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from vsepp.errors import VseppError
from vsepp.provenance.artefacts import Artefact, owner_of
from vsepp.provenance.digests import value_digest
from vsepp.provenance.known import KnownDigests
from vsepp.provenance.manifest import ACCEPTED, HELD_TO, MANIFEST, is_accepted, read_manifest, write_manifest
from vsepp.provenance.verify import Mismatch, is_present, verify
from vsepp.spec import to_dict


def standing_code(artefact: Artefact) -> str:
    """Digest of the code that an artefact is held to: that which its result was made with, where it was accepted for the
    present code; else the present one. A result that is made again is held to the digest of the one before it."""
    manifest = _manifest_of(artefact)
    if manifest and is_accepted(manifest, artefact.code):
        return str(manifest.get(HELD_TO, manifest["code_digest"]))
    return artefact.code


def made_by_other_code(artefacts: Iterable[Artefact]) -> list[Artefact]:
    """Artefacts whose results are here, were made by other code than the present, and were not accepted for it."""
    return [artefact for artefact in artefacts if _differs(artefact, _manifest_of(artefact))]


def other_code_text(others: Iterable[Artefact]) -> str:
    """What the start of a run says of such results: how many there are of each kind, and the command."""
    kinds = Counter(artefact.kind for artefact in others)
    return (
        f"{kinds.total()} results were made by other code than the present and are made again where they are asked for: "
        f"{', '.join(f'{count} {kind}' for kind, count in kinds.items())}. If the present code computes the same, keep "
        "them: vsepp accept all --why '...'"
    )


def _differs(artefact: Artefact, manifest: Mapping[str, Any] | None) -> bool:
    return manifest is not None and not is_accepted(manifest, artefact.code)


def _manifest_of(artefact: Artefact) -> dict[str, Any] | None:
    """The manifest of an artefact that is here; `None` also of a damaged one, which others name."""
    if not (artefact.folder / MANIFEST).is_file():
        return None
    try:
        return read_manifest(artefact.folder)
    except VseppError:
        return None


def accept(
    chosen: Iterable[Artefact], table: Mapping[Path, Artefact], why: str, known: KnownDigests
) -> tuple[list[Artefact], list[Mismatch]]:
    """Accept results that differ by nothing but the code that made them, where these differ from the present code at all.

    What was made from them says so too, and so does what was made from absent ones, such as random-crop features that were
    deleted after their last reader.

    Parameters
    ----------
    chosen
        What may be accepted, in the order of the table.
    table
        Folder → artefact of the whole plan.
    why
        Why the other code makes the same.
    known
        Digests that need not be computed again.

    Returns
    -------
    tuple
        What is accepted now, and what differs in more than code, with what differs; that stays as it is.
    """
    chosen, accepted, refused = list(chosen), [], []
    for artefact in made_by_other_code(chosen):
        made_with = read_manifest(artefact.folder)["code_digest"]
        if mismatch := verify(replace(artefact, code=made_with), known):
            refused.append(mismatch)
        else:
            accepted.append(artefact)
    known.save()
    said = {"when": datetime.now(UTC).isoformat(timespec="seconds"), "why": why}
    absent = [artefact for artefact in chosen if not is_present(artefact.folder)]
    left_alone = {mismatch.folder for mismatch in refused}
    for artefact in table.values():
        if artefact.folder not in left_alone and (manifest := _manifest_of(artefact)):
            _enter(artefact, manifest, {one.folder for one in (*accepted, *absent)}, table, said)
    return accepted, refused


def _enter(
    artefact: Artefact,
    manifest: dict[str, Any],
    accepted: set[Path],
    table: Mapping[Path, Artefact],
    said: Mapping[str, str],
) -> None:
    """Write acceptances into a manifest: of the artefact itself, and of what it was made from."""
    entered = False
    if artefact.folder in accepted:
        manifest[ACCEPTED], entered = {"for": artefact.code, **said}, True
    for role, other in _behind(artefact, table):
        made = manifest["ancestors"].get(role)
        if other.folder not in accepted or made is None or is_accepted(made, other.code):
            continue
        # What was accepted is what lies there, or would be made now, and not another result of the same name.
        present = _manifest_of(other)
        same_code = present is None or made["code_digest"] == present["code_digest"]
        if same_code and made["spec_digest"] == value_digest(to_dict(other.spec)):
            made[ACCEPTED], entered = {"for": other.code, **said}, True
    if entered:
        file = artefact.folder / MANIFEST
        before = file.stat()
        write_manifest(artefact.folder, manifest)
        # A report's manifest is what its PDF is made from, which nothing has changed for.
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def _behind(
    artefact: Artefact, table: Mapping[Path, Artefact], below: str = ""
) -> Iterator[tuple[str, Artefact]]:
    """Dotted role and artefact of all that an artefact is made from, as a manifest names its ancestors."""
    for role, path in artefact.inputs.items():
        if other := owner_of(path, table):
            yield below + role, other
            yield from _behind(other, table, f"{below}{role}.")
