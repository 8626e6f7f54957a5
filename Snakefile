# The whole reproduction, from raw files to tables: snakemake --cores all reproduce_tables
# The rules stand in data-flow order; what they compute is decided by params/ and --config alone.

from snakemake.utils import min_version

from vsepp import __version__

min_version("9.27")


# Made of the Dockerfile, whose first lines say how; none was published. Only `--sdm apptainer` asks for it, and the linter.
container: f"vsepp-{__version__}.sif"


include: "workflow/rules/common.smk"
include: "workflow/rules/corpus.smk"
include: "workflow/rules/features.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/collect.smk"


rule all:
    default_target: True
    input:
        rules.reproduce_tables.input,
    message:
        "Tables and figures are in {input[0]}"


onstart:
    # On this machine cores are the limit. With a limit of jobs a second, too, Snakemake looks at all ready jobs again and again, for
    # each job that ended, and ends a second after its last job.
    if workflow.local_exec:
        workflow.scheduler.job_rate_limiter = None


onsuccess:
    announce()
