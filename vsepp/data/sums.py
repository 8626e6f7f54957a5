"""The checksum that a file must have: published, or recorded at its first download."""

from __future__ import annotations

import json
import logging
import zipfile
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import yaml
from filelock import FileLock
from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from vsepp.base.declared import STRICT, Sha256, mistakes_of
from vsepp.base.errors import VseppError
from vsepp.base.files import file_digest, text_of, write_text, yaml_of
from vsepp.base.manifest import sidecar_path
from vsepp.base.spec import SourceSpec

log = logging.getLogger("vsepp")

_HEADER = """\
# SHA-256 of files for which none is published, recorded at their first download. Later downloads, here or in a clone, must
# have the same. Written by `vsepp fetch`; commit it. If a publisher has replaced a file on purpose, delete its entry.
"""


@dataclass(frozen=True, config=STRICT)
class Recorded:
    """Record of the first download of a file."""

    sha256: Sha256
    size: Annotated[int, Field(ge=0, strict=True)]
    url: str | None
    date: str
    """The day without a time: nothing else here changes from one download to the next."""


@dataclass(frozen=True)
class ExpectedSum:
    """The checksum that a file must have."""

    sha256: str | None
    """`None` before the first download of a file without a published checksum."""
    verified: str
    """`published`, `recorded before` or `recorded first time`."""
    basis: str = ""
    """Source of the checksum, for messages."""


def expected_sum(source: SourceSpec, lock: Path) -> ExpectedSum:
    """The checksum that a file must have."""
    if source.sha256:
        return ExpectedSum(source.sha256.lower(), "published", "its entry in params/datasets.yaml")
    if recorded := read_lock(lock).get(source.file):
        return ExpectedSum(recorded.sha256, "recorded before", f"{lock}, recorded on {recorded.date}")
    return ExpectedSum(None, "recorded first time")


def read_lock(lock: Path) -> dict[str, Recorded]:
    """Recorded checksums, by file.

    Raises
    ------
    VseppError
        If the file is not one that `write_facts` writes.
    """
    if not lock.exists():
        return {}
    entries = yaml_of(text_of(lock, "recorded checksums, in YAML"), str(lock)) or {}
    try:
        return TypeAdapter(dict[str, Recorded]).validate_python(entries)
    except ValidationError as error:
        mistakes = [f"{key or 'all of it'}: {text}" for key, text in mistakes_of(error, dict[str, Recorded])]
        raise VseppError(f"{lock}: {'; '.join(mistakes)}; restore the entry or delete it") from error


def describe(source: SourceSpec, file: Path, url: str | None, expected: ExpectedSum) -> dict[str, Any]:
    """Facts about a file, as in its manifest; `file` has the final content and time stamp."""
    status = file.stat()
    return {
        "file": source.file,
        "url": url,
        "sha256": file_digest(file),
        "size": status.st_size,
        "mtime_ns": status.st_mtime_ns,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "verified": expected.verified,
        "licence": source.licence,
        "citation": source.citation,
    }


def fault_of(source: SourceSpec, file: Path, facts: dict[str, Any], expected: ExpectedSum) -> str | None:
    """What is wrong with a whole file, if anything."""
    if source.size not in (None, facts["size"]):
        return f"has {facts['size']:,} bytes, expected {source.size:,}"
    if expected.sha256 not in (None, facts["sha256"]):
        return f"sha256 {facts['sha256']}, expected {expected.sha256} ({expected.basis})"
    if source.file.lower().endswith(".zip") and not zipfile.is_zipfile(file):
        return "not a whole zip file: its directory, at the end, is missing"
    return None


def write_facts(
    source: SourceSpec, target: Path, facts: dict[str, Any], expected: ExpectedSum, lock: Path
) -> None:
    """Write the manifest of a verified file beside it, for a new file before the file itself; record a first checksum."""
    if expected.sha256 is None:
        _record(source, facts, lock)
    write_text(sidecar_path(target), json.dumps(facts, indent=1, sort_keys=True) + "\n")


def _record(source: SourceSpec, facts: dict[str, Any], lock: Path) -> None:
    """Record the checksum of a first download, keeping what other processes recorded."""
    guard = lock.parent / ".state" / f"{lock.name}.lock"
    guard.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(guard):
        entries = read_lock(lock)
        if source.file in entries:
            return
        entries[source.file] = Recorded(facts["sha256"], facts["size"], facts["url"], facts["date"][:10])
        plain = {file: asdict(recorded) for file, recorded in entries.items()}
        write_text(lock, _HEADER + yaml.safe_dump(plain, sort_keys=True, allow_unicode=True))
    log.warning(
        "%s: NOT VERIFIED: no sha256 is published for it. That of this first download, %s, is recorded in %s and "
        "required from now on: compare it with another source if you can, and commit the file.",
        source.file,
        facts["sha256"],
        lock,
    )
