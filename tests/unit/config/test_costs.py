"""Images, bytes and work of a plan, against numbers that were worked out by hand, the batches and the networks."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from vsepp.config import make_plan
from vsepp.config.costs import (
    ASSUMED_WORDS,
    NETWORKS,
    Network,
    Work,
    captions_of,
    checkpoint_bytes,
    files_read,
    hours_of,
    images_of,
    items_of,
    model_numbers,
    needed_artefacts,
    pairs_embedded,
    read_rates,
    steps_of,
    training_work,
)
from vsepp.errors import VseppError
from vsepp.models.encoder import build_encoder
from vsepp.models.joint import JointEmbedding
from vsepp.training import batches

ROOT = Path(__file__).resolve().parents[3]
PARAMS = ROOT / "params"


@pytest.fixture(scope="module")
def paper():
    return make_plan(PARAMS, {"preset": "paper"})


@pytest.fixture(scope="module")
def items(paper):
    return items_of(paper)


def corpus_of(plan, run):
    artefact = plan.table["run", f"{run}/seed-0"]
    return plan.owner(artefact.inputs["corpus"]).spec


def sizes(items, kind):
    return {item.label: item.size for item in items if item.kind == kind}


def work_of(items, kind, name):
    """(what, variant, precision) → amount."""
    (item,) = [item for item in items if item.kind == kind and name in (item.label, item.name)]
    found = {}
    for work in item.work:
        found[work[:3]] = found.get(work[:3], 0) + work.amount
    return found


@pytest.mark.parametrize(
    ("run", "pairs", "steps"),
    [
        ("coco-vsepp-1c", 413_915, 3_234),  # 82,783 × 5
        ("coco-vsepp-rc-rv", 566_435, 4_426),  # (82,783 + 30,504) × 5
        ("flickr-vsepp-rc", 145_000, 1_133),  # 29,000 × 5
    ],
)
def test_pairs_and_steps_of_the_papers_runs(paper, run, pairs, steps):
    spec = paper.models[run].spec
    assert captions_of(corpus_of(paper, run), spec.train_splits) == pairs
    assert steps_of(spec, pairs) == steps


@pytest.mark.parametrize(
    ("pairs", "batch", "negatives"), [(37, 8, None), (37, 8, 4), (37, 8, 20), (10, 8, 64)]
)
def test_pairs_and_steps_are_those_of_the_batches(paper, pairs, batch, negatives):
    spec = paper.models["flickr-vsepp-rc"].spec
    spec = replace(spec, schedule=replace(spec.schedule, batch_size=batch, negative_set=negatives))
    epoch = list(batches.epoch_batches(pairs, batch, order_seed=0, epoch=0, negative_set=negatives))
    assert pairs_embedded(spec, pairs) == sum(len(step.pairs) for step in epoch)
    assert steps_of(spec, pairs) == len(epoch)


def test_a_corpus_has_the_scenes_of_the_preset_or_its_first_images():
    mini = corpus_of(make_plan(PARAMS, {}), "coco-vsepp-rc-rv")
    assert captions_of(mini, ["train", "restval"]) == (1200 + 400) * 5
    few = {"preset": "paper", "label": "short", "corpora": {"coco": {"first_images": {"train": 100}}}}
    assert images_of(corpus_of(make_plan(PARAMS, few), "coco-vsepp-rc-rv")) == 100 + 30_504 + 5_000 + 5_000


def test_bytes_of_the_papers_artefacts(paper, items):
    tapes = sizes(items, "tape")
    assert tapes["coco vgg RC"] == 566_435 * 30 * 4096 * 2  # 139 GB
    assert sum(tapes.values()) == (566_435 + 145_000) * 30 * (4096 + 2048) * 2
    assert sorted(sizes(items, "store").values()) == [31_014 * 256 * 256 * 3, 123_287 * 256 * 256 * 3]
    assert sizes(items, "features")["coco vgg 1C"] == 123_287 * 4096 * 4
    assert sizes(items, "evaluation")["coco-vsepp-1c/seed-0"] == (5_000 + 25_000) * 1024 * 4
    assert sum(size or 0 for size in sizes(items, "download").values()) == (
        13_510_573_713 + 6_645_013_297 + 252_872_794 + 36_745_453 + 574_673_361
    )


@pytest.mark.parametrize("preset", ["mini", "flickr8k", "paper"])
def test_sizes_of_the_encoders_are_those_of_the_networks(preset):
    for model in make_plan(PARAMS, {"preset": preset}).models.values():
        spec = model.spec.encoder
        with torch.device("meta"):
            encoder = build_encoder(spec)
        numbers = sum(value.numel() for value in encoder.network.state_dict().values())
        assert NETWORKS[spec.architecture] == Network(encoder.dim, numbers)


@pytest.mark.parametrize("run", ["flickr-vsepp-rc", "flickr-vsepp-rc-resnet-ft"])
def test_numbers_of_a_model_are_those_of_the_model(paper, run):
    spec = paper.models[run].spec
    with torch.device("meta"):
        encoder = build_encoder(spec.encoder) if spec.live_encoder else None
        model = JointEmbedding(spec.model, NETWORKS[spec.encoder.architecture].dim, ASSUMED_WORDS, encoder)
    numbers = sum(value.numel() for value in model.state_dict().values())
    assert model_numbers(spec) == (numbers, numbers)
    assert checkpoint_bytes(spec) == 3 * 4 * 4 * numbers


def test_an_encoder_that_is_not_trained_has_no_moments():
    spec = make_plan(PARAMS, {"preset": "paper", "fidelity": "code"}).models["flickr-vsepp-rc"].spec
    whole, trained = model_numbers(spec)
    assert whole - trained == NETWORKS["torchvision/vgg19"].parameters


VGG, HEAD = ("tape", "torchvision/vgg19@224", "fp32"), ("step-1c", "4096/1024", "fp32")


def test_work_of_shared_passes(items):
    assert work_of(items, "tape", "flickr vgg RC") == {VGG: 145_000 * 30}
    assert work_of(items, "features", "coco vgg 10C") == {VGG: 10 * 123_287}
    assert work_of(items, "store", "flickr 256 pixels") == {("store", "256", "fp32"): 31_014}


def test_work_of_trainings_and_evaluations(items):
    assert work_of(items, "run", "coco-vsepp-rc/seed-0") == {
        HEAD: 413_915 * 30,
        ("encode", "4096/1024", "fp32"): 25_000 * 30,
        ("rank-dot", "1024", "fp32"): 5_000 * 25_000 * 30,
    }
    order = work_of(items, "run", "coco-order0-10c-rv/seed-0")
    assert {what for what, _, _ in order} == {"step-order", "encode-order", "rank-order"}
    # More negatives than a batch are embedded too, fewer are part of it.
    assert work_of(items, "run", "flickr-vsepp-rc-neg512/seed-0")[HEAD] == 1_133 * 512 * 30
    assert work_of(items, "run", "flickr-vsepp-rc-neg2/seed-0")[HEAD] == 145_000 * 30
    tuned, resnet = "coco-vsepp-rc-rv-resnet-ft/seed-0", "torchvision/resnet152@224"
    assert work_of(items, "run", tuned)["step-finetuned", resnet, "fp32"] == 566_435 * 15
    assert work_of(items, "run", tuned)["tape", resnet, "fp32"] == 5_000 * 15
    assert work_of(items, "evaluation", tuned) == {
        ("tape", resnet, "fp32"): 5_000,
        ("encode", "2048/1024", "fp32"): 25_000,
        ("rank-dot", "1024", "fp32"): 5 * 1_000 * 5_000 + 5_000 * 25_000,  # 5x1K and 5K
    }


def test_without_a_tape_every_frozen_run_passes_the_encoder_itself():
    inline = {"preset": "paper", "label": "inline", "runs": {"default": {"rc_features": "inline"}}}
    for overrides in (inline, {"preset": "paper", "fidelity": "code"}):
        found = items_of(make_plan(PARAMS, overrides))
        assert not sizes(found, "tape")
        work = work_of(found, "run", "flickr-vsepp-rc/seed-0")
        assert work[VGG] - 145_000 * 30 in (0, 1_014 * 30)  # with validation's, where it is in the model
        assert work[HEAD] == 145_000 * 30


def test_seeds_are_trained_each_and_share_the_passes(items):
    seeds = items_of(make_plan(PARAMS, {"preset": "paper", "seeds": [0, 1]}))
    for kind, times in (("tape", 1), ("features", 1), ("store", 1), ("run", 2), ("evaluation", 2)):
        assert len(sizes(seeds, kind)) == times * len(sizes(items, kind))


def test_runs_that_are_not_chosen_cost_nothing():
    plan = make_plan(PARAMS, {"preset": "paper", "only": "flickr-vsepp-1c"})
    kinds = [item.kind for item in items_of(plan) if item.work]
    assert kinds == ["store", "features", "run", "evaluation"]
    files = {"flickr30k-images.zip", "caption_datasets.zip", "vgg19-dcbb9e9d.pth"}
    assert set(files_read(plan, needed_artefacts(plan))) == files


def test_what_nobody_counted_is_unknown_and_not_guessed():
    overrides = {"preset": "paper", "label": "x", "corpora": {"flickr": {"dataset": "f30k_precomp"}}}
    plan = make_plan(PARAMS, {**overrides, "only": "flickr-vsepp-1c"})
    corpus, spec = corpus_of(plan, "flickr-vsepp-1c"), plan.models["flickr-vsepp-1c"].spec
    assert captions_of(corpus) is None
    work = training_work(spec, corpus)
    assert {item.amount for item in work} == {None}
    assert hours_of(work, {item[:3]: 1.0 for item in work}) == (0.0, ["the number of images"])
    assert set(sizes(items_of(plan), "published").values()) == {None}


def test_time_is_amounts_over_rates():
    work = [Work("tape", "net", "fp32", 3_600), Work("step-1c", "head", "bf16", 7_200)]
    assert hours_of(work, {("tape", "net", "fp32"): 1.0, ("step-1c", "head", "bf16"): 2.0}) == (2.0, [])
    assert hours_of(work, {("tape", "net", "fp32"): 1.0}) == (1.0, ["step-1c head bf16"])


COLUMNS = "date,device,machine,what,variant,precision,unit,median\n"


def test_of_what_was_measured_again_the_newest_counts(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text(
        COLUMNS
        + '2026-02-01,cpu,"m, 2 cores",store,256,fp32,images/s,7\n'
        + '2026-01-01,cpu,"m, 2 cores",store,256,fp32,images/s,5\n'
        + '2026-03-01,cpu,"m, 2 cores",store,256,fp32,s,9\n'
        + '2026-01-01,H,"m, 2 cores",store,256,fp32,images/s,3\n'
    )
    key = "store", "256", "fp32"
    assert read_rates(path) == {"cpu, m, 2 cores": {key: 7.0}, "H, m, 2 cores": {key: 3.0}}
    path.write_text(COLUMNS + "2026-01-01,cpu,m,store,256,fp32,images/s,fast\n")
    with pytest.raises(VseppError, match=r"results\.csv, line 2: not a row of the benchmarks"):
        read_rates(path)


def test_the_recorded_rates_are_those_of_the_presets():
    (rates,) = read_rates(ROOT / "benchmarks" / "results.csv").values()
    for preset in ("mini", "flickr8k", "paper"):
        items = items_of(make_plan(PARAMS, {"preset": preset}))
        assert {work[:3] for item in items for work in item.work} <= rates.keys()
