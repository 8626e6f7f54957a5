# The plan that all rules look up, and the only functions of the workflow: what a job makes, reads and computes stands in
# the plan's table (`vsepp.pipeline`); here is what only Snakemake needs.

import os
import re
import time
from pathlib import Path
from shlex import quote

from snakemake.exceptions import WorkflowError

from vsepp.pipeline.planner import make_plan
from vsepp.pipeline.files import with_types
from vsepp.pipeline.plan import DOWNLOADS
from vsepp.base.errors import VseppError, printable
from vsepp.base.publish import RULE_SHELL
from vsepp.base.devices import visible_gpus
from vsepp.base.spec import to_json
from vsepp.pipeline.steps import STEPS

# Without bytecode on the disk each job would compile torch anew: a start of it takes 10 s in place of 4.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Relative, so that a project that was moved has nothing to do again.
PROJECT = Path(os.path.relpath(workflow.basedir))
TEMPLATES = PROJECT / "reports" / "templates"

try:
    os.makedirs(".snakemake", exist_ok=True)
except OSError as error:
    raise WorkflowError(f"This folder cannot be written to: {error}") from None

try:
    PLAN = make_plan(PROJECT / "params", with_types(config))
except VseppError as error:
    raise WorkflowError(printable(str(error))) from None

# A step whose shell was killed lives on; by this variable it knows that nobody waits for it any more.
shell.prefix(f"set -euo pipefail; export {RULE_SHELL}=$$; ")

RESULTS = str(PLAN.results)
VARIANT = str(PLAN.variant_results)
REPORTS = str(PLAN.reports)
LOGS = f"{RESULTS}/logs"
RESOURCES = PLAN.parameters.preset.resources
MEMORY = RESOURCES.memory_mb
THREADS = RESOURCES.threads
GPUS = len(visible_gpus())
STARTED = time.time()

# On this machine GPUs are counted in parts: a job that shares a GPU takes one, any other all of it. No more at once than
# there are, unless the command line says so. Whole GPUs of a cluster are asked for by its profile, whatever this machine has.
PARTS = RESOURCES.runs_per_gpu
if GPUS:
    workflow.global_resources.setdefault("gpu_part", GPUS * PARTS)


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


def inputs(wildcards):
    """Role → the files that a job reads of other artefacts, and its raw files."""
    made = artefact(wildcards)
    found = {}
    for role, path in made.inputs.items():
        owner = PLAN.owner(path)
        found[role] = owner.targets if owner and owner.folder == path else [path]
    folders = [str(path) for path in made.inputs.values()]
    found["raw"] = sorted(
        {
            str(path)
            for path in made.raw.values()
            if not any(Path(path).is_relative_to(folder) for folder in folders)
        }
    )
    return {role: [str(path) for path in paths] for role, paths in found.items()}


def spec(wildcards):
    """The spec of what a job makes, as the JSON that its step reads."""
    return to_json(artefact(wildcards).spec)


def code(wildcards):
    """Digest of the code that a job computes with: an edit of it makes the job run again."""
    return artefact(wildcards).code


def given(wildcards):
    """Command-line options that hand a job its inputs: `--tokens results/…/tokens/… --raw images=…`."""
    made = artefact(wildcards)
    options = [
        f"--{role.replace('_', '-')} {quote(str(path))}"
        for role, path in made.inputs.items()
    ]
    if made.raw:
        options += [
            "--raw",
            *(quote(f"{role}={path}") for role, path in made.raw.items()),
        ]
    return " ".join(options)


def folder(wildcards, output):
    """Where a job publishes."""
    return artefact(wildcards).folder


def temp_directory(path):
    """A folder that is deleted once its last reader is done."""
    return temp(directory(path))


def store_threads(wildcards):
    """All cores of this machine; on a cluster, as many as any other job: a node has more than it gives to the job."""
    cores = None if workflow.remote_exec else workflow.resource_settings.cores
    return cores or THREADS


def gpu_share(wildcards):
    """Jobs like this one that share a GPU: those of models that read features, in which no encoder runs."""
    roles = artefact(wildcards).inputs
    return PARTS if "features" in roles and "train_store" not in roles else 1


def gpu_parts(wildcards):
    """Parts of a GPU that a training or an evaluation takes."""
    return PARTS // gpu_share(wildcards) if GPUS else 0


def model_threads(wildcards):
    """Cores of a training or an evaluation; those that share a GPU share the cores of one job, too."""
    return max(1, THREADS // gpu_share(wildcards)) if GPUS else THREADS


def of_phase(phase):
    """What a phase makes and DVC keeps."""
    return [
        str(target)
        for made in PLAN.table.values()
        if made.phase == phase and made.versioned
        for target in made.targets
    ]


def parts_of_reports():
    """The tables, figures and other files of each report."""
    reports = PLAN.of_kind("report").values()
    return [f"{made.folder}/{file}" for made in reports for file in made.spec.files]


def ask_for_files():
    """Say at once, and not in the first hour, which files nobody but the user can get."""
    for file in PLAN.downloads.values():
        if not file.spec.mirrors and not file.path.exists():
            logger.warning(f"{file.spec.file} is not there. {file.spec.instructions}")


def announce():
    """End with what the reports that were made now say first, and where their tables are."""
    paths = [made.folder / "headline.txt" for made in PLAN.of_kind("report").values()]
    # Not those of earlier reports, after models were trained and nothing more was asked for.
    headlines = [
        path.read_text(encoding="utf-8").strip()
        for path in paths
        if path.is_file() and path.stat().st_mtime >= STARTED
    ]
    for headline in headlines:
        logger.info(f"\n{headline}")
