# The plan that all rules look up (`vsepp.pipeline`), and the only functions of the workflow: what only Snakemake needs.

import os
import re
import sys
import time
from pathlib import Path

from vsepp.base.devices import visible_gpus
from vsepp.base.environment import environment
from vsepp.base.errors import VseppError, fixes, printable, pull
from vsepp.base.publish import RULE_SHELL
from vsepp.pipeline.files import with_types
from vsepp.pipeline.plan import DOWNLOADS
from vsepp.pipeline.planner import make_plan
from vsepp.pipeline.steps import STEPS
from vsepp.pipeline.table import read_table

# Without bytecode on the disk each job would compile torch anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A program that was called by its full path finds the others.
os.environ.update(environment())

# Relative, so that a project that was moved has nothing to do again.
PROJECT = Path(os.path.relpath(Path(str(workflow.current_basedir)).parents[1]))

# A job on another machine reads the plan with which the work began.
WRITTEN = "VSEPP_PLAN"
try:
    if workflow.remote_exec and WRITTEN in os.environ:
        PLAN_FILE = Path(os.environ[WRITTEN])
        PLAN = read_table(PLAN_FILE)
    else:
        PLAN = make_plan(PROJECT / "params", with_types(config))
        if PLAN.was_fetched:
            logger.warning(f"Made elsewhere, unknown to Snakemake.{fixes(pull())}")
        # At once, in a dry run too, and not in the first hour.
        for absent in PLAN.absent():
            logger.warning(absent)
        PLAN_FILE = PLAN.write()
except VseppError as error:
    # Without the lines of this file, which Snakemake would print of an exception.
    print(printable(str(error)), file=sys.stderr)
    sys.exit(1)
os.environ[WRITTEN] = str(PLAN_FILE)


envvars:
    WRITTEN,


# A step whose shell was killed lives on; by this variable it knows that nobody waits for it any more.
shell.prefix(f"set -euo pipefail; export {RULE_SHELL}=$$; ")

LOGS = f"{PLAN.results}/logs"
MEMORY = PLAN.resources.memory_mb
GPUS = len(visible_gpus())
STARTED = time.time()

# On this machine GPUs are counted in parts: a job that shares a GPU takes one, any other all of it. Whole GPUs of a cluster
# are asked for by its profile.
if GPUS:
    workflow.global_resources.setdefault("gpu_part", GPUS * PLAN.resources.runs_per_gpu)
# On a cluster no job takes all cores of its node: it is given as many as any other job.
CORES = None if workflow.remote_exec else workflow.resource_settings.cores


def any_of(names):
    """A wildcard's constraint: one of the plan's names, or nothing at all."""
    return "|".join(sorted(map(re.escape, names))) or "(?!)"


# The wildcard of a rule is the kind of what it makes.
wildcard_constraints:
    **{kind: any_of(PLAN.of_kind(kind)) for kind in STEPS},
    download=any_of(PLAN.downloads),


def artefact(wildcards):
    """What a job makes: a row of the plan's table."""
    ((kind, name),) = wildcards.items()
    return PLAN.table[kind, name]


def digest(wildcards):
    """What a job computes, with what code and from what: another digest makes it run again."""
    return artefact(wildcards).digest


def plan(wildcards, output):
    """The written plan. Of what is derived from the output, Snakemake makes nothing again."""
    return PLAN_FILE


def inputs(wildcards):
    """The files that a job reads of other artefacts, and its raw files."""
    read = artefact(wildcards).inputs.values()
    folders = [other.path for other in read if not other.raw]
    paths = []
    for path, raw in read:
        owner = PLAN.owner(path)
        if raw and any(path.is_relative_to(folder) for folder in folders):
            continue  # of generated scenes, which are one folder
        paths += owner.targets if owner and owner.folder == path else [path]
    return sorted({str(path) for path in paths})


def lost(wildcards):
    """A file that is newer than all others, for a report whose manifest is missing or broken: so it is made again."""
    return PLAN.lost(artefact(wildcards))


def files(kind, names=None):
    """The files of a kind that a rule writes, its manifest the last; or its folder as a whole."""
    folder = STEPS[kind].folder.format(
        preset=PLAN.preset, variant=PLAN.variant, name=f"{{{kind}}}"
    )
    names = STEPS[kind].files(None) if names is None else names
    return (
        [f"{folder}/{name}" for name in (*names, "manifest.json")]
        if names
        else directory(folder)
    )


def threads(wildcards):
    """Cores of a job."""
    return PLAN.threads(artefact(wildcards), CORES or PLAN.resources.threads)


def priority(wildcards):
    """Of jobs that wait for a core, the job with the larger number goes first."""
    return PLAN.priority(artefact(wildcards))


def gpu_parts(wildcards):
    """Parts of a GPU that a job takes."""
    return PLAN.gpu_parts(artefact(wildcards)) if GPUS else 0


def of_phase(phase, versioned=True):
    """What a phase makes and DVC keeps, or does not."""
    rows = (made for made in PLAN.table.values() if made.phase == phase)
    return [
        str(path)
        for made in rows
        if made.versioned is versioned
        for path in made.targets
    ]


def announce():
    """End with what the reports that were made now say first, and where their tables are."""
    for made in PLAN.of_kind("report").values():
        path = made.folder / "headline.txt"
        # Not those of earlier reports, after models were trained and nothing more was asked for.
        if path.is_file() and path.stat().st_mtime >= STARTED:
            logger.info(f"\n{path.read_text(encoding='utf-8').strip()}")
