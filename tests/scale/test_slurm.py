"""The tiny project through a real Slurm, by the shipped profile: the results equal one machine's results.

A node is a slurmd of this machine. Slurm's accounting says which jobs have a GPU; there is none to compute on.
"""

import os
import re
import shutil
import signal
from contextlib import contextmanager

import pytest
from contents import MADE, content, differing
from dag import RUNS, make_tiny_project
from plans import edit
from processes import at_work, wait_until
from slurm_cluster import MISSING, NODES, slurm_cluster

pytest.importorskip(
    "snakemake_executor_plugin_slurm", reason="needs Slurm's plugin of Snakemake: uv run --extra slurm pytest"
)
PACKAGES = "slurmctld slurmd slurmdbd slurm-client munge mariadb-server"
pytestmark = [
    pytest.mark.scale,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}: apt-get install {PACKAGES}"),
]
PLAIN, _, CROPS, _ = RUNS
ON_GPUS = {"features", "tape", "train"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with slurm_cluster(tmp_path_factory.mktemp("slurm") / "cluster") as started:
        yield started


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The project as one machine makes it; a training writes a checkpoint after each step, to be caught there."""
    project = make_tiny_project(tmp_path_factory.mktemp("alone").resolve() / "vsepp")
    edit(project.folder / "params/presets/tiny.yaml", {"resources": {"checkpoint_seconds": 0}})
    project.commit("A checkpoint after each step")
    project.run("reproduce_tables")
    return project


@pytest.fixture
def project(alone, tmp_path):
    """A copy in which a test has something made again."""
    return alone.copy(tmp_path.resolve() / "vsepp")


def through_slurm(*arguments):
    """The command of a user, but Slurm is asked for the first time after a second in place of 40."""
    quick = ["--slurm-init-seconds-before-status-checks", "1"]
    return ["snakemake", "--profile", "profiles/slurm", *quick, *arguments]


@contextmanager
def started(project, cluster, *arguments):
    """The command at work; where a test fails meanwhile, it is ended."""
    snakemake = project.start(*through_slurm(*arguments), **cluster.environment)
    try:
        yield snakemake
    finally:
        if snakemake.poll() is None:
            os.killpg(snakemake.pid, signal.SIGKILL)
            snakemake.wait()


def rule_of(job):
    """Rule of a job, which the plugin writes into its comment."""
    return re.match(r"rule_(\w+?)(_wildcards_|$)", job["Comment"])[1]


def has_gpu(job):
    return "gres/gpu=1" in job["AllocTRES"].split(",")


def forget(project, *runs, kind="runs"):
    """Delete what was made of some runs; the files to ask for."""
    folders = [project.folder / f"results/tiny/paper/{kind}/{run}/seed-0" for run in runs]
    for folder in folders:
        shutil.rmtree(folder)
    return [(folder / "manifest.json").relative_to(project.folder) for folder in folders]


def test_the_whole_dag_on_two_nodes_ends_with_the_results_of_one_machine(alone, cluster, tmp_path):
    project = alone.copy(tmp_path.resolve() / "vsepp")
    for folder in (*MADE, ".snakemake"):
        shutil.rmtree(project.folder / folder)
    before = cluster.last()
    said = project.said(*through_slurm("reproduce_tables"), **cluster.environment)
    assert "open    reports/tiny/index.html" in said
    assert differing(content(project), content(alone)) == []
    jobs = cluster.jobs(before, "State", "NodeList", "AllocTRES")
    assert {job["State"] for job in jobs} == {"COMPLETED"}
    assert {job["NodeList"] for job in jobs} == set(NODES)
    assert {rule_of(job) for job in jobs} > ON_GPUS
    assert {rule_of(job) for job in jobs if has_gpu(job)} == ON_GPUS
    assert {rule_of(job) for job in jobs if "gpu" in job["AllocTRES"]} == ON_GPUS
    assert all(has_gpu(job) for job in jobs if rule_of(job) in ON_GPUS)


def caught(project, cluster, run):
    """Number of the job that trains a run, which hangs from one of its first checkpoints on."""
    output = str(project.model(run).relative_to(project.folder))

    def training():
        return [pid for pid, command in at_work(project.folder).items() if output in command]

    (pid,) = wait_until(training, seconds=120)
    wait_until(lambda: list((project.folder / "results").rglob("checkpoint.pt")))
    os.kill(pid, signal.SIGSTOP)
    assert not (project.model(run) / "model.safetensors").exists(), "it was quicker"
    (job,) = cluster.queued()
    return job


def log_of(project, run):
    return (project.folder / f"results/tiny/logs/paper/train/{run}/seed-0.log").read_text()


def test_a_cancelled_training_is_told_and_the_same_command_goes_on_from_its_checkpoint(
    alone, project, cluster
):
    targets = forget(project, CROPS)
    with started(project, cluster, *targets) as snakemake:
        job = caught(project, cluster, CROPS)
        cluster.said("scancel", job)
        said, _ = snakemake.communicate()
    assert snakemake.returncode == 1
    assert f"SLURM-job '{job}' failed, SLURM status is: 'CANCELLED'" in said
    assert f"results/tiny/logs/paper/train/{CROPS}/seed-0.log" in said
    assert (
        "vsepp: error: stopped; what is finished is kept, and the same command goes on with the rest" in said
    )
    project.call(*through_slurm(*targets), **cluster.environment)
    assert f"{CROPS}: resuming after epoch " in log_of(project, CROPS)
    assert differing(content(project), content(alone)) == []


def test_a_training_that_hangs_until_its_time_is_up_is_tried_again_from_its_checkpoint(
    alone, project, cluster
):
    before, targets = cluster.last(), forget(project, PLAIN)
    minute = ["--retries", "1", "--set-resources", "train:runtime=1", "train:gpu=1", "--"]
    with started(project, cluster, *minute, *targets) as snakemake:
        caught(project, cluster, PLAIN)
        said, _ = snakemake.communicate()
    assert snakemake.returncode == 0, said
    assert "SLURM status is: 'TIMEOUT'" in said
    assert [job["State"] for job in cluster.jobs(before, "State")] == ["TIMEOUT", "COMPLETED"]
    assert f"{PLAIN}: resuming after epoch " in log_of(project, PLAIN)
    assert differing(content(project), content(alone)) == []


def test_a_job_of_a_node_that_is_drained_ends_and_the_next_goes_to_the_other(alone, project, cluster):
    before, targets = cluster.last(), forget(project, PLAIN, CROPS, kind="evaluations")
    with started(project, cluster, "--jobs", "1", *targets) as snakemake:
        drained = wait_until(lambda: "".join(cluster.queued().values()), seconds=120)
        cluster.said("scontrol", "update", f"NodeName={drained}", "State=DRAIN", "Reason=maintenance")
        try:
            said, _ = snakemake.communicate()
            state = cluster.node(drained)
        finally:
            cluster.said("scontrol", "update", f"NodeName={drained}", "State=RESUME")
    assert (snakemake.returncode, state) == (0, "DRAINED"), said
    (other,) = set(NODES) - {drained}
    jobs = cluster.jobs(before, "State", "NodeList")
    assert [(job["State"], job["NodeList"]) for job in jobs] == [("COMPLETED", drained), ("COMPLETED", other)]
    assert differing(content(project), content(alone)) == []


def test_a_training_whose_node_dies_is_started_by_slurm_on_the_other_and_goes_on(alone, project, cluster):
    targets = forget(project, CROPS)
    with started(project, cluster, *targets) as snakemake:
        job = caught(project, cluster, CROPS)
        dead = cluster.queued()[job]
        cluster.kill_node(dead, {os.getsid(pid) for pid in at_work(project.folder)} - {snakemake.pid})
        said, _ = snakemake.communicate()
    cluster.start_node(dead)
    assert snakemake.returncode == 0, said
    runs = cluster.said("sacct", "-D", "-X", "-n", "-P", "-j", job, "--format=State,NodeList").splitlines()
    (other,) = set(NODES) - {dead}
    assert runs == [f"NODE_FAIL|{dead}", f"COMPLETED|{other}"]
    assert f"{CROPS}: resuming after epoch " in log_of(project, CROPS)
    assert differing(content(project), content(alone)) == []


def test_a_stopped_snakemake_cancels_its_jobs_and_the_same_command_goes_on(alone, project, cluster):
    targets = forget(project, PLAIN)
    with started(project, cluster, *targets) as snakemake:
        caught(project, cluster, PLAIN)
        snakemake.send_signal(signal.SIGINT)
        said, _ = snakemake.communicate()
    assert snakemake.returncode, said
    wait_until(lambda: not cluster.queued())
    project.call(*through_slurm(*targets), **cluster.environment)
    assert f"{PLAIN}: resuming after epoch " in log_of(project, PLAIN)
    assert differing(content(project), content(alone)) == []


def test_an_unknown_partition_is_told_in_the_words_of_slurm(project, cluster):
    nowhere = ["--default-resources", "slurm_partition=nowhere", "--"]
    command = through_slurm(*nowhere, *forget(project, PLAIN, kind="evaluations"))
    done = project.call(*command, check=False, **cluster.environment)
    assert done.returncode == 1
    assert "invalid partition specified: nowhere" in done.stdout
    assert f"results/tiny/logs/paper/evaluate/{PLAIN}/seed-0.log" in done.stdout


def test_without_accounting_the_same_command_ends_with_the_same_results(alone, project, tmp_path):
    command = through_slurm(*forget(project, PLAIN, kind="evaluations"))
    with slurm_cluster(tmp_path / "cluster", accounting=False) as cluster:
        # The plugin guesses an account by `sacct`, goes on without, and says so.
        said = project.said(*command, **cluster.environment)
        assert "Unable to guess SLURM account. Trying to proceed without." in said
        assert "Slurm accounting storage is disabled" in cluster.refusal("sacct")
    assert differing(content(project), content(alone)) == []
