# The plan that all rules look up, and the only functions of the workflow: what a job makes, reads and computes stands in
# the plan's table (`vsepp.config`); here is what only Snakemake needs.

import atexit
import fcntl
import os
import re
import sys
import time
from logging import StreamHandler
from pathlib import Path
from shlex import join, quote

from snakemake.exceptions import WorkflowError
from snakemake.scheduling.job_scheduler import JobScheduler
from snakemake.settings.enums import Quietness

from vsepp.config import make_plan
from vsepp.config.plan import DOWNLOADS
from vsepp.errors import VseppError
from vsepp.provenance.acceptance import (
    made_by_other_code,
    other_code_text,
    standing_code,
)
from vsepp.provenance.manifest import require_intact
from vsepp.provenance.publish import RULE_SHELL, date_now, withdraw
from vsepp.provenance.space import refused_by_system
from vsepp.reporting.typeset import TEX_WANTED, has_tex
from vsepp.runtime.devices import visible_gpus
from vsepp.runtime.terminal import (
    Expected,
    Terminal,
    failure_text,
    is_chatter,
    look_once,
    reworded,
    seconds_taken,
)
from vsepp.spec import to_json
from vsepp.steps import STEPS

# A target of a paper that the default settings leave out. Jobs that a cluster runs are told of it, too.
if "compare_objectives" in sys.argv and "papers" not in config:
    config["papers"] = ["objectives"]
    SETTINGS = workflow.config_settings
    SETTINGS.config_args = [*(SETTINGS.config_args or []), "papers=[objectives]"]

# Relative, so that a project that was moved has nothing to do again.
PROJECT = Path(os.path.relpath(workflow.basedir))
TEMPLATES = PROJECT / "reports" / "templates"

try:
    PLAN = make_plan(PROJECT / "params", config)
except VseppError as error:
    raise WorkflowError(str(error)) from None

if AHEAD := date_now(
    [TEMPLATES, *(made.folder for made in PLAN.table.values())],
    [
        Path(path)
        for made in PLAN.table.values()
        for path in (*made.inputs.values(), *made.raw.values())
    ],
):
    logger.warning(
        f"{AHEAD} files were dated ahead of this machine's clock; they are dated now, in their order"
    )

for made in PLAN.of_kind("report").values():
    if missing := withdraw(made.folder):
        logger.warning(
            f"{made.folder} is not whole any more, {', '.join(missing)} is gone"
        )

if OTHERS := made_by_other_code(PLAN.table.values()):
    logger.warning(other_code_text(OTHERS))

# A step whose shell was killed lives on; by this variable it knows that nobody waits for it any more.
shell.prefix(f"set -euo pipefail; export {RULE_SHELL}=$$; ")

RESULTS = str(PLAN.results)
VARIANT = str(PLAN.variant_results)
REPORTS = str(PLAN.reports)
LOGS = f"{RESULTS}/logs"
BENCHMARKS = f"{RESULTS}/benchmarks"
RESOURCES = PLAN.parameters.preset.resources
MEMORY = RESOURCES.memory_mb
THREADS = RESOURCES.threads
GPUS = len(visible_gpus())
STARTED = time.time()

# Every call of Snakemake in this folder holds this file; the system lets go of it however the call ends.
try:
    os.makedirs(".snakemake", exist_ok=True)
    PRESENCE = open(".snakemake/at-work", "w")
except OSError as error:
    raise WorkflowError(refused_by_system(error, Path(".snakemake"))) from None
fcntl.flock(PRESENCE, fcntl.LOCK_SH)

# `gpu` is whole GPUs, which a cluster's scheduler gives to a job. On this machine GPUs are counted in parts: a job
# that shares a GPU takes one, any other all of it. No more at once than there are, unless the command line says so.
PARTS = RESOURCES.runs_per_gpu
if GPUS:
    workflow.global_resources.setdefault("gpu_part", GPUS * PARTS)

JobScheduler._schedule_reevalutation = look_once


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
    return {role: [str(file) for file in files] for role, files in found.items()}


def spec(wildcards):
    """The spec of what a job makes, as the JSON that its step reads."""
    return to_json(artefact(wildcards).spec)


def code(wildcards):
    """Digest of the code that a job computes with: an edit of it makes the job run again, unless its result was accepted."""
    return standing_code(artefact(wildcards))


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
    """All cores of this machine; on a cluster, where Snakemake is told of none, as many as any other job."""
    return workflow.resource_settings.cores or THREADS


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


def typeset_reports():
    """The PDF of each report, where this machine has a TeX engine."""
    reports = PLAN.of_kind("report").values() if has_tex() else ()
    return [f"{made.folder}/paper.pdf" for made in reports]


def ask_for_files():
    """Say at once, and not in the first hour, which files nobody but the user can get."""
    for file in PLAN.downloads.values():
        if not file.spec.mirrors and not file.path.exists():
            logger.warning(f"{file.spec.file} is not there. {file.spec.instructions}")


def follow():
    """Show from now on how far jobs are, what they warn of, and about how long the rest takes."""
    global TERMINAL
    expected = {
        job.jobid: Expected(job.rule.name, seconds_taken(Path(job.benchmark)))
        for job in workflow.dag.needrun_jobs()
        if job.benchmark
    }
    TERMINAL = Terminal(say, expected)
    for handler in logger.handlers:
        if isinstance(handler, StreamHandler):  # not a plugin's
            handler.addFilter(lambda record: not is_chatter(record))
    # Before the others, so that the last line of a job stands above the one that says that it is finished.
    logger.handlers.insert(0, TERMINAL)


def is_alone():
    """Whether no other call of Snakemake is at work in this folder."""
    try:
        fcntl.flock(PRESENCE, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        fcntl.flock(PRESENCE, fcntl.LOCK_SH)
    return True


def reword(record):
    """Change what Snakemake logs where it says neither what stops it nor how to go on."""
    if record.levelname == "ERROR" and isinstance(record.msg, str):
        record.msg = reworded(record.msg, is_alone())
    return True


def say(text):
    """Show a line, unless the command line asks to be quiet about progress."""
    logger.info(text, extra={"quietness": Quietness.PROGRESS})


def print_last(text):
    """Print something below all that Snakemake still says."""
    atexit.register(print, f"\n{text}", flush=True)


def headlines():
    """What the reports that were made now say first, and where their tables are."""
    found = [made.folder / "headline.txt" for made in PLAN.of_kind("report").values()]
    # Not those of earlier reports, after models were trained and nothing more was asked for.
    return "\n\n".join(
        path.read_text(encoding="utf-8").strip()
        for path in found
        if path.is_file() and path.stat().st_mtime >= STARTED
    )


def name_edited():
    """Print which reports are not as their step wrote them, and which are of an earlier run."""
    for made in PLAN.of_kind("report").values():
        page, manifest = made.targets
        if page.is_file() and not manifest.is_file():
            print(
                f"\n{page} is of an earlier run: the present report is not finished",
                flush=True,
            )
        elif page.is_file():
            try:
                require_intact(made.folder)
            except VseppError as error:
                print(f"\n{error}", flush=True)


def announce():
    """End with the headlines, once there are any."""
    if text := headlines():
        print_last(text if has_tex() else f"{text}\n\n{TEX_WANTED}")


def explain():
    """End with the jobs that failed, their logs, and how to go on."""
    command = join([Path(sys.argv[0]).name, *sys.argv[1:]])
    print_last(failure_text(TERMINAL.failed, command))


logger.addFilter(reword)
atexit.register(name_edited)  # also where there was nothing to be done
