"""Files from their mirrors: resumed, verified, and moved into place only when complete."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vsepp.base.errors import VseppError
from vsepp.base.manifest import read_sidecar
from vsepp.base.publish import state_folder
from vsepp.base.spec import SourceSpec
from vsepp.data.sums import ExpectedSum, describe, expected_sum, fault_of, write_facts
from vsepp.data.transfer import Partial, Refused

log = logging.getLogger("vsepp")


def fetch(source: SourceSpec, target: Path, lock: Path) -> dict[str, Any]:
    """Download and verify a file, or verify the file that is already there.

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

    Returns
    -------
    dict
        `file`, `url` (`None` for a file put there by hand), `sha256`, `size`, `mtime_ns`, `date`, `verified`
        (`published`, `recorded first time`, `recorded before`), `licence`, `citation`.

    Raises
    ------
    VseppError
        If no mirror gives the file, naming what each did; if it must be requested by hand; if the disk has no room for
        it; if the file that is there has another checksum.
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
    """Verify a file that is already there; it is read only if its manifest does not vouch for it, and left as it is."""
    if not target.is_file():
        raise VseppError(f"{target}: expected a file, found something else; move it away")
    expected = expected_sum(source, lock)
    facts = read_sidecar(target) or describe(source, target, None, expected)
    if fault := fault_of(source, target, facts, expected):
        raise VseppError(
            f"{target}: {fault}; it is damaged or a different file: move it away and run the step again, or correct what is "
            "expected if you trust this file"
        )
    write_facts(source, target, facts, expected, lock)
    return facts


def _download(source: SourceSpec, target: Path, lock: Path, partial: Partial) -> dict[str, Any]:
    """Try the mirrors until one gives the right file; `partial` belongs to this process alone."""
    expected = expected_sum(source, lock)
    mirrors, failures = list(source.mirrors), []
    while mirrors:
        url = mirrors.pop(0)
        resumed = partial.length > 0
        try:
            partial.receive(url, sum_known=expected.sha256 is not None)
        except Refused as refusal:
            failures.append(f"{url}: {refusal}")
        else:
            facts = describe(source, partial.file, url, expected)
            fault = fault_of(source, partial.file, facts, expected)
            if fault is None:
                write_facts(source, target, facts, expected, lock)
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
        f"{target}: missing, and no mirror serves it.\n{source.instructions}\n"
        f"Put it there, or into your own folder as {source.file}{others}, and name that folder as `archives` in "
        f"params/config.yaml.{licence}"
    )


def _no_mirror(target: Path, failures: Sequence[str], expected: ExpectedSum) -> str:
    wanted = replaced = ""
    if expected.sha256:
        wanted = f" with sha256 {expected.sha256} ({expected.basis})"
        replaced = (
            "\nIf all of them send the same other file, it was replaced: make sure that this was intended, and change the "
            "expected sum."
        )
    listed = "".join(f"\n  {failure}" for failure in failures)
    return (
        f"{target}: none of its mirrors gave the file{wanted}:{listed}\n"
        "Run the step again later; it resumes from what was received. Or get the file elsewhere and put it there, or "
        f"into your own folder that `archives` in params/config.yaml names.{replaced}"
    )
