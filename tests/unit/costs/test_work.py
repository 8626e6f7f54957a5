"""Jobs and their work, against numbers that were worked out by hand."""

from pathlib import Path

from vsepp.config import make_plan
from vsepp.costs.disk import files_read
from vsepp.costs.work import jobs_of

PARAMS = Path(__file__).resolve().parents[3] / "params"


def of_phase(jobs, phase):
    return {name: job for name, job in jobs.items() if job.phase == phase}


def amounts(job, part):
    return {work.entry: work.amount for work in job.work if work.part == part}


def test_a_tape_is_one_pass_over_all_captions_and_epochs(paper, jobs):
    tapes = of_phase(jobs, "tapes")
    assert len(tapes) == 4
    found = {
        (paper.tapes[name].corpus.split("-")[0], entry): count
        for name, job in tapes.items()
        for entry, count in amounts(job, "forward").items()
    }
    assert found == {
        ("coco", "torchvision/vgg19@224"): 566_435 * 30,
        ("coco", "torchvision/resnet152@224"): 566_435 * 30,
        ("flickr", "torchvision/vgg19@224"): 145_000 * 30,
        ("flickr", "torchvision/resnet152@224"): 145_000 * 30,
    }


def test_ten_crops_are_ten_images_to_the_encoder(paper, jobs):
    features = of_phase(jobs, "features")
    ten = next(job for name, job in features.items() if name.endswith("10C"))
    assert amounts(ten, "forward") == {"torchvision/vgg19@224": 10 * 123_287}


def test_work_of_a_training_on_features(jobs):
    job = jobs["training of coco-vsepp-rc, seed 0"]
    assert amounts(job, "training") == {"head@4096/1024": 413_915 * 30}
    assert not amounts(job, "forward")
    assert amounts(job, "validation") == {
        "head@4096/1024": 25_000 * 30,
        "ranks@1024/dot": 5_000 * 25_000 * 30,
    }
    order = jobs["training of coco-order0-10c-rv, seed 0"]
    assert "ranks@1024/order" in amounts(order, "validation")
    assert "head@4096/1024/order" in amounts(order, "training")


def test_more_negatives_than_a_batch_are_embedded_too(jobs):
    job = jobs["training of flickr-vsepp-rc-neg512, seed 0"]
    assert amounts(job, "training") == {"head@4096/1024": 1_133 * 512 * 30}
    fewer = jobs["training of flickr-vsepp-rc-neg2, seed 0"]
    assert amounts(fewer, "training") == {"head@4096/1024": 145_000 * 30}


def test_work_of_fine_tuning_and_of_its_validation_and_evaluation(jobs):
    job = jobs["training of coco-vsepp-rc-rv-resnet-ft, seed 0"]
    assert amounts(job, "training") == {"torchvision/resnet152@224": 566_435 * 15}
    assert amounts(job, "validation")["torchvision/resnet152@224"] == 5_000 * 15
    done = jobs["evaluation of coco-vsepp-rc-rv-resnet-ft, seed 0"]
    assert amounts(done, "evaluation") == {
        "torchvision/resnet152@224": 5_000,
        "head@2048/1024": 25_000,
        "ranks@1024/dot": 5 * 1_000 * 5_000 + 5_000 * 25_000,  # 5x1K and 5K
    }


def test_without_a_tape_every_frozen_run_passes_the_encoder_itself(paper):
    inline = {"preset": "paper", "label": "inline", "runs": {"default": {"rc_features": "inline"}}}
    legacy = {"preset": "paper", "fidelity": "code"}
    for overrides in (inline, legacy):
        jobs = jobs_of(make_plan(PARAMS, overrides))
        assert not of_phase(jobs, "tapes")
        job = jobs["training of flickr-vsepp-rc, seed 0"]
        assert amounts(job, "forward") == {"torchvision/vgg19@224": 145_000 * 30}
        assert amounts(job, "training") == {"head@4096/1024": 145_000 * 30}


def test_jobs_come_after_what_they_need_and_seeds_share_the_passes():
    plan = make_plan(PARAMS, {"preset": "paper", "seeds": [0, 1]})
    jobs = jobs_of(plan)
    seen = set()
    for name, job in jobs.items():
        assert set(job.needs) <= seen
        seen.add(name)
    assert len(of_phase(jobs, "tapes")) == 4
    assert len(of_phase(jobs, "training")) == 2 * len(plan.runs)
    assert "training of flickr-vse0-rc, seed 1" in jobs["training of flickr-vse0-rc-ft, seed 1"].needs
    frozen = jobs["training of flickr-vse0-rc, seed 1"]
    assert {jobs[need].phase for need in frozen.needs} == {"tapes", "features"}


def test_runs_that_are_not_chosen_cost_nothing():
    plan = make_plan(PARAMS, {"preset": "paper", "only": "flickr-vsepp-1c"})
    jobs = jobs_of(plan)
    assert {job.phase: job.what for job in jobs.values() if job.phase != "stores"} == {
        "features": plan.runs["flickr-vsepp-1c"].features,
        "training": "flickr-vsepp-1c",
        "evaluation": "flickr-vsepp-1c",
    }
    assert len(of_phase(jobs, "stores")) == 1
    assert set(files_read(plan)) == {
        "flickr30k-images.zip",
        "caption_datasets.zip",
        "vgg19-dcbb9e9d.pth",
    }
