"""A training through a real Slurm, by the shipped profile: cancelled, it goes on, and the results equal one machine's results.

The node is a slurmd of this machine. A job has a GPU that Slurm only counts; there is none to compute on. Slurm has no accounting here.
"""

import os
import shutil
import signal

import pytest
from contents import content, differing
from dag import RUNS
from processes import at_work, wait_until
from slurm_cluster import MISSING, slurm_cluster

pytest.importorskip(
    "snakemake_executor_plugin_slurm", reason="needs Slurm's plugin of Snakemake: uv sync --extra slurm"
)
pytestmark = [
    pytest.mark.workflow,
    pytest.mark.whole,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        bool(MISSING),
        reason=f"needs {', '.join(MISSING)}: apt-get install slurmctld slurmd slurm-client munge",
    ),
]
RUN = RUNS[0]
LOG = f"results/tiny/logs/paper/train/{RUN}/seed-0.log"
# Slurm is asked for the first time after a second in place of 40; a training writes a checkpoint after each step.
COMMAND = ["snakemake", "--profile", "profiles/slurm", "--slurm-init-seconds-before-status-checks", "1"]
COMMAND += ["--seconds-between-status-checks", "2"]
COMMAND += ["reproduce_tables", "--config", "resources={checkpoint_seconds: 0}"]


def test_a_cancelled_training_is_told_and_the_same_command_goes_on_to_the_results_of_one_machine(
    reproduced, tmp_path
):
    project = reproduced.copy(tmp_path.resolve() / "vsepp")
    project.call("git", "reset", "--quiet", "HEAD~1")  # a manifest names the commit
    expected = content(project)
    for folder in (project.folder / "results/tiny/paper").glob(f"*/{RUN}"):
        shutil.rmtree(folder)
    with slurm_cluster(tmp_path / "cluster") as cluster:
        snakemake = project.start(*COMMAND, **cluster.environment)
        try:
            job = cancel_training(project, cluster, snakemake)
            said, _ = snakemake.communicate()
        finally:
            if snakemake.poll() is None:
                os.killpg(snakemake.pid, signal.SIGKILL)
        assert snakemake.returncode == 1
        assert f"SLURM-job '{job}' failed, SLURM status is: 'CANCELLED'" in said
        assert LOG in said and "vsepp: error: stopped; what is finished is kept" in said
        project.call(*COMMAND, **cluster.environment)
        jobs = cluster.jobs()
    assert f"{RUN}: resuming after epoch " in (project.folder / LOG).read_text()
    assert differing(content(project), expected) == []
    assert [(found.rule, found.state, found.has_gpu) for found in jobs] == [
        ("train", "CANCELLED", True),
        ("train", "COMPLETED", True),
        ("evaluate", "COMPLETED", False),
        ("report", "COMPLETED", False),
    ]


def cancel_training(project, cluster, snakemake):
    """Cancel the job that trains, once it has a checkpoint; its number."""
    wait_until(lambda: list((project.folder / "results").rglob("checkpoint.pt")), snakemake, seconds=120)
    training = [pid for pid, words in at_work(project.folder).items() if f"{RUN}/seed-0" in words]
    for pid in training:
        os.kill(pid, signal.SIGSTOP)  # it is not to end before
    (job,) = cluster.queued()
    cluster.said("scancel", job)
    for pid in training:
        os.kill(pid, signal.SIGCONT)
    return job
