"""How many jobs share the GPUs of this machine: the real Snakemake, and GPUs that need not be there."""

import re

import pytest
import yaml
from projects import TINY, copy_of_the_project

pytestmark = pytest.mark.workflow

# Python reads this at the start of every process that finds it on its path.
SOME_GPUS = "from vsepp.base import devices\ndevices.installed = lambda: {}\n"
RUNS = ["flickr-vsepp-rc", "flickr-vsepp-rc-ft", "coco-orderpp-10c-rv"]


def with_gpus(project, count):
    (project.folder / "sitecustomize.py").write_text(SOME_GPUS.format(count))
    return project


@pytest.fixture(autouse=True)
def all_gpus(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.fixture
def fresh(tmp_path):
    project = copy_of_the_project(tmp_path / "vsepp", {**TINY, "only": RUNS})
    # A rule's own message takes the place of what Snakemake says of its jobs: wildcards, threads, resources.
    for rules in (project.folder / "workflow" / "rules").glob("*.smk"):
        rules.write_text(re.sub(r"(?m)^ +message:\n.*\n", "", rules.read_text()))
    return project


def planned_jobs(project, *arguments, **resources):
    """Rule, and the run it is about where there is one → what a dry run gives the job."""
    text = project.run("--dry-run", "--cores", "16", *arguments, resources=resources)
    jobs = {}
    for block in re.split(r"\n(?=rule |localrule )", text)[1:]:
        rule = re.match(r"\w+ (\w+)", block)[1]
        about = re.search(r"wildcards: (?:run|evaluation)=([\w-]+)/", block)
        granted = dict(re.findall(r"(\w+)=(\d+)", re.search(r"resources: (.*)", block)[1]))
        threads = re.search(r"threads: (\d+)", block)
        jobs[rule, about[1] if about else None] = {
            "part": int(granted.get("gpu_part", 0)),
            "gpu": int(granted.get("gpu", 0)),
            "threads": int(threads[1]) if threads else 1,
        }
    return jobs


def test_runs_that_read_features_share_a_gpu_all_others_take_a_whole_one_and_an_evaluation_takes_none(fresh):
    """Here, and on a cluster, where the profile asks for whole ones."""
    entry = "{base: coco-vsepp-1c, ensemble: [coco-vse0-1c, coco-vsepp-1c], protocols: [1K]}"
    fresh.edit("params/papers/vsepp/runs.yaml", new=f"\nboth: {entry}\n")
    fresh.config["only"] = [*RUNS, "both"]
    profile = yaml.safe_load((fresh.folder / "profiles/slurm/config.yaml").read_text())
    wanted = [f"{rule}:gpu={resources['gpu']}" for rule, resources in profile["set-resources"].items()]
    jobs = planned_jobs(with_gpus(fresh, 2), "--set-resources", *wanted, runs_per_gpu=3, threads=6)
    whole = {"part": 3, "gpu": 1, "threads": 6}
    frozen = {"part": 1, "gpu": 1, "threads": 2}
    assert jobs["train", "flickr-vsepp-rc"] == jobs["train", "coco-orderpp-10c-rv"] == frozen
    assert jobs["train", "flickr-vsepp-rc-ft"] == whole
    assert jobs["features", None] == jobs["tape", None] == whole
    evaluations = [job for (rule, _), job in jobs.items() if rule == "evaluate"]
    assert len(evaluations) > 3 and ("evaluate", "both") in jobs
    assert all(job == {"part": 0, "gpu": 0, "threads": 6} for job in evaluations)
    assert jobs["encoder", None]["part"] == jobs["encoder", None]["gpu"] == 0, "it computes on the CPU"


def test_without_gpus_nothing_is_counted_in_parts(fresh):
    jobs = planned_jobs(with_gpus(fresh, 0), runs_per_gpu=3, threads=2)
    assert {job["part"] for job in jobs.values()} == {0}
    assert {job["threads"] for (rule, _), job in jobs.items() if rule in ("train", "evaluate", "tape")} == {2}


def test_there_are_as_many_parts_as_the_gpus_have_and_their_number_reruns_nothing(project):
    resources = {"runs_per_gpu": 3}
    assert with_gpus(project, 2).planned(resources=resources) == {}
    output = project.run("all_features", "--forcerun", "pictures", resources=resources)
    assert re.search(r"Provided resources: .*gpu_part\D+6\b", output)
