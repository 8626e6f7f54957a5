"""Images, captions, pairs and steps, against numbers that were worked out by hand and against the batches."""

from dataclasses import replace
from pathlib import Path

import pytest

from vsepp.config import make_plan
from vsepp.costs.counts import images_of, pairs_embedded, training_pairs
from vsepp.training import batches

PARAMS = Path(__file__).resolve().parents[3] / "params"


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
    assert training_pairs(paper, paper.runs[run]) == pairs
    assert batches.steps_per_epoch(pairs, spec.schedule.batch_size) == steps


@pytest.mark.parametrize(
    ("pairs", "batch", "negatives"), [(37, 8, None), (37, 8, 4), (37, 8, 20), (10, 8, 64)]
)
def test_pairs_embedded_are_those_of_the_batches(paper, pairs, batch, negatives):
    spec = paper.runs["flickr-vsepp-rc"].spec
    spec = replace(
        spec,
        loss=replace(spec.loss, negative_set=negatives),
        schedule=replace(spec.schedule, batch_size=batch),
    )
    epoch = batches.epoch_batches(pairs, batch, order_seed=0, epoch=0, negative_set=negatives)
    assert pairs_embedded(spec, pairs) == sum(len(step.pairs) for step in epoch)


def test_a_generated_corpus_has_the_scenes_of_the_preset():
    mini = make_plan(PARAMS, {})
    assert training_pairs(mini, mini.runs["coco-vsepp-rc-rv"]) == (1200 + 400) * 5


def test_a_shortened_corpus_has_its_first_images():
    overrides = {"preset": "paper", "label": "short", "corpora": {"coco": {"first_images": {"train": 100}}}}
    plan = make_plan(PARAMS, overrides)
    run = plan.runs["coco-vsepp-rc-rv"]
    assert training_pairs(plan, run) == (100 + 30_504) * 5
    assert images_of(plan.corpora[run.corpus]) == 100 + 30_504 + 5_000 + 5_000
