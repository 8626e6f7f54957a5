"""The checksum that a file must have: the published one, or the one that its first download recorded."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock

from vsepp.errors import VseppError
from vsepp.foreign import shortly, text_of
from vsepp.foreign_yaml import yaml_of
from vsepp.provenance.manifest import read_sidecar, sidecar_path
from vsepp.runtime.files import blocks_of, write_text
from vsepp.spec import SourceSpec

log = logging.getLogger("vsepp")

_HEADER = """\
# SHA-256 of files for which none is published, recorded at their first download. Later downloads, here or in a clone, must
# have the same. Written by `vsepp fetch`; commit it. If a publisher has replaced a file on purpose, delete its entry.
"""


@dataclass(frozen=True)
class Demand:
    """The checksum that a file must have."""

    sha256: str
    verified: str
    """`published` or `recorded before`."""
    basis: str
    """Source of the checksum, for messages."""


def demanded(source: SourceSpec, lock: Path) -> Demand | None:
    """The checksum that a file must have; `None` before its first download if none is published."""
    if source.sha256:
        return Demand(source.sha256.lower(), "published", "its entry in params/datasets.yaml")
    if entry := read_lock(lock).get(source.file):
        return Demand(entry["sha256"], "recorded before", f"{lock}, recorded on {entry['date']}")
    return None


def read_lock(lock: Path) -> dict[str, dict[str, Any]]:
    """Recorded checksums: file → `sha256`, `size`, `url`, `date`.

    Raises
    ------
    VseppError
        If the file is not one that `record` writes.
    """
    if not lock.exists():
        return {}
    entries = yaml_of(text_of(lock, "recorded checksums, in YAML"), str(lock)) or {}
    if not isinstance(entries, dict):
        raise VseppError(f"{lock}: expected files and their checksums, got {shortly(entries)}; restore it")
    for file, entry in entries.items():
        if not (isinstance(file, str) and isinstance(entry, dict) and _is_entry(entry)):
            raise VseppError(
                f"{lock}: {shortly(file)}: expected sha256 (64 hexadecimal digits), size, url and date, got {shortly(entry)}; "
                "restore the entry or delete it"
            )
    return entries


def _is_entry(entry: dict[Any, Any]) -> bool:
    sha256, size, url, date = (entry.get(key) for key in ("sha256", "size", "url", "date"))
    return (
        isinstance(sha256, str)
        and re.fullmatch("[0-9a-f]{64}", sha256) is not None
        and type(size) is int
        and size >= 0
        and isinstance(url, str | None)
        and isinstance(date, str)
    )


def record(source: SourceSpec, facts: dict[str, Any], lock: Path) -> None:
    """Record the checksum of a first download, atomically, keeping what other processes recorded.

    Raises
    ------
    VseppError
        If another checksum was recorded in the meantime.
    """
    guard = lock.parent / ".state" / f"{lock.name}.lock"
    guard.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(guard):
        entries = read_lock(lock)
        known = entries.get(source.file)
        if known and known["sha256"] != facts["sha256"]:
            raise VseppError(
                f"{source.file}: two simultaneous first downloads gave different files: sha256 {facts['sha256']} here, "
                f"{known['sha256']} in {lock}; find out which is right and delete the other"
            )
        if known:
            return
        # The day without a time: nothing else here changes from one download to the next.
        entries[source.file] = {key: facts[key] for key in ("sha256", "size", "url")} | {
            "date": facts["date"][:10]
        }
        write_text(lock, _HEADER + yaml.safe_dump(entries, sort_keys=True, allow_unicode=True))
    log.warning(
        "%s: NOT VERIFIED: no sha256 is published for it. That of this first download, %s, is recorded in %s and "
        "required from now on: compare it with another source if you can, and commit the file.",
        source.file,
        facts["sha256"],
        lock,
    )


def describe(
    source: SourceSpec, file: Path, sha256: str, url: str | None, demand: Demand | None
) -> dict[str, Any]:
    """Facts about a verified file, as in its manifest; `file` has the final content and time stamp."""
    status = file.stat()
    return {
        "file": source.file,
        "url": url,
        "sha256": sha256,
        "size": status.st_size,
        "mtime_ns": status.st_mtime_ns,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "verified": demand.verified if demand else "recorded first time",
        "licence": source.licence,
        "citation": source.citation,
    }


def write_sidecar(target: Path, facts: dict[str, Any]) -> None:
    """Write the manifest of a single file beside it."""
    write_text(sidecar_path(target), json.dumps(facts, indent=1, sort_keys=True) + "\n")


def check_present(source: SourceSpec, target: Path, lock: Path) -> dict[str, Any]:
    """Verify a file that is already there; it is read only if its manifest does not vouch for it.

    Raises
    ------
    VseppError
        If size or checksum is not as expected; the file is left as it is.
    """
    if not target.is_file():
        raise VseppError(f"{target}: expected a file, found something else; move it away")
    demand = demanded(source, lock)
    noted = read_sidecar(target)
    size = target.stat().st_size
    if source.size is not None and size != source.size:
        raise VseppError(
            f"{target}: has {size:,} bytes, expected {source.size:,}; it is truncated or a different file: "
            "move it away and run the step again"
        )
    sha256 = noted["sha256"] if noted else _file_sum(target)
    if demand and sha256 != demand.sha256:
        raise VseppError(
            f"{target}: sha256 {sha256}, expected {demand.sha256} ({demand.basis}); it is damaged or a different file: "
            "move it away and run the step again, or correct the expected sum if you trust this file"
        )
    facts = noted or describe(source, target, sha256, None, demand)
    if not demand:
        record(source, facts, lock)
    if not noted:
        write_sidecar(target, facts)
    return facts


def _file_sum(path: Path) -> str:
    sha = hashlib.sha256()
    for block in blocks_of(path, f"{path.name}: sha256"):
        sha.update(block)
    return sha.hexdigest()
