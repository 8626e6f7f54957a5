"""Files from their mirrors: resumed, verified, and moved into place only when complete."""

from __future__ import annotations

import logging
import os
import time
import zipfile
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import requests

from vsepp.errors import VseppError
from vsepp.provenance.publish import publish, state_folder
from vsepp.provenance.space import full_disk_explained
from vsepp.sources.partial import Partial
from vsepp.sources.sums import Demand, check_present, demanded, describe, record, write_sidecar
from vsepp.sources.transfer import Manner, Refused, transfer
from vsepp.spec import SourceSpec

log = logging.getLogger("vsepp")

LONGEST_WAIT = 120.0
"""Seconds; longest wait before the next attempt, whatever a server asks for."""


def fetch(source: SourceSpec, target: Path, lock: Path, manner: Manner | None = None) -> dict[str, Any]:
    """Download and verify a file, or verify the one that is already there.

    After a failure or a kill, what was received stays in a state folder beside the target, and the next call resumes from it.
    If several processes want the same file, one fetches it and the others wait. The facts are also written to
    `<target>.manifest.json`.

    Parameters
    ----------
    source
        Mirrors, and what is known about the file.
    target
        Path of the file.
    lock
        File of the checksums that first downloads recorded (`params/sources.lock.yaml`).
    manner
        How patient the download is.

    Returns
    -------
    dict
        `file`, `url` (`None` for a file put there by hand), `sha256`, `size`, `mtime_ns`, `date`, `verified`
        (`published`, `recorded first time`, `recorded before`), `licence`, `citation`.

    Raises
    ------
    VseppError
        If no mirror gives the file, naming what each did; if it must be requested by hand; if the disk is full; if the
        file has another checksum.
    """
    if target.exists():
        return check_present(source, target, lock)
    if not source.mirrors:
        raise VseppError(_by_hand(source, target))
    try:
        with (
            full_disk_explained(target, "for the file", source.size),
            state_folder(target, step="download") as state,
        ):
            if target.exists():  # another process fetched it while this one waited
                return check_present(source, target, lock)
            return _download(source, target, lock, state, manner or Manner())
    except OSError as error:
        raise VseppError(f"{target}: cannot be written: {error}; check the folder's permissions") from error


def _download(source: SourceSpec, target: Path, lock: Path, state: Path, manner: Manner) -> dict[str, Any]:
    """Try the mirrors until one gives the right file; `state` belongs to this process alone."""
    demand = demanded(source, lock)
    partial = Partial(state, source.file)
    told = []
    mirrors, repeated = deque(source.mirrors), set()
    with requests.Session() as session:
        while mirrors:
            url = mirrors.popleft()
            try:
                _persist(session, url, source, partial, demand, manner)
            except Refused as refusal:
                told.append(f"{url}: {refusal}")
            else:
                fault = _fault(source, partial, demand)
                if fault is None:
                    return _settle(source, target, lock, partial, demand)
                # The wrong bytes may be left from a crash, or the file may have been replaced meanwhile: try this mirror
                # once more from the first byte.
                if partial.pieced and url not in repeated:
                    repeated.add(url)
                    mirrors.appendleft(url)
                told.append(f"{url}: {fault}; kept as {_put_aside(target, partial)}")
            log.warning("%s: %s", source.file, told[-1])
    raise VseppError(_no_mirror(target, told, demand))


def _persist(
    session: requests.Session,
    url: str,
    source: SourceSpec,
    partial: Partial,
    demand: Demand | None,
    manner: Manner,
) -> None:
    """Ask one mirror until it has given everything or failed too many times in a row.

    Raises
    ------
    Refused
        With its last failure.
    """
    furthest = failures = 0
    while not partial.whole:
        try:
            log.info("%s: from %s, byte %d on", source.file, url, partial.length)
            transfer(session, url, source, partial, sum_known=demand is not None, manner=manner)
            return
        except Refused as refusal:
            failures = 1 if partial.length > furthest else failures + 1
            furthest = max(furthest, partial.length)
            if not refusal.again or failures >= manner.attempts:
                raise
            wait = min(max(refusal.wait, manner.backoff * 2 ** (failures - 1)), LONGEST_WAIT)
            log.warning("%s: %s: %s; again in %.1f s", source.file, url, refusal, wait)
            time.sleep(wait)


def _fault(source: SourceSpec, partial: Partial, demand: Demand | None) -> str | None:
    """What is wrong with a complete file, if anything."""
    if demand and partial.sha256 != demand.sha256:
        return f"sha256 {partial.sha256}, expected {demand.sha256}"
    if source.size is not None and partial.length != source.size:
        return f"{partial.length:,} bytes, expected {source.size:,}"
    if source.file.lower().endswith(".zip") and not zipfile.is_zipfile(partial.file):
        return "not a whole zip file: its directory, at the end, is missing"
    return None


def _put_aside(target: Path, partial: Partial) -> Path:
    aside = target.with_name(f"{target.name}.bad-{partial.sha256[:12]}")
    publish({partial.file: aside})
    partial.start(None)
    return aside


def _settle(
    source: SourceSpec, target: Path, lock: Path, partial: Partial, demand: Demand | None
) -> dict[str, Any]:
    """Publish a verified file; its manifest is written first, so that the file is never there without it."""
    with partial.file.open("rb") as stream:
        os.fsync(stream.fileno())
    url = partial.origin.url if partial.origin else None
    facts = describe(source, partial.file, partial.sha256, url, demand)
    if demand is None:
        record(source, facts, lock)
    write_sidecar(target, facts)
    publish({partial.file: target})
    log.info("%s: %s bytes, sha256 %s (%s)", target, f"{facts['size']:,}", facts["sha256"], facts["verified"])
    return facts


def _by_hand(source: SourceSpec, target: Path) -> str:
    others = f" (or, unpacked or renamed, as {', '.join(source.accepts)})" if source.accepts else ""
    licence = f"\nLicence: {source.licence}." if source.licence else ""
    return (
        f"{target}: missing, and no mirror serves it.\n{source.instructions}\n"
        f"Put it there, or into your own folder as {source.file}{others}, and name that folder as `archives` in "
        f"params/config.yaml.{licence}"
    )


def _no_mirror(target: Path, told: Sequence[str], demand: Demand | None) -> str:
    expected = replaced = ""
    if demand:
        expected = f" with sha256 {demand.sha256} ({demand.basis})"
        replaced = "\nIf all of them send the same other file, it was replaced: make sure that this was intended, and change the expected sum."
    listed = "".join(f"\n  {what}" for what in told)
    return (
        f"{target}: none of its mirrors gave the file{expected}:{listed}\n"
        "Run the step again later; it resumes from what was received. Or get the file elsewhere and put it there, or "
        f"into your own folder that `archives` in params/config.yaml names.{replaced}"
    )
