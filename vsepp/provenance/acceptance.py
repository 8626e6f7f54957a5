"""Results that other code made and a person has accepted for the present one: they are not made again, and pages mark them.

An acceptance stands in a manifest beside the digest of the code that it is about, as `accepted`: `for` the digest of the
present code, `when` and `why`. It holds for that code alone: another edit makes the result again.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from vsepp.errors import VseppError, as_started
from vsepp.provenance.artefacts import Artefact, behind
from vsepp.provenance.digests import FileCache
from vsepp.provenance.manifest import (
    ACCEPTED,
    HELD_TO,
    MANIFEST,
    ancestors_of,
    is_accepted,
    read_manifest,
    write_manifest,
)
from vsepp.provenance.verify import Mismatch, is_present, verify


def standing_code(artefact: Artefact) -> str:
    """Digest of the code that an artefact is held to: the code that made its result, where this was accepted for the present
    code; else the present code. A result that is made again is held to the digest of the result before it."""
    manifest = _manifest_of(artefact)
    if manifest and is_accepted(manifest, artefact.code):
        return str(manifest.get(HELD_TO, manifest["code_digest"]))
    return artefact.code


def made_by_other_code(artefacts: Iterable[Artefact]) -> list[Artefact]:
    """Artefacts whose results are here, were made by other code than the present code, and were not accepted for it."""
    return [
        artefact
        for artefact in artefacts
        if (manifest := _manifest_of(artefact)) and not is_accepted(manifest, artefact.code)
    ]


def other_code_text(others: Iterable[Artefact]) -> str:
    """Message at the start of a workflow about results made by other code: their number by kind, and the command that keeps them."""
    kinds = Counter(artefact.kind for artefact in others)
    return (
        f"{kinds.total()} results were made by other code and will be made again when needed: "
        f"{', '.join(f'{count} {kind}' for kind, count in kinds.items())}. If the current code computes the same, keep "
        f"them: {as_started()}vsepp accept all --why '...'"
    )


def _manifest_of(artefact: Artefact) -> dict[str, Any] | None:
    """The manifest of an artefact that is here; `None` also for a damaged manifest, which other checks report."""
    if not (artefact.folder / MANIFEST).is_file():
        return None
    try:
        return read_manifest(artefact.folder)
    except VseppError:
        return None


def accept(
    chosen: Iterable[Artefact], table: Mapping[Path, Artefact], why: str, known: FileCache
) -> tuple[list[Artefact], list[Mismatch]]:
    """Accept results that other code than the present code made, where nothing but the code differs.

    Results made from them are marked too, and so are results made from absent artefacts, such as random-crop features that
    were deleted after their last reader.

    Parameters
    ----------
    chosen
        Artefacts that may be accepted, in the order of the table.
    table
        Folder → artefact of the whole plan.
    why
        Why the other code makes the same.
    known
        Digests that need not be computed again.

    Returns
    -------
    tuple
        Artefacts that are accepted now, and mismatches of artefacts that differ in more than code, which stay as they are.
    """
    chosen, accepted, refused = list(chosen), [], []
    # Folder → the code that made an accepted artefact; `None`, any code, for an absent artefact.
    made_with: dict[Path, str | None] = {
        artefact.folder: None for artefact in chosen if not is_present(artefact.folder)
    }
    for artefact in made_by_other_code(chosen):
        code = read_manifest(artefact.folder)["code_digest"]
        if mismatch := verify(replace(artefact, code=code), known):
            refused.append(mismatch)
        else:
            accepted.append(artefact)
            made_with[artefact.folder] = code
    known.save()
    note = {"when": datetime.now(UTC).isoformat(timespec="seconds"), "why": why}
    left_alone = {mismatch.folder for mismatch in refused}
    for artefact in table.values():
        manifest = None if artefact.folder in left_alone else _manifest_of(artefact)
        if manifest is None:
            continue
        to_mark = [(artefact, manifest)] if artefact in accepted else []
        for other in behind(artefact, table).values():
            if other.folder in made_with:
                ancestors = _ancestors_by_other_code(manifest, other, made_with[other.folder])
                to_mark += [(other, ancestor) for ancestor in ancestors]
        for planned, made in to_mark:
            made[ACCEPTED] = {"for": planned.code, **note}
        if to_mark:
            _rewrite(artefact.folder, manifest)
    return accepted, refused


def _ancestors_by_other_code(
    manifest: Mapping[str, Any], planned: Artefact, code: str | None
) -> list[dict[str, Any]]:
    """The ancestors in a manifest that have the parameters of an artefact of the plan and were made with some code, `None`
    for any, that does not count as the present one. The name of their step is not compared: earlier steps had other names."""
    return [
        ancestor
        for ancestor in ancestors_of(manifest)
        if ancestor["spec_digest"] == planned.spec_digest
        and code in (None, ancestor["code_digest"])
        and not is_accepted(ancestor, planned.code)
    ]


def _rewrite(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write a manifest with its acceptances, and keep its date: a report's PDF is made from it and need not be made again."""
    before = (folder / MANIFEST).stat()
    write_manifest(folder, manifest)
    os.utime(folder / MANIFEST, ns=(before.st_atime_ns, before.st_mtime_ns))
