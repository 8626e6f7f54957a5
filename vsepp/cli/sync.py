"""Results of the checked-out commit: fetched by DVC, verified, and declared done to Snakemake."""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from vsepp.cli.common import add_step
from vsepp.cli.verify import PHASES, require_versionable, verify_plan
from vsepp.errors import VseppError

if TYPE_CHECKING:
    from dvc.repo import Repo

    from vsepp.config import Plan

log = logging.getLogger("vsepp")
LOCK = Path("dvc.lock")
_TARGETS = tuple(f"all_{phase}" for phase in PHASES)
_DVC_LOGS = ("dvc", "dvc_data", "dvc_objects")
_SNAKEMAKE_LOCKS = Path(".snakemake") / "locks"


def add_steps(steps: Any) -> None:
    """Add `sync`."""
    parser = add_step(
        steps,
        "sync",
        sync,
        "get the results of the checked-out commit, verify them, and tell Snakemake that they are done",
    )
    parser.add_argument("--remote", metavar="NAME", help="where to get them, instead of the default remote")
    parser.add_argument(
        "--force",
        action="store_true",
        help="overwrite results here that no version holds, such as an unfinished run",
    )
    parser.add_argument("--jobs", type=int, help="files that are fetched at a time")
    parser.add_argument("--params", type=Path, default=Path("params"), help="folder of the parameters")


def sync(given: argparse.Namespace) -> None:
    """Fetch, verify and touch. Nothing is touched, and so declared done, unless all of it verifies."""
    from vsepp.config import make_plan
    from vsepp.reporting.entry import DEFAULT_VARIANT, write_entry

    plan = make_plan(given.params)
    require_versionable(plan, "results")
    _require_version(plan)
    with _alone() as repo:
        _fetch(repo, given)
        verified, mismatches, _ = verify_plan(plan)
        if mismatches:
            for mismatch in mismatches:
                print(mismatch)
            raise VseppError(
                f"{len(mismatches)} artefacts are not what preset {plan.preset}, fidelity {plan.variant} of this commit "
                "would make, see above, so nothing was declared done. Was dvc.lock committed after `dvc repro` with these "
                "parameters and this code? If so, and files here were changed: vsepp sync --force"
            )
        _touch()
    if plan.variant == DEFAULT_VARIANT:
        write_entry(plan.report)
    print(f"{verified} artefacts fetched and verified; the page is {plan.report}/index.html")


def _require_version(plan: Plan) -> None:
    """Refuse a commit whose dvc.lock holds no results of this plan, before anything here is changed."""
    if not LOCK.is_file():
        raise VseppError(
            f"{LOCK}: missing, so this commit has no version of any results; make one: dvc repro"
        )
    try:
        stages = yaml.safe_load(LOCK.read_text(encoding="utf-8"))["stages"].values()
        kept = {out["path"] for stage in stages for out in stage.get("outs", [])}
    except (yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
        raise VseppError(
            f"{LOCK}: cannot be read ({error}); get it back (git checkout {LOCK}) or make it anew: dvc repro"
        ) from error
    wanted = str(plan.report)
    if wanted not in kept:
        reports = sorted(path for path in kept if path.startswith("reports/")) or ["no finished results"]
        raise VseppError(
            f"{LOCK}: this commit versions {', '.join(reports)}, expected {wanted} by preset and fidelity of "
            "params/config.yaml; check out a commit that has it, change the parameters, or make it: dvc repro"
        )


@contextmanager
def _alone() -> Iterator[Repo]:
    """DVC's repository, under its lock; the body must not start another command of DVC.

    Raises
    ------
    VseppError
        Where another command of DVC or Snakemake is at work in this folder.
    """
    from dvc.exceptions import DvcException, NotDvcRepoError
    from dvc.lock import LockError
    from dvc.repo import Repo, lock_repo

    if any(_SNAKEMAKE_LOCKS.glob("*.lock")):
        raise VseppError(
            f"{_SNAKEMAKE_LOCKS}: Snakemake is at work in this folder, or was killed. Wait for it, or where none runs: "
            "snakemake --unlock"
        )
    try:
        repo = Repo()
    except NotDvcRepoError as error:
        raise VseppError(
            f"{Path.cwd()}: no DVC repository, so there is nothing to get from; run this in a git clone of the project"
        ) from error
    except DvcException as error:
        raise VseppError(f".dvc/config: {error}") from error
    with repo, ExitStack() as held:
        try:
            held.enter_context(lock_repo(repo))
        except LockError as error:
            raise VseppError(
                "another command of DVC is at work in this folder; wait for it, then: vsepp sync"
            ) from error
        yield repo


def _fetch(repo: Repo, given: argparse.Namespace) -> None:
    """From the remote, or from the local cache where there is none."""
    remote = given.remote or repo.config["core"].get("remote")
    # By name: without names, DVC also deletes what it once checked out for another preset.
    stages = list(PHASES)
    try:
        with _short_log():
            if remote:
                repo.pull(stages, jobs=given.jobs, remote=given.remote, force=given.force)
            else:
                log.info("no default remote (dvc remote add --default): taking what the local cache has")
                repo.checkout(stages, force=given.force)
    except Exception as error:  # of DVC, of the plugin for this kind of remote, or of the network
        raise VseppError(f"{_explanation(error, remote)}\nNothing was declared done") from error


def _explanation(error: Exception, remote: str | None) -> str:
    """What went wrong while results were fetched, and what to do."""
    from dvc.exceptions import CheckoutError, DownloadError

    text = str(error).strip().rstrip(".")
    if isinstance(error, CheckoutError):
        folders = ", ".join(sorted(map(str, error.target_infos)))
        if remote:
            return (
                f"remote {remote}: does not answer, or has not all of {folders}. Is its address right (dvc remote list), and did "
                "whoever made these results push them (dvc push)?"
            )
        return (
            f"no remote is set, and the local cache has not all of {folders}; say where results are kept: dvc remote add "
            "--default NAME URL, see docs/remotes.md"
        )
    if "--force" in text:
        files = "\n".join(f"  {line}" for line in text.splitlines()[1:])
        return (
            f"there are files here that no version holds:\n{files}\nMove those that you want to keep, then overwrite the "
            "others: vsepp sync --force"
        )
    if isinstance(error, DownloadError):
        return f"remote {remote}: {text}, see above; check its address (dvc remote list), the network and your access"
    if isinstance(error, ImportError):
        return (
            f"remote {remote}: {text}; install the plugin: pip install dvc-s3 or dvc-ssh, see docs/remotes.md"
        )
    return f"{f'remote {remote}' if remote else 'local cache'}: {text or type(error).__name__}"


@contextmanager
def _short_log() -> Iterator[None]:
    """Let DVC's own log speak for itself: through ours, all of it would come twice, and with tracebacks."""
    before = {name: logging.getLogger(name).propagate for name in _DVC_LOGS}
    level = logging.getLogger("asyncssh").level
    logging.getLogger("asyncssh").setLevel(logging.WARNING)  # each connection otherwise
    for name in before:
        logging.getLogger(name).propagate = False
    try:
        yield
    finally:
        for name, propagated in before.items():
            logging.getLogger(name).propagate = propagated
        logging.getLogger("asyncssh").setLevel(level)


def _touch() -> None:
    """Declare all results done, in the order of the workflow, so that no input is newer than what was made from it."""
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--touch", "--forceall", "--", *_TARGETS]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        print(done.stdout)
        raise VseppError(
            f"snakemake --touch: ended with status {done.returncode}, see above. The results are here and verified, but "
            "Snakemake does not know all of them as done; sync again once this is mended"
        )
