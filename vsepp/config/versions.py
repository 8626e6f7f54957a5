"""Versions of results: fetch the checked-out commit's results with DVC, verify them, declare them done; list the models here."""

from __future__ import annotations

import json
import logging
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from vsepp.config.plan import Plan
from vsepp.errors import VseppError
from vsepp.provenance.artefacts import PHASES
from vsepp.provenance.compatibility import evaluation_of
from vsepp.provenance.digests import DIGESTS, FileCache
from vsepp.provenance.manifest import MANIFEST, read_manifest, uncommitted_steps
from vsepp.provenance.studies import METRICS_FILE
from vsepp.provenance.verify import verify_all
from vsepp.user_files import text_of
from vsepp.user_yaml import yaml_of

log = logging.getLogger("vsepp")
SAFE_CACHE_TYPES = {"reflink", "copy"}
LOCK = Path("dvc.lock")
_TARGETS = tuple(f"all_{phase}" for phase in PHASES)
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
        Overwrite results here that no version holds, such as results of an unfinished run.
    jobs
        Files fetched at a time.

    Returns
    -------
    int
        How many artefacts were verified.

    Raises
    ------
    VseppError
        If the commit has no version of these results, nothing can be fetched, or a fetched result does not verify.
    """
    require_versionable(plan)
    _require_version(str(plan.reports))
    _fetch(remote, force, jobs)
    verified, mismatches, _ = verify_all(plan.table.values(), FileCache(DIGESTS))
    if mismatches:
        print(*mismatches, sep="\n")
        raise VseppError(
            f"{len(mismatches)} artefacts are not what preset {plan.preset}, fidelity {plan.variant} of this commit "
            "would make (see above), so nothing was declared done. Was dvc.lock committed after `dvc repro` with these "
            "parameters and this code? If so, files here were changed; overwrite them with force"
        )
    # In the order of the workflow, so that no input is newer than what was made from it.
    touch = ["snakemake", "--cores", "1", "--touch", "--forceall", "--", *_TARGETS]
    _call(
        touch,
        "the results are here and verified, but Snakemake does not take all of them as done",
        quiet=True,
    )
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
    require_copies()


def require_copies() -> None:
    """Refuse a DVC cache of hard or symbolic links.

    Before a phase runs, DVC replaces such links by copies with new times, and Snakemake then takes stale results for fresh.

    Raises
    ------
    VseppError
        Naming the file that sets it and the command to change it.
    """
    if not Path(".dvc").is_dir():
        return
    file, _, value = _dvc_setting("--show-origin", "cache.type").partition("\t")
    types = re.findall(r"\w+", value)  # DVC prints `reflink,copy` or a list of Python
    if links := [kind for kind in types if kind not in SAFE_CACHE_TYPES]:
        raise VseppError(
            f"{file}: cache.type is {', '.join(types)}, expected only reflink and copy: DVC gives {links[0]}s new times, after which "
            "Snakemake keeps stale results. Change it: dvc config --local cache.type reflink,copy && dvc checkout --relink"
        )


def _dvc_setting(*arguments: str) -> str:
    """Output of `dvc config` for a setting; empty where it is not set."""
    command = [sys.executable, "-m", "dvc", "config", *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout.strip()


def _require_version(wanted: str) -> None:
    """Refuse a commit whose dvc.lock holds no such reports, before anything here is changed."""
    if not LOCK.is_file():
        raise VseppError(f"{LOCK}: missing, so this commit has no version of results; make one: dvc repro")
    try:
        stages = yaml_of(text_of(LOCK, "versions of results"), str(LOCK))["stages"].values()
        kept = {out["path"] for stage in stages for out in stage.get("outs", [])}
    except (AttributeError, KeyError, TypeError, VseppError) as error:
        raise VseppError(
            f"{LOCK}: cannot be read ({error}); get it back (git checkout {LOCK}) or make it anew: dvc repro"
        ) from error
    if wanted not in kept:
        reports = sorted(path for path in kept if path.startswith("reports/")) or ["no finished results"]
        raise VseppError(
            f"{LOCK}: this commit versions {', '.join(reports)}, expected {wanted} by preset and fidelity of "
            "params/config.yaml; check out a commit that has it, change the parameters, or make it: dvc repro"
        )


def _fetch(remote: str | None, force: bool, jobs: int | None) -> None:
    """Get results from the remote, or from the local cache where there is none.

    Raises
    ------
    VseppError
        While Snakemake works in this folder, and where DVC fails.
    """
    if any(_SNAKEMAKE_LOCKS.glob("*.lock")):
        raise VseppError(
            f"{_SNAKEMAKE_LOCKS}: Snakemake is running in this folder, or was killed. Wait for it, or if none is running: "
            "snakemake --unlock"
        )
    command = ["dvc", "pull"]
    if remote:
        command += ["--remote", remote]
    elif not _dvc_setting("core.remote"):
        log.info("no default remote (dvc remote add --default NAME URL): using the local cache")
        command = ["dvc", "checkout"]
    if jobs and command[1] == "pull":
        command += ["--jobs", str(jobs)]
    if force:
        command += ["--force"]
    # By name: without names, DVC also deletes results that it once checked out for another preset.
    _call([*command, *PHASES], "nothing was declared done")


def _call(command: list[str], so: str, *, quiet: bool = False) -> None:
    """Run a command of this environment, which reports its own errors; if `quiet`, its output is shown only when it fails."""
    done = subprocess.run(
        [sys.executable, "-m", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if quiet else None,
        stderr=subprocess.STDOUT if quiet else None,
        text=True,
        check=False,
    )
    if done.returncode:
        print(done.stdout or "", end="")
        raise VseppError(f"{shlex.join(command)}: failed with status {done.returncode}, see above; {so}")


def list_models(plan: Plan) -> list[dict[str, Any]]:
    """Models of a plan that exist, one entry per protocol that they were evaluated under.

    Returns
    -------
    list
        `run`, `seed`, `folder` (of a record, the study's folder), `digest` (first twelve digits of the digest of the weights),
        `commit` (with `+` where some code or parameters were not committed), `uncommitted` (the steps behind the model whose code
        or parameters were not committed), `best_epoch`, `megabytes`, and `protocol`, `folds`, `fold_size` (images), `i2t_r1`,
        `t2i_r1`, `rsum`, which are `None` where the model was not evaluated since it was trained.
    """
    entries = []
    for name, model in plan.models.items():
        for seed in model.specs:
            if seed in model.recorded:
                kept = plan.study.read(name, seed)
                folder, megabytes, manifest, metrics = plan.study.folder, None, kept.trained, kept.metrics
            else:
                folder, _ = plan.folders(name, seed)
                weights = folder / "model.safetensors"
                if not (folder / MANIFEST).is_file() or not weights.is_file():  # not trained to its end
                    continue
                manifest, megabytes = read_manifest(folder), weights.stat().st_size / 1e6
                evaluation = evaluation_of(folder)
                metrics = json.loads((evaluation / METRICS_FILE).read_text()) if evaluation else {}
            assert manifest
            uncommitted = uncommitted_steps(manifest)
            entry = {
                "run": name,
                "seed": seed,
                "folder": str(folder),
                "digest": manifest["outputs"]["model.safetensors"][:12],
                "commit": str(manifest["git"]["commit"])[:10] + ("+" if uncommitted else ""),
                "uncommitted": uncommitted,
                "best_epoch": manifest["facts"].get("best_epoch"),
                "megabytes": megabytes,
            }
            for protocol, values in metrics.items() or [(None, {})]:
                scores = {
                    "protocol": protocol,
                    "folds": values.get("folds"),
                    "fold_size": values.get("fold_size"),
                    "i2t_r1": values.get("i2t", {}).get("r1"),
                    "t2i_r1": values.get("t2i", {}).get("r1"),
                    "rsum": values.get("rsum"),
                }
                entries.append({**entry, **scores})
    return entries
