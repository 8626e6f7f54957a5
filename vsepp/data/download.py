"""Files from their mirrors: resumed, verified, and moved into place only when complete.

A file's checksum is published, or recorded at its first download.
"""

from __future__ import annotations

import json
import logging
import zipfile
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from vsepp.base.declared import STRICT, Sha256, mistakes_of
from vsepp.base.digests import file_digest
from vsepp.base.errors import VseppError
from vsepp.base.files import text_of, write_text, yaml_of
from vsepp.base.locks import file_lock
from vsepp.base.manifest import read_sidecar, sidecar_path
from vsepp.base.publish import state_folder
from vsepp.base.spec import SourceSpec
from vsepp.data.transfer import Partial

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


def fetch(source: SourceSpec, target: Path, lock: Path) -> dict[str, Any]:
    """Download and verify a file, or verify the file that is already there.

    After a failure or a kill, what was received stays in a state folder beside the target, and the next call
    resumes from it. If several processes want the same file, one fetches it and the others wait. The facts
    are also written to `<target>.manifest.json`.

    Parameters
    ----------
    source
        Mirrors, and what is known about the file.
    target
        Path of the file.
    lock
        File of the checksums that first downloads recorded (`params/sources.lock.yaml`).

    Returns
    -------
    dict
        `file`, `url` (`None` for a file put there by hand), `sha256`, `size`, `mtime_ns`, `date`, `verified`
        (`published`, `recorded first time`, `recorded before`), `licence`, `citation`.

    Raises
    ------
    VseppError
        If no mirror gives the file, naming what each did; if it must be requested by hand; if the disk has no
        room for it; if the file that is there has another checksum.
    """
    if target.exists():
        return _check_present(source, target, lock)
    if not source.mirrors:
        raise VseppError(_by_hand(source, target))
    with state_folder(target, step="download") as state:
        if target.exists():  # another process fetched it while this one waited
            return _check_present(source, target, lock)
        return _download(source, target, lock, Partial(source, state))


def _check_present(source: SourceSpec, target: Path, lock: Path) -> dict[str, Any]:
    """Verify a file that is already there; it is read only if its manifest does not vouch for
    it, and left as it is."""
    if not target.is_file():
        raise VseppError(f"{target}: expected a file, found something else; move it away")
    expected = _expected_sum(source, lock)
    facts = read_sidecar(target) or _describe(source, target, None, expected)
    if fault := _fault_of(source, target, facts, expected):
        raise VseppError(
            f"{target}: {fault}; it is damaged or a different file: move it away and run the step again, or "
            "correct what is expected if you trust this file"
        )
    _write_facts(source, target, facts, expected, lock)
    return facts


def _download(source: SourceSpec, target: Path, lock: Path, partial: Partial) -> dict[str, Any]:
    """Try the mirrors until one gives the right file; `partial` belongs to this process alone."""
    expected = _expected_sum(source, lock)
    mirrors, failures = list(source.mirrors), []
    while mirrors:
        url = mirrors.pop(0)
        resumed = partial.length > 0
        if refusal := partial.receive(url, sum_known=expected.sha256 is not None):
            failures.append(f"{url}: {refusal}")
        else:
            facts = _describe(source, partial.file, url, expected)
            fault = _fault_of(source, partial.file, facts, expected)
            if fault is None:
                _write_facts(source, target, facts, expected, lock)
                partial.file.replace(target)
                return facts
            aside = target.with_name(f"{target.name}.bad-{facts['sha256'][:12]}")
            partial.file.replace(aside)
            failures.append(f"{url}: {fault}; kept as {aside}")
            if resumed:  # the bytes of before may have been damaged: once more, from the first one
                mirrors.insert(0, url)
        log.warning("%s: %s", source.file, failures[-1])
    raise VseppError(_no_mirror(target, failures, expected))


def _by_hand(source: SourceSpec, target: Path) -> str:
    others = f" (or, unpacked or renamed, as {', '.join(source.accepts)})" if source.accepts else ""
    licence = f"\nLicence: {source.licence}." if source.licence else ""
    return (
        f"{target}: missing, and no mirror serves it.\n"
        f"{source.instructions}\n"
        f"Put it there, or into your own folder as {source.file}{others}, and name that folder as `archives` "
        f"in params/config.yaml.{licence}"
    )


def _no_mirror(target: Path, failures: Sequence[str], expected: ExpectedSum) -> str:
    wanted = replaced = ""
    if expected.sha256:
        wanted = f" with sha256 {expected.sha256} ({expected.basis})"
        replaced = (
            "\n"
            "If all of them send the same other file, it was replaced: make sure that this was intended, and "
            "change the expected sum."
        )
    listed = "".join(f"\n  {failure}" for failure in failures)
    return (
        f"{target}: none of its mirrors gave the file{wanted}:{listed}\n"
        "Run the step again later; it resumes from what was received. Or get the file elsewhere and put it "
        f"there, or into your own folder that `archives` in params/config.yaml names.{replaced}"
    )


def _expected_sum(source: SourceSpec, lock: Path) -> ExpectedSum:
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
        If the file is not one that `fetch` writes.
    """
    if not lock.exists():
        return {}
    entries = yaml_of(text_of(lock, "recorded checksums, in YAML"), str(lock)) or {}
    try:
        return TypeAdapter(dict[str, Recorded]).validate_python(entries)
    except ValidationError as error:
        mistakes = [f"{key or 'all of it'}: {text}" for key, text in mistakes_of(error, dict[str, Recorded])]
        raise VseppError(f"{lock}: {'; '.join(mistakes)}; restore the entry or delete it") from error


def _describe(source: SourceSpec, file: Path, url: str | None, expected: ExpectedSum) -> dict[str, Any]:
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


def _fault_of(source: SourceSpec, file: Path, facts: dict[str, Any], expected: ExpectedSum) -> str | None:
    """What is wrong with a whole file, if anything."""
    if source.size not in (None, facts["size"]):
        return f"has {facts['size']:,} bytes, expected {source.size:,}"
    if expected.sha256 not in (None, facts["sha256"]):
        return f"sha256 {facts['sha256']}, expected {expected.sha256} ({expected.basis})"
    if source.file.lower().endswith(".zip") and not zipfile.is_zipfile(file):
        return "not a whole zip file: its directory, at the end, is missing"
    return None


def _write_facts(
    source: SourceSpec, target: Path, facts: dict[str, Any], expected: ExpectedSum, lock: Path
) -> None:
    """Write the manifest of a verified file beside it, for a new file before the file itself;
    record a first checksum."""
    if expected.sha256 is None:
        _record(source, facts, lock)
    write_text(sidecar_path(target), json.dumps(facts, indent=1, sort_keys=True) + "\n")


def _record(source: SourceSpec, facts: dict[str, Any], lock: Path) -> None:
    """Record the checksum of a first download, keeping what other processes recorded."""
    guard = lock.parent / ".state" / f"{lock.name}.lock"
    guard.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(guard):
        entries = read_lock(lock)
        if source.file in entries:
            return
        entries[source.file] = Recorded(facts["sha256"], facts["size"], facts["url"], facts["date"][:10])
        plain = {file: asdict(recorded) for file, recorded in entries.items()}
        write_text(lock, _HEADER + yaml.safe_dump(plain, sort_keys=True, allow_unicode=True))
    log.warning(
        "%s: NOT VERIFIED: no sha256 is published for it. That of this first download, %s, is recorded in %s "
        "and required from now on: compare it with another source if you can, and commit the file.",
        source.file,
        facts["sha256"],
        lock,
    )
