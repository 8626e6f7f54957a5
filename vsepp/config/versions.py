"""Versions of results: fetch those of the checked-out commit with DVC, verify them, declare them done; list the models here."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from vsepp.config.plan import Plan
from vsepp.errors import VseppError
from vsepp.provenance.artefacts import PHASES
from vsepp.provenance.known import KnownDigests
from vsepp.provenance.manifest import MANIFEST, artefact_digest, dirty_parts, read_manifest
from vsepp.provenance.verify import verify_all

if TYPE_CHECKING:
    from dvc.repo import Repo

log = logging.getLogger("vsepp")
SAFE_CACHE_TYPES = ("reflink", "copy")
LOCK = Path("dvc.lock")
_TARGETS = tuple(f"all_{phase}" for phase in PHASES)
_DVC_LOGS = ("dvc", "dvc_data", "dvc_objects")
_SNAKEMAKE_LOCKS = Path(".snakemake") / "locks"


def sync(plan: Plan, *, remote: str | None = None, force: bool = False, jobs: int | None = None) -> int:
    """Fetch the results of the checked-out commit, verify them, and tell Snakemake that they are done.

    Nothing is declared done unless everything verifies.

    Parameters
    ----------
    plan
        What the commit's parameters make.
    remote
        DVC remote to fetch from, instead of the default one.
    force
        Overwrite results here that no version holds, such as those of an unfinished run.
    jobs
        Files fetched at a time.

    Returns
    -------
    int
        How many artefacts were verified.

    Raises
    ------
    VseppError
        If the commit has no version of these results, nothing can be fetched, or what was fetched does not verify.
    """
    require_versionable(plan)
    _require_version(str(plan.reports))
    with _alone() as repo:
        _fetch(repo, remote, force, jobs)
        verified, mismatches = verify_all(plan.table.values(), KnownDigests())
        if mismatches:
            print(*mismatches, sep="\n")
            raise VseppError(
                f"{len(mismatches)} artefacts are not what preset {plan.preset}, fidelity {plan.variant} of this commit "
                "would make (see above), so nothing was declared done. Was dvc.lock committed after `dvc repro` with these "
                "parameters and this code? If so, files here were changed; overwrite them with force"
            )
        _touch()
    return verified


def require_versionable(plan: Plan) -> None:
    """Refuse a variant whose folder dvc.yaml does not name, and a cache that spoils results.

    Raises
    ------
    VseppError
        Naming the key that must go.
    """
    if plan.variant != plan.parameters.settings.fidelity:
        raise VseppError(
            f"params/config.yaml: label is {plan.variant!r}, but dvc.yaml versions results/<preset>/<fidelity>: set label to "
            "null, or make this variant with Snakemake alone"
        )
    require_copies(Path(".dvc"))


def require_copies(folder: Path) -> None:
    """Refuse a DVC cache of hard or symbolic links.

    Before a phase runs, DVC replaces such links by copies with new times, and Snakemake then takes stale results for fresh.

    Parameters
    ----------
    folder
        `.dvc`; where it is missing, DVC is not used.

    Raises
    ------
    VseppError
        Naming the file that sets it and the command to change it.
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
            f"gives {links[0]}s new times, after which Snakemake keeps stale results. Change it: "
            f"dvc config --{option} cache.type reflink,copy && dvc checkout --relink"
        )


def _require_version(wanted: str) -> None:
    """Refuse a commit whose dvc.lock holds no such reports, before anything here is changed."""
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
        If another command of DVC or Snakemake is running in this folder.
    """
    from dvc.exceptions import DvcException, NotDvcRepoError
    from dvc.lock import LockError
    from dvc.repo import Repo, lock_repo

    if any(_SNAKEMAKE_LOCKS.glob("*.lock")):
        raise VseppError(
            f"{_SNAKEMAKE_LOCKS}: Snakemake is running in this folder, or was killed. Wait for it, or if none is running: "
            "snakemake --unlock"
        )
    try:
        repo = Repo()
    except NotDvcRepoError as error:
        raise VseppError(
            f"{Path.cwd()}: not a DVC repository; run this in a git clone of the project"
        ) from error
    except DvcException as error:
        raise VseppError(f".dvc/config: {error}") from error
    with repo, ExitStack() as held:
        try:
            held.enter_context(lock_repo(repo))
        except LockError as error:
            raise VseppError(
                "another command of DVC is running in this folder; wait for it, then: vsepp sync"
            ) from error
        yield repo


def _fetch(repo: Repo, wished: str | None, force: bool, jobs: int | None) -> None:
    """From the remote, or from the local cache where there is none."""
    remote = wished or repo.config["core"].get("remote")
    # By name: without names, DVC also deletes what it once checked out for another preset.
    stages = list(PHASES)
    # DVC's own log speaks for itself: through ours, all of it would come twice, and with tracebacks.
    for name in _DVC_LOGS:
        logging.getLogger(name).propagate = False
    logging.getLogger("asyncssh").setLevel(logging.WARNING)  # each connection otherwise
    try:
        if remote:
            repo.pull(stages, jobs=jobs, remote=wished, force=force)
        else:
            log.info("no default remote (dvc remote add --default): using the local cache")
            repo.checkout(stages, force=force)
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
                f"remote {remote}: does not answer, or lacks a part of {folders}. Is its address right (dvc remote list), and were "
                "these results pushed (dvc push)?"
            )
        return (
            f"no remote is set, and the local cache lacks a part of {folders}; name a remote: dvc remote add "
            "--default NAME URL, see docs/remotes.md"
        )
    if "--force" in text:
        files = "\n".join(f"  {line}" for line in text.splitlines()[1:])
        return (
            f"there are files here that no version holds:\n{files}\nMove those that you want to keep, then overwrite the "
            "rest with force"
        )
    if isinstance(error, DownloadError):
        return f"remote {remote}: {text}, see above; check its address (dvc remote list), the network and your access"
    if isinstance(error, ImportError):
        return (
            f"remote {remote}: {text}; install the plugin: pip install dvc-s3 or dvc-ssh, see docs/remotes.md"
        )
    return f"{f'remote {remote}' if remote else 'local cache'}: {text or type(error).__name__}"


def _touch() -> None:
    """Touch all results in the order of the workflow, so that no input is newer than what was made from it."""
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
            "Snakemake does not take all of them as done; sync again once this is fixed"
        )


def list_models(plan: Plan) -> list[dict[str, Any]]:
    """Models of a plan that exist, one entry per protocol that they were evaluated under.

    Returns
    -------
    list
        `run`, `seed`, `folder` (of a record that of the study), `digest` (first twelve digits of that of the weights), `commit` (with `+` where some
        code or parameters were not committed), `uncommitted` (what of its making that was: `itself`, or roles such as `features`),
        `best_epoch`, `megabytes`, and `protocol`, `folds`, `fold_size` (images), `i2t_r1`, `t2i_r1`, `rsum`, which are
        `None` where the model was not evaluated since it was trained.
    """
    found = []
    for name, model in plan.models.items():
        for seed in model.specs:
            if seed in model.recorded:
                kept = plan.study.read(name, seed)
                folder, weights, manifest, metrics = plan.study.folder, None, kept.trained, kept.metrics
            else:
                folder, evaluation = plan.folders(name, seed)
                weights = folder / "model.safetensors"
                if (
                    not (folder / MANIFEST).is_file() or not weights.is_file()
                ):  # not trained, or not to its end
                    continue
                manifest, metrics = read_manifest(folder), _metrics(evaluation / "metrics.json", folder)
            assert manifest
            entry = {
                "run": name,
                "seed": seed,
                "folder": str(folder),
                "digest": manifest["outputs"]["model.safetensors"][:12],
                "commit": str(manifest["git"]["commit"])[:10] + ("+" if dirty_parts(manifest) else ""),
                "uncommitted": dirty_parts(manifest),
                "best_epoch": manifest["facts"].get("best_epoch"),
                "megabytes": weights.stat().st_size / 1e6 if weights else None,
            }
            found += [{**entry, **scores} for scores in _scores(metrics)]
    return found


def _metrics(file: Path, run: Path) -> dict[str, Any]:
    """Metrics of this very model, not of an earlier training of the same run."""
    if not file.is_file() or read_manifest(file)["inputs"].get("run") != artefact_digest(run):
        return {}
    return json.loads(file.read_text(encoding="utf-8"))


def _scores(metrics: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Recalls under each protocol."""
    if not metrics:
        return [dict.fromkeys(("protocol", "folds", "fold_size", "i2t_r1", "t2i_r1", "rsum"))]
    return [
        {
            "protocol": protocol,
            "folds": values["folds"],
            "fold_size": values["fold_size"],
            "i2t_r1": values["i2t"]["r1"],
            "t2i_r1": values["t2i"]["r1"],
            "rsum": values["rsum"],
        }
        for protocol, values in metrics.items()
    ]
