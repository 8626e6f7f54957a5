"""Whether everything that is there is what the present parameters and code would make."""

from __future__ import annotations

import argparse
import logging
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vsepp.cli.common import add_step
from vsepp.cli.parameters import add_plan_options, plan_of
from vsepp.errors import VseppError
from vsepp.provenance.known import KnownDigests
from vsepp.provenance.verify import Expected, Mismatch, verify

if TYPE_CHECKING:
    from vsepp.config import Plan

log = logging.getLogger("vsepp")
KNOWN = Path("results") / ".state" / "digests.json"
"""Digests of files that have not changed since they were last digested."""
PHASES = ("corpus", "features", "models", "results")
SAFE_CACHE_TYPES = ("reflink", "copy")


def add_steps(steps: Any) -> None:
    """Add `verify`."""
    parser = add_step(
        steps,
        "verify",
        verify_results,
        "hold every artefact against parameters, code, inputs and its own digest",
    )
    parser.add_argument("--phase", choices=PHASES, help="only what one phase of dvc.yaml makes")
    parser.add_argument(
        "--full",
        action="store_true",
        help="read every file again, also those that did not change since the last time",
    )
    add_plan_options(parser)


def verify_results(given: argparse.Namespace) -> None:
    """Verify what the plan has; every mismatch is told before it fails."""
    started = time.monotonic()
    plan = plan_of(given)
    require_versionable(plan, given.phase)
    verified, mismatches, read = verify_plan(plan, given.phase, given.full)
    overrides = given.config + [
        f"{key}={value}" for key in ("preset", "fidelity") if (value := getattr(given, key))
    ]
    config = f" --config {shlex.join(overrides)}" if overrides else ""
    for mismatch in mismatches:
        print(f"{mismatch}{config}")
    seconds = time.monotonic() - started
    what = f"preset {plan.preset}, variant {plan.variant}" + (f", phase {given.phase}" if given.phase else "")
    if mismatches:
        raise VseppError(
            f"{what}: {len(mismatches)} of {verified + len(mismatches)} artefacts do not verify, see above"
        )
    print(f"{what}: {verified} artefacts verified in {seconds:.1f} s, {read / 2**20:,.0f} MiB read")


def verify_plan(plan: Plan, phase: str | None = None, full: bool = False) -> tuple[int, list[Mismatch], int]:
    """Verify a plan's artefacts.

    Parameters
    ----------
    plan
        The plan.
    phase
        One of `PHASES`; `None` is all.
    full
        Whether files that did not change are read again.

    Returns
    -------
    tuple
        How many artefacts are there and verified, what does not verify, and the bytes that were read.
    """
    known = KnownDigests(KNOWN)
    if full:
        known.forget()
    everything = all_expected(plan)
    by_folder = {artefact.folder: artefact for artefact in everything}
    expected = [artefact for artefact in everything if phase in (None, artefact.phase)]
    absent = sum(not artefact.versioned and not artefact.folder.is_dir() for artefact in expected)
    mismatches = [found for artefact in expected if (found := verify(artefact, known, by_folder))]
    known.save()
    return len(expected) - absent - len(mismatches), mismatches, known.read


def all_expected(plan: Plan) -> list[Expected]:
    """Every artefact of a plan, the report at the end."""
    from vsepp.cli.report import report_inputs
    from vsepp.cli.reports import report_spec
    from vsepp.config.artefacts import expected_artefacts
    from vsepp.provenance import code
    from vsepp.spec import to_dict

    spec = report_spec(plan)
    report = Expected(
        plan.report,
        "results",
        plan.report / "index.html",
        to_dict(spec),
        code.report_code(),
        report_inputs(spec),
    )
    return [*expected_artefacts(plan), report]


def require_versionable(plan: Plan, phase: str | None) -> None:
    """Refuse a phase of dvc.yaml for a variant whose folder it does not name, or with a cache that spoils results.

    Raises
    ------
    VseppError
        Naming the key that must go.
    """
    if phase and plan.variant != plan.parameters.settings.fidelity:
        raise VseppError(
            f"params/config.yaml: label is {plan.variant!r}, but dvc.yaml versions results/<preset>/<fidelity>: set label to "
            "null, or leave this variant to Snakemake alone"
        )
    if phase:
        require_copies(Path(".dvc"))


def require_copies(folder: Path) -> None:
    """Refuse a DVC cache of hard or symbolic links.

    DVC replaces such links by copies before a phase runs, with new times, by which Snakemake takes stale results for
    fresh ones.

    Parameters
    ----------
    folder
        `.dvc`; where it is missing, DVC is not used.

    Raises
    ------
    VseppError
        Naming the file that sets it, and the command that mends it.
    """
    if not folder.is_dir():
        return
    from dvc.config import Config

    config = Config(str(folder))
    types = config["cache"].get("type") or []
    if links := [kind for kind in types if kind not in SAFE_CACHE_TYPES]:
        level = next(
            at for at in ("local", "repo", "global", "system") if config.read(at)["cache"].get("type")
        )
        option = {"repo": "project"}.get(level, level)
        raise VseppError(
            f"{config.files[level]}: cache.type is {', '.join(types)}, expected only {' and '.join(SAFE_CACHE_TYPES)}: DVC "
            f"gives {links[0]}s new times, after which Snakemake keeps stale results. Mend it: "
            f"dvc config --{option} cache.type reflink,copy && dvc checkout --relink"
        )
