"""A training that is killed, at any moment and more than once, ends like one that was not."""

import own_loss
import pytest
import tiny_corpus as tiny
import torch
from tiny_corpus import Killed, assert_same_results, killed_at, run_in, weights

from vsepp.base.spec import Component

pytestmark = [pytest.mark.resume, pytest.mark.usefixtures("package")]

STEPS = 4  # of an epoch; three epochs
GPO = Component("gpo")
BERT = {"layers": 1, "hidden": 8, "heads": 2, "intermediate": 8, "dim": 10, "dropout": 0.1}
SETS = {
    "model__image_pooling": GPO,
    "model__caption_pooling": GPO,
    "size_augmentation__drop_vectors": 0.3,
    "size_augmentation__drop_words": 0.3,
}
START = tiny.change(
    tiny.LEGACY, encoder=tiny.ENCODERS["resnet"], model__text__name="bigru", schedule__epochs=1, **SETS
)
RUNS = {
    "RC, negatives beyond the batch": tiny.change(tiny.RC, schedule__negative_set=24),
    "few negatives, curriculum": tiny.change(tiny.FROZEN, schedule__negative_set=2, loss__curriculum=1 / 3),
    "legacy with dropout": tiny.LEGACY,
    "legacy with batch normalisation": tiny.change(tiny.LEGACY, encoder=tiny.ENCODERS["resnet"]),
    "embedded in parts": tiny.change(tiny.LEGACY, schedule__embedded_at_once=5),
    "sets, AdamW": tiny.change(
        tiny.FROZEN,
        model__text__name="bigru",
        model__image_head=Component("regions"),
        optimiser=Component("adamw"),
        **SETS,
    ),
    "BERT with dropout, an optimiser of another package": tiny.change(
        tiny.FROZEN,
        model__text=Component("bert", BERT),
        optimiser=Component("momentum", {"momentum": 0.5}),
        **SETS,
    ),
    "matcher": tiny.change(
        tiny.FROZEN,
        model__text=Component("bert", BERT),
        model__image_pooling=Component("mean"),
        model__caption_pooling=Component("first"),
        model__matcher=Component("fusion", {"layers": 1, "heads": 2, "intermediate": 12, "k": 4}),
        loss=Component("info_nce", {"share_same_image": True}),
    ),
    "a loss of another package": own_loss.RUN,
    "a tuned CNN, frozen for an epoch": tiny.change(
        START,
        finetune_from="tiny",
        encoder_mode="eval",
        schedule__epochs=3,
        schedule__encoder_frozen_epochs=1,
        schedule__warmup=1 / 3,
        schedule__linear_decay=True,
        optimiser=Component("adamw", {"rates": [["encoder.", 0.1]]}),
    ),
}


@pytest.fixture(scope="module")
def start(corpus, tmp_path_factory):
    """Results of the run that a tuned one starts from."""
    return run_in(tmp_path_factory.mktemp("start"), START, tiny.data_of(START, corpus))[0]


@pytest.mark.parametrize("name", RUNS)
def test_a_killed_training_ends_bit_identical_with_one_that_was_not(corpus, sets, start, tmp_path, name):
    run = RUNS[name]
    pooled_features = run.model.image_pooling is not None and not run.live_encoder
    data = tiny.data_of(run, corpus, **({"features": sets} if pooled_features else {}))
    options = {"folders": own_loss.folders(corpus), "init_from": start if run.finetune_from else None}
    whole, _ = run_in(tmp_path / "whole", run, data, **options)
    cut = tmp_path / "cut"
    # After steps 3, 3 + 4 and 3 + 4 + 4 of twelve: within the first, the second and the third epoch.
    for call in (3, 4, 4):
        torch.manual_seed(call)
        with pytest.raises(Killed):
            run_in(cut, run, killed_at(data, call), checkpoint_seconds=0, **options)
        assert not (cut / "out").exists()
    torch.manual_seed(99)
    out, facts = run_in(cut, run, killed_at(data, 1), **options)  # one step is left
    assert facts["epochs"] == 3
    assert_same_results(whole, out)
    states = [folder / "loss.safetensors" for folder in (whole, out)]
    assert not states[0].exists() or states[0].read_bytes() == states[1].read_bytes()
    assert states[0].exists() == (run.loss.name in ("info_nce", own_loss.RUN.loss.name))


@pytest.mark.parametrize(
    ("validations", "steps"), [(1, STEPS), (3, 0)], ids=["in the second epoch", "before the test split"]
)
def test_a_training_killed_in_a_validation_validates_again(corpus, tmp_path, validations, steps):
    data = tiny.data_of(tiny.LEGACY, corpus)
    whole, _ = run_in(tmp_path / "whole", tiny.LEGACY, data)
    with pytest.raises(Killed):
        run_in(tmp_path / "cut", tiny.LEGACY, killed_at(data, validations, "eval"), checkpoint_seconds=0)
    assert not (tmp_path / "cut" / "out").exists()
    out, _ = run_in(tmp_path / "cut", tiny.LEGACY, killed_at(data, steps))  # so many steps are left
    assert_same_results(whole, out)


def test_a_training_that_ends_early_ends_there_again(corpus, tmp_path):
    schedule = {"schedule__epochs": 12, "schedule__learning_rate": 0.05, "schedule__patience": 1}
    run = tiny.change(tiny.FROZEN, **schedule)
    data = tiny.data_of(run, corpus)
    whole, facts = run_in(tmp_path / "whole", run, data)
    assert facts["epochs"] < 12
    with pytest.raises(Killed):
        run_in(tmp_path / "cut", run, killed_at(data, facts["epochs"] * STEPS - 1), checkpoint_seconds=0)
    out, _ = run_in(tmp_path / "cut", run, data)
    assert_same_results(whole, out)


def test_a_training_killed_while_publishing_publishes(corpus, tmp_path):
    data = tiny.data_of(tiny.FROZEN, corpus)
    out, _ = run_in(tmp_path, tiny.FROZEN, data, checkpoint_seconds=0)
    before = weights(out)
    (out / "model.safetensors").unlink()
    run_in(tmp_path, tiny.FROZEN, killed_at(data, 0))  # no step is taken again
    assert all(torch.equal(value, before[key]) for key, value in weights(out).items())
