"""Pairs, bytes and hours of a plan, against numbers that were worked out by hand, the batches and the networks."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from plans import plan

from vsepp.cli.estimate import render
from vsepp.config.costs import costs_of, counted, read_rates, report
from vsepp.errors import VseppError
from vsepp.models.encoder import build_encoder
from vsepp.models.joint import JointEmbedding
from vsepp.steps.sizes import (
    ASSUMED_WORDS,
    captions_of,
    encoder_size,
    images_of,
    model_numbers,
    pairs_embedded,
    steps_of,
)
from vsepp.training import batches

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def paper():
    return costs_of(plan(preset="paper"))


def cost(costs, name):
    """What an artefact of a name or label costs."""
    kinds = ("store", "features", "tape", "run")
    (found,) = [c for c in costs if name in (c.label, c.artefact.name) and c.artefact.kind in kinds]
    return found


def work(costs, name):
    """(what, variant) → amount."""
    return {(each.what, each.variant): each.amount for each in cost(costs, name).work}


def sizes(costs, kind):
    return sorted(cost.size for cost in costs if cost.artefact.kind == kind)


def corpus_of(plan, run):
    return plan.owner(plan.table["run", f"{run}/seed-0"].inputs["corpus"]).spec


@pytest.mark.parametrize(
    ("pairs", "batch", "negatives"), [(37, 8, None), (37, 8, 4), (37, 8, 20), (10, 8, 64)]
)
def test_pairs_and_steps_are_those_of_the_batches(pairs, batch, negatives):
    spec = plan(preset="paper").models["flickr-vsepp-rc"].spec
    spec = replace(spec, schedule=replace(spec.schedule, batch_size=batch, negative_set=negatives))
    epoch = list(batches.epoch_batches(pairs, spec.schedule, 0, 0))
    assert pairs_embedded(spec, pairs) == sum(len(step.pairs) for step in epoch)
    assert steps_of(spec, pairs) == len(epoch)


def test_a_corpus_has_the_scenes_of_the_preset_or_its_first_images():
    assert captions_of(corpus_of(plan(), "coco-vsepp-rc-rv"), ["train", "restval"]) == (1200 + 400) * 5
    few = plan(preset="paper", label="short", corpora={"coco": {"first_images": {"train": 100}}})
    assert images_of(corpus_of(few, "coco-vsepp-rc-rv")) == 100 + 30_504 + 5_000 + 5_000


def test_bytes_of_the_papers_artefacts(paper):
    assert cost(paper, "coco vgg RC").size == 566_435 * 30 * 4096 * 2  # 139 GB
    assert sum(sizes(paper, "tape")) == (566_435 + 145_000) * 30 * (4096 + 2048) * 2
    assert sizes(paper, "store") == [31_014 * 256 * 256 * 3, 123_287 * 256 * 256 * 3]
    assert cost(paper, "coco vgg 1C").size == 123_287 * 4096 * 4
    assert (5_000 + 25_000) * 1024 * 4 in sizes(paper, "evaluation")


@pytest.mark.parametrize("preset", ["mini", "flickr8k", "paper"])
def test_sizes_of_the_encoders_are_those_of_the_networks(preset):
    for spec in {
        model.spec.encoder.name: model.spec.encoder for model in plan(preset=preset).models.values()
    }.values():
        with torch.device("meta"):
            encoder = build_encoder(spec)
        numbers = sum(value.numel() for value in encoder.network.state_dict().values())
        assert encoder_size(spec) == (encoder.dim, numbers)


@pytest.mark.parametrize("run", ["flickr-vsepp-rc", "flickr-vsepp-rc-resnet-ft"])
def test_numbers_of_a_model_are_those_of_the_model(run):
    spec = plan(preset="paper").models[run].spec
    with torch.device("meta"):
        encoder = build_encoder(spec.encoder) if spec.live_encoder else None
        model = JointEmbedding(spec.model, encoder_size(spec.encoder)[0], ASSUMED_WORDS, encoder)
    assert model_numbers(spec) == sum(value.numel() for value in model.state_dict().values())


VGG, HEAD = ("tape", "torchvision/vgg19@224"), ("step-1c", "4096/1024")


def test_work_of_the_papers_passes_and_trainings(paper):
    assert work(paper, "flickr vgg RC") == {VGG: 145_000 * 30}
    assert work(paper, "coco vgg 10C") == {VGG: 10 * 123_287}
    assert work(paper, "flickr 256 pixels") == {("store", "256"): 31_014}
    assert work(paper, "coco-vsepp-rc/seed-0") == {HEAD: 413_915 * 30}
    assert list(work(paper, "coco-order0-10c-rv/seed-0")) == [("step-order", "4096/1024")]
    # More negatives than a batch are embedded too, fewer are part of it.
    assert work(paper, "flickr-vsepp-rc-neg512/seed-0") == {HEAD: 1_133 * 512 * 30}
    assert work(paper, "flickr-vsepp-rc-neg2/seed-0") == {HEAD: 145_000 * 30}
    tuned = {("step-finetuned", "torchvision/resnet152@224"): 566_435 * 15}
    assert work(paper, "coco-vsepp-rc-rv-resnet-ft/seed-0") == tuned


@pytest.mark.parametrize(
    "changes", [{"label": "inline", "runs": {"default": {"rc_features": "inline"}}}, {"fidelity": "code"}]
)
def test_without_a_tape_every_frozen_run_passes_the_encoder_itself(changes):
    found = costs_of(plan(preset="paper", **changes))
    assert not sizes(found, "tape")
    assert work(found, "flickr-vsepp-rc/seed-0") == {VGG: 145_000 * 30, HEAD: 145_000 * 30}


def test_runs_that_are_not_chosen_cost_nothing():
    found = report(plan(preset="paper", only=["flickr-vsepp-1c"]), {}, {}, 0)
    kinds = [made["kind"] for made in found["artefacts"]]
    assert kinds == ["corpus", "tokens", "store", "encoder", "features", "run", "evaluation"]
    files = {"flickr30k-images.zip", "caption_datasets.zip", "vgg19-dcbb9e9d.pth"}
    assert {file["name"] for file in found["files"]} == files


def test_what_nobody_counted_is_unknown_and_not_guessed():
    chosen = {"label": "x", "corpora": {"flickr": {"dataset": "f30k_precomp"}}, "only": ["flickr-vsepp-1c"]}
    found = report(plan(preset="paper", **chosen), {(*HEAD, "fp32"): 1.0}, {}, 0)
    assert found["runs"] == ["flickr-vsepp-1c"]
    assert found["hours"] == {"hours": 0.0, "missing": ["the number of images"]}
    assert {made["kind"] for made in found["artefacts"] if made["unknown"]} == {"published", "evaluation"}
    text = "\n".join(render(found | {"device": None, "measured": []}))
    assert re.search(r"models +1 .*not measured", text)
    assert "They lack the number of images" in " ".join(text.split())


def test_what_a_million_pairs_would_take_by_hand():
    found = counted(plan(preset="paper", only=["flickr-vsepp-1c"]), 1_000_000)
    images = 200_000 + 1_014 + 1_000
    sizes = {
        "bytes of decoded images": images * 256 * 256 * 3,
        "bytes of encoders": (143_667_240 - 4_097_000) * 4,  # VGG19 without its last layer
        "bytes of features": images * 4096 * 4,
        "bytes of models": (12_000 * 300 + 3 * 1024 * (300 + 1024 + 2) + (4096 + 1) * 1024) * 4,
        "bytes of embeddings": 6_000 * 1024 * 4,
    }
    assert found == {
        "pairs": 1_000_000,
        # Two tables, two files of words, pixels and sizes, an encoder, features, a model and its words, embeddings with recalls
        # and ranks; a manifest each. Pixels, their sizes and features are two files each; the tables, the ids of 1,010,070 captions
        # and their lengths six.
        "files": (3 + 2 * 5) + (3 + 2 * 5) + (3 + 2) + 2 + (2 + 1) + 3 + 4,
        "jobs": 1 + 6 + 2 + 1 + 2 + 1 + 1,
        "steps of all trainings": 7_813 * 30,
        "memory of a training beside its model": 40_000_000,
        "flops to rank all images for all captions": 2 * 5 * images * images * 1024,
        "bytes in all, where known": sum(sizes.values()),
        **sizes,
    }


def test_files_and_jobs_follow_the_shards():
    chosen = plan(preset="paper", only=["flickr-vsepp-rc"])
    one, some, many = (
        counted(chosen, 1_000_000, items, 4) for items in (10**9, 100_000, 10_000)
    )  # 202,014 images, 1,010,070 captions, of which 1,000,000 are trained on
    assert one["files"] == 3 + 3 + 3 + 2 + 2 + (30 + 2) + 3 + 4
    assert one["jobs"] == 8
    # Tables, word ids and pixels have two files a shard, features one; a feature cache of random crops one an epoch, and one more.
    assert some["files"] == one["files"] + 4 * (11 - 1) + 3 * (3 - 1) + 31 * (10 - 1)
    assert some["jobs"] == 8 + 2 * (4 - 1) + 2 * (3 - 1)  # one job writes the tables
    assert many["files"] == one["files"] + 4 * (102 - 1) + 3 * (21 - 1) + 31 * (100 - 1)
    assert many["jobs"] == 8 + 4 * (4 - 1)


def test_the_test_split_is_in_shards_where_it_is_large():
    chosen = plan(only=["coco-vsepp-1c"])
    few, many = counted(chosen, 5_000, 6_000), counted(chosen, 5_000, 1_000)
    # 2,600 images with 13,000 captions; 1,000 of the images and 5,000 of the captions are the test split's.
    assert few["files"] + 4 * (13 - 3) + 3 * (3 - 1) + (5 - 1) == many["files"]
    assert few["jobs"] + (10 - 3) + 2 * (3 - 1) + (5 - 1) == many["jobs"]


def test_a_training_on_windows_holds_no_permutation():
    windows = {"default": {"order": "windows"}}
    chosen = plan(preset="paper", only=["flickr-vsepp-1c"], runs=windows, label="windows")
    assert counted(chosen, 10**8)["memory of a training beside its model"] == 32 * 10**8


def test_a_corpus_of_unknown_size_has_a_caption_an_image_and_what_is_unknown_stays_so():
    chosen = {"label": "x", "corpora": {"flickr": {"dataset": "f30k_precomp"}}, "only": ["flickr-vsepp-1c"]}
    found = counted(plan(preset="paper", **chosen), 1_000)
    assert found["bytes of published features"] is None
    assert found["flops to rank all images for all captions"] == 2 * 1_000 * 1_000 * 1024


def test_a_cut_split_has_all_the_pairs_that_are_asked_for():
    chosen = plan(preset="paper", label="short", corpora={"coco": {"first_images": {"train": 100}}})
    assert counted(chosen, 10_000)["memory of a training beside its model"] == 40 * (10_000 + 5 * 30_504)


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
    rates = read_rates(ROOT / "benchmarks" / "results.csv")["cpu, AMD EPYC, 2 cores"]
    for preset in ("mini", "flickr8k", "paper"):
        assert {work[:3] for cost in costs_of(plan(preset=preset)) for work in cost.work} <= rates.keys()
