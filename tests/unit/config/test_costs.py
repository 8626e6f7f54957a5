"""What a plan costs, against numbers that were worked out by hand and against what the code does."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vsepp.config import costs, make_plan
from vsepp.config.costs import Item, Job, Network, Rates, Work
from vsepp.errors import VseppError
from vsepp.models.encoders import build_encoder
from vsepp.models.joint import JointEmbedding
from vsepp.training import batches

PARAMS = Path(__file__).resolve().parents[3] / "params"


@pytest.fixture(scope="module")
def paper():
    return make_plan(PARAMS, {"preset": "paper"})


@pytest.fixture(scope="module")
def jobs(paper):
    return costs.jobs(paper)


def of_phase(jobs, phase):
    return {name: job for name, job in jobs.items() if job.phase == phase}


def amounts(job, part):
    return {work.entry: work.amount for work in job.work if work.part == part}


@pytest.mark.parametrize(
    ("run", "pairs", "steps"),
    [
        ("coco-vsepp-1c", 413_915, 3_234),  # 82,783 × 5
        ("coco-vsepp-rc-rv", 566_435, 4_426),  # (82,783 + 30,504) × 5
        ("flickr-vsepp-rc", 145_000, 1_133),  # 29,000 × 5
    ],
)
def test_pairs_and_steps_of_the_papers_runs(paper, run, pairs, steps):
    spec = paper.runs[run].spec
    assert costs.training_pairs(paper, paper.runs[run]) == pairs
    assert costs.steps_per_epoch(pairs, spec.schedule.batch_size) == steps
    assert batches.steps_per_epoch(pairs, spec.schedule.batch_size) == steps


@pytest.mark.parametrize(
    ("pairs", "batch", "negatives"), [(37, 8, None), (37, 8, 4), (37, 8, 20), (10, 8, 64)]
)
def test_pairs_embedded_are_those_of_the_batches(paper, pairs, batch, negatives):
    from dataclasses import replace

    spec = paper.runs["flickr-vsepp-rc"].spec
    spec = replace(
        spec,
        loss=replace(spec.loss, negative_set=negatives),
        schedule=replace(spec.schedule, batch_size=batch),
    )
    epoch = batches.epoch_batches(pairs, batch, order_seed=0, epoch=0, negative_set=negatives)
    assert costs.pairs_embedded(spec, pairs) == sum(len(step.pairs) for step in epoch)


def test_a_generated_corpus_has_the_scenes_of_the_preset():
    mini = make_plan(PARAMS, {})
    assert costs.training_pairs(mini, mini.runs["coco-vsepp-rc-rv"]) == (1200 + 400) * 5


def test_a_shortened_corpus_has_its_first_images():
    overrides = {"preset": "paper", "label": "short", "corpora": {"coco": {"first_images": {"train": 100}}}}
    plan = make_plan(PARAMS, overrides)
    run = plan.runs["coco-vsepp-rc-rv"]
    assert costs.training_pairs(plan, run) == (100 + 30_504) * 5
    assert costs.images_of(plan.corpora[run.corpus]) == 100 + 30_504 + 5_000 + 5_000


def test_what_nobody_counted_is_unknown_and_not_guessed():
    plan = make_plan(
        PARAMS, {"preset": "paper", "label": "x", "corpora": {"coco": {"dataset": "coco_precomp"}}}
    )
    assert costs.training_pairs(plan, plan.runs["coco-vsepp-1c"]) is None
    jobs = costs.jobs(plan)
    work = jobs["training of coco-vsepp-1c, seed 0"].work
    assert {item.amount for item in work} == {None}
    rates = Rates("cpu", "m", "2026-01-01", 1, {item.entry: {item.rate: 1.0} for item in work})
    assert costs.time_of(work, rates) == (0.0, {costs.NO_COUNT})
    items = {item.name: item for item in costs.disk_items(plan, jobs)}
    assert items[plan.runs["coco-vsepp-1c"].features].size is None


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
        jobs = costs.jobs(make_plan(PARAMS, overrides))
        assert not of_phase(jobs, "tapes")
        job = jobs["training of flickr-vsepp-rc, seed 0"]
        assert amounts(job, "forward") == {"torchvision/vgg19@224": 145_000 * 30}
        assert amounts(job, "training") == {"head@4096/1024": 145_000 * 30}


def test_jobs_come_after_what_they_need_and_seeds_share_the_passes():
    plan = make_plan(PARAMS, {"preset": "paper", "seeds": [0, 1]})
    jobs = costs.jobs(plan)
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
    jobs = costs.jobs(plan)
    assert {job.phase: job.what for job in jobs.values() if job.phase != "stores"} == {
        "features": plan.runs["flickr-vsepp-1c"].features,
        "training": "flickr-vsepp-1c",
        "evaluation": "flickr-vsepp-1c",
    }
    assert len(of_phase(jobs, "stores")) == 1
    assert set(costs.files_read(plan)) == {
        "flickr30k-images.zip",
        "caption_datasets.zip",
        "vgg19-dcbb9e9d.pth",
    }


def rates(**entries):
    return Rates("a GPU", "a machine", "2026-01-01", 4, entries)


def test_time_is_amounts_over_rates():
    work = (
        Work("forward", "net", "forward_images_per_s", 3_000),
        Work("training", "head", "pairs_per_s", 5_000),
        Work("decode", "decode", "images_per_s_per_core", 800),
    )
    known = rates(
        net={"forward_images_per_s": 100.0},
        head={"pairs_per_s": 50.0},
        decode={"images_per_s_per_core": 20.0},
    )
    assert costs.time_of(work, known) == (30 + 100 + 10, frozenset())  # four cores decode 80 a second
    assert costs.time_of(work, known, ["forward"]).seconds == 30
    part = rates(net={"forward_images_per_s": 100.0})
    assert costs.time_of(work, part) == (
        30,
        {"pairs_per_s of head", "images_per_s_per_core of decode"},
    )
    assert costs.time_of(work, None).seconds == 0


def graph(**needs):
    """Jobs that need others; names that begin with s are stores."""
    return {
        name: Job("stores" if name.startswith("s") else "training", name, (), tuple(before))
        for name, before in needs.items()
    }


def test_longest_chain_by_hand():
    jobs = graph(s=[], tape=["s"], frozen=["tape"], tuned=["frozen"], other=["tape"], alone=[])
    seconds = {"s": 1.0, "tape": 10.0, "frozen": 3.0, "tuned": 20.0, "other": 22.0, "alone": 30.0}
    assert costs.longest_chain(jobs, seconds) == (34.0, ["s", "tape", "frozen", "tuned"])
    assert costs.longest_chain({}, {}) == (0.0, [])


def test_wall_time_by_hand():
    jobs = graph(s=[], a=[], b=["s"], c=["s"])
    seconds = {"s": 4.0, "a": 3.0, "b": 5.0, "c": 2.0}
    # One device: it takes a while the store is decoded on the cores, then waits one second for b and c.
    assert costs.wall_seconds(jobs, seconds, 1) == 4 + 5 + 2
    assert costs.wall_seconds(jobs, seconds, 2) == 4 + 5
    # The cores are the device: one after the other.
    assert costs.wall_seconds(jobs, seconds, 1, cores_apart=False) == 14


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.sets(st.integers(0, 11))), min_size=1, max_size=12),
    st.integers(1, 4),
)
def test_wall_time_lies_between_its_bounds(drawn, devices):
    jobs = graph(**{f"j{k}": [f"j{n}" for n in sorted(needs) if n < k] for k, (_, needs) in enumerate(drawn)})
    seconds = {f"j{k}": float(length) for k, (length, _) in enumerate(drawn)}
    total, (chain, _) = sum(seconds.values()), costs.longest_chain(jobs, seconds)
    wall = costs.wall_seconds(jobs, seconds, devices)
    assert max(chain, total / devices) <= wall <= total
    # Graham (1969): no list schedule is longer.
    assert wall <= total / devices + (1 - 1 / devices) * chain + 1e-9
    assert costs.wall_seconds(jobs, seconds, 1) == total
    assert costs.wall_seconds(jobs, seconds, len(drawn)) == chain


def test_bytes_of_the_papers_artefacts(paper, jobs):
    items = costs.disk_items(paper, jobs)
    tapes = {item.name: item.size for item in items if item.kind == "tapes"}
    vgg = next(size for name, size in tapes.items() if "coco" in name and "vgg" in name)
    assert vgg == 566_435 * 30 * 4096 * 2  # 139 GB
    assert costs.tape_bytes(items) == (vgg, (566_435 + 145_000) * 30 * (4096 + 2048) * 2)
    stores = [item.size for item in items if item.kind == "stores"]
    assert sorted(stores) == [31_014 * 256 * 256 * 3, 123_287 * 256 * 256 * 3]
    assert 123_287 * 4096 * 4 in [item.size for item in items if item.kind == "features"]
    embeddings = {item.name: item.size for item in items if item.kind == "embeddings"}
    assert embeddings["coco-vsepp-1c"] == (5_000 + 25_000) * 1024 * 4
    assert sum(item.size or 0 for item in items if item.kind == "downloads") == (
        13_510_573_713 + 6_645_013_297 + 252_872_794 + 36_745_453 + 574_673_361
    )


def test_tapes_of_one_corpus_and_encoder_lie_there_together():
    items = [
        Item("tapes", "a", 5, Path("a"), "coco × vgg"),
        Item("tapes", "b", 7, Path("b"), "coco × vgg"),
        Item("tapes", "c", 9, Path("c"), "coco × resnet"),
        Item("stores", "d", 99, Path("d")),
    ]
    assert costs.tape_bytes(items) == (12, 21)


@pytest.mark.parametrize("run", ["flickr-vsepp-rc", "flickr-vsepp-rc-resnet-ft"])
def test_numbers_of_a_model_are_those_of_the_model(paper, run):
    spec = paper.runs[run].spec
    network = costs.NETWORKS[spec.encoder.architecture]
    with torch.device("meta"):
        encoder = build_encoder(spec.encoder) if spec.live_encoder else None
    model = JointEmbedding(spec.model, network.dim, costs.ASSUMED_WORDS, encoder)
    numbers = sum(value.numel() for value in model.state_dict().values())
    assert costs.model_numbers(spec, costs.NETWORKS) == (numbers, numbers)
    assert costs.checkpoint_bytes(spec, costs.NETWORKS) == 2 * 4 * 4 * numbers


def test_an_encoder_that_is_not_trained_has_no_moments():
    spec = make_plan(PARAMS, {"preset": "paper", "fidelity": "code"}).runs["flickr-vsepp-rc"].spec
    whole, trained = costs.model_numbers(spec, costs.NETWORKS)
    assert whole - trained == costs.NETWORKS["torchvision/vgg19"].parameters


def test_the_largest_trainings_count_as_running_at_once(paper):
    tuned = costs.checkpoint_bytes(paper.runs["coco-vsepp-rc-rv-ft"].spec, costs.NETWORKS)
    assert costs.checkpoints_at_once(paper, 1) == tuned
    assert costs.checkpoints_at_once(paper, 4) == 4 * tuned  # four runs fine-tune VGG19


@pytest.mark.parametrize("preset", ["mini", "flickr8k", "paper"])
def test_sizes_of_the_encoders_are_those_of_the_networks(preset):
    for spec in make_plan(PARAMS, {"preset": preset}).encoders.values():
        with torch.device("meta"):
            encoder = build_encoder(spec)
        numbers = sum(value.numel() for value in encoder.network.state_dict().values())
        assert costs.NETWORKS[spec.architecture] == Network(encoder.dim, numbers)


def test_sizes_of_other_networks_come_from_their_measurement():
    measured = rates(**{"torchvision/resnet50@224": {"dim": 2048, "parameters": 23_561_205}})
    assert costs.networks([measured])["torchvision/resnet50"] == Network(2048, 23_561_205)
    assert "torchvision/resnet50" not in costs.networks([])


RECORD = {
    "device": "cpu",
    "machine": "m",
    "date": "2026-01-01",
    "cores": 2,
    "rates": {"a": {"pairs_per_s": 1.5}},
}


def test_records_are_read():
    (record,) = costs.parse_rates([RECORD | {"commit": "abc"}], "rates.json")
    assert record == Rates("cpu", "m", "2026-01-01", 2, {"a": {"pairs_per_s": 1.5}})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"device": "cpu"}, "rates.json: expected a list of records, got dict"),
        ([RECORD, {**RECORD, "cores": "two"}], "record 1: cores: expected int, got 'two'"),
        (
            [{key: RECORD[key] for key in ("device", "machine", "date", "cores")}],
            "record 0: rates: expected dict",
        ),
        (
            [{**RECORD, "rates": {"a": {"pairs_per_s": 0}}}],
            "rates.a.pairs_per_s: expected a number above 0, got 0",
        ),
        ([{**RECORD, "rates": {"a": {"pairs_per_s": float("nan")}}}], "expected a number above 0, got nan"),
        ([{**RECORD, "rates": {"a": 3}}], "rates.a: expected rates by name, got 3"),
        (["cpu"], "record 0: device: expected str, got None"),
    ],
)
def test_records_that_are_none_are_refused(content, message):
    with pytest.raises(VseppError, match="measure") as error:
        costs.parse_rates(content, "rates.json")
    assert message in str(error.value)
