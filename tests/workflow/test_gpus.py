"""How many jobs share the GPUs of this machine: the real Snakemake, and GPUs that need not be there."""

import re

import pytest
from dag import TINY, Workflow, copy_of_the_project

pytestmark = pytest.mark.workflow

# Python reads this at the start of every process that finds it on its path.
SOME_GPUS = "from vsepp.runtime import devices\ndevices.installed = lambda: {}\n"
RUNS = ["flickr-vsepp-rc", "flickr-vsepp-rc-ft", "coco-orderpp-10c-rv"]


def with_gpus(workflow, count):
    (workflow.source / "sitecustomize.py").write_text(SOME_GPUS.format(count))
    return workflow


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    (tmp_path / "work").mkdir()
    source = copy_of_the_project(tmp_path / "source")
    # A rule's own message takes the place of what Snakemake says of its jobs: wildcards, threads, resources.
    for rules in (source / "workflow" / "rules").glob("*.smk"):
        rules.write_text(re.sub(r"    message:\n.*\n", "", rules.read_text()))
    return Workflow(tmp_path / "work", source, {**TINY, "only": RUNS})


def planned_jobs(workflow, **resources):
    """Rule, and the run it is about where there is one → what a dry run gives the job, and its command."""
    text = workflow.run("--dry-run", "--printshellcmds", "--cores", "16", resources=resources).stdout
    jobs = {}
    for block in re.split(r"\n(?=rule |localrule )", text)[1:]:
        rule = re.match(r"\w+ (\w+)", block)[1]
        about = re.search(r"wildcards: .*(?:run|model)=([\w-]+)", block)
        given = dict(re.findall(r"(\w+)=(\d+)", re.search(r"resources: (.*)", block)[1]))
        threads = re.search(r"threads: (\d+)", block)
        found = {
            "gpu": int(given.get("gpu", -1)),
            "part": int(given.get("gpu_part", -1)),
            "threads": int(threads[1]) if threads else 1,
            "share": (re.search(r"--device-share (\d+)", block) or [None, None])[1],
            "writers": (re.search(r"--writers (\d+)", block) or [None, None])[1],
        }
        jobs[rule, about[1] if about else None] = found
    return jobs


def test_runs_that_read_features_share_a_gpu_and_all_others_take_a_whole_one(fresh):
    jobs = planned_jobs(with_gpus(fresh, 2), runs_per_gpu=3, tape_writers=4, threads=6)
    frozen = {"gpu": 1, "part": 1, "threads": 2, "share": "3", "writers": None}
    whole = {"gpu": 1, "part": 3, "threads": 6, "share": "1", "writers": None}
    for rule in ("train", "encode"):
        assert jobs[rule, "flickr-vsepp-rc"] == jobs[rule, "coco-orderpp-10c-rv"] == frozen
        assert jobs[rule, "flickr-vsepp-rc-ft"] == whole
    assert jobs["features", None] == {**whole, "share": None}
    assert jobs["pretrain_encoders", None]["gpu"] in (-1, 0), "it computes on the CPU"
    # Two epochs of the tape, four writers asked for, two GPUs.
    assert jobs["tape", None] == {"gpu": 2, "part": 6, "threads": 6, "share": None, "writers": "2"}


def test_there_are_as_many_parts_as_the_gpus_have(fresh):
    scenes = "--until", "generate_scenes"
    said = with_gpus(fresh, 2).run("all_corpus", *scenes, resources={"runs_per_gpu": 3}).stdout
    assert re.search(r"Provided resources: .*gpu_part\D+6\b", said)
    said = fresh.run("all_corpus", *scenes, "--forceall", "--resources", "gpu_part=1").stdout
    assert re.search(r"Provided resources: .*gpu_part\D+1\b", said)


def test_without_gpus_nothing_is_counted_in_parts(fresh):
    jobs = planned_jobs(with_gpus(fresh, 0), runs_per_gpu=3, tape_writers=4, threads=2)
    assert {(job["gpu"], job["part"]) for job in jobs.values()} == {(0, 0), (-1, -1)}
    assert {job["threads"] for (rule, _), job in jobs.items() if rule in ("train", "encode", "tape")} == {2}
    assert jobs["tape", None]["writers"] == "2"


def test_other_numbers_of_writers_sharers_and_gpus_rerun_nothing(tiny):
    assert tiny.planned(resources={"runs_per_gpu": 5, "tape_writers": 3}) == {}
    assert with_gpus(tiny, 4).planned(resources={"runs_per_gpu": 1, "tape_writers": 2}) == {}
