"""Artefacts are shared where their parameters are equal, and apart where they differ."""

from pathlib import Path

import pytest

from vsepp.config import make_plan
from vsepp.spec import RunSpec, from_json, to_json

PARAMS = Path(__file__).resolve().parents[3] / "params"


@pytest.fixture(scope="module")
def paper():
    return make_plan(PARAMS, {"preset": "paper"})


def test_frozen_runs_of_a_corpus_and_encoder_share_one_tape(paper):
    rc, rv = paper.runs["coco-vse0-rc"], paper.runs["coco-vsepp-rc-rv"]
    assert rc.tape == rv.tape
    assert paper.tapes[rc.tape].splits == ("train", "restval")
    assert paper.tapes[rc.tape].epochs == 30
    assert {paper.runs[run].tape for run in paper.runs if "-neg" in run} == {
        paper.runs["flickr-vse0-rc"].tape
    }
    assert len(paper.tapes) == 4


def test_seeds_share_the_tape():
    runs = make_plan(PARAMS, {"preset": "paper", "seeds": [0, 1, 2]}).runs
    assert len({spec.draw for spec in runs["flickr-vsepp-rc"].specs.values()}) == 1


def test_a_run_reads_only_what_it_needs(paper):
    one_crop, frozen, tuned = (paper.runs[f"flickr-vsepp-{kind}"] for kind in ("1c", "rc", "rc-ft"))
    assert one_crop.features and not one_crop.tape and not one_crop.train_store
    assert frozen.tape and frozen.eval_features and not frozen.eval_store
    assert tuned.train_store and tuned.eval_store and not tuned.eval_features and not tuned.tape


def test_ten_crop_runs_validate_on_ten_crops(paper):
    run = paper.runs["coco-order0-10c-rv"]
    assert paper.features[run.eval_features].crop.kind == "10C"


def test_vocabulary_is_counted_in_the_runs_own_training_captions(paper):
    assert paper.runs["coco-vse0-rc"].spec.vocabulary.splits == ("train",)
    assert paper.runs["coco-vse0-rc-rv"].spec.vocabulary.splits == ("train", "restval")
    code = make_plan(PARAMS, {"preset": "paper", "fidelity": "code"})
    assert code.runs["coco-vse0-rc"].spec.vocabulary.splits == ("train", "restval", "val", "test")


def test_changed_parameters_get_artefacts_of_their_own():
    before = make_plan(PARAMS, {})
    scenes = {"images": {"flickr": {"train": 801}}}
    after = make_plan(PARAMS, {"label": "x", "scenes": scenes})
    assert set(before.corpora).isdisjoint(after.corpora)
    assert set(before.stores).isdisjoint(after.stores)
    assert before.encoders == after.encoders
    longer = make_plan(PARAMS, {"label": "x", "pretraining": {"epochs": 99}})
    assert set(before.encoders).isdisjoint(longer.encoders)
    assert before.stores.keys() == longer.stores.keys()


@pytest.mark.parametrize(
    "running", [{"precision": "bf16"}, {"memory_format": "contiguous"}, {"compile": "cuda_graphs"}]
)
def test_how_an_encoder_is_run_is_part_of_features_tapes_and_runs(running):
    before = make_plan(PARAMS, {})
    after = make_plan(PARAMS, {"label": "x", "encoders": {"vgg": running}})
    for run in before.runs.values():
        other, same = after.runs[run.spec.id], run.spec.encoder.name != "vgg"
        assert (other.spec.encoder == run.spec.encoder) is same
        assert (other.eval_features == run.eval_features) is (same or run.eval_features is None)
        assert (other.tape == run.tape) is (same or run.tape is None)
    key, value = next(iter(running.items()))
    assert getattr(after.runs["flickr-vsepp-rc"].spec.encoder, key) == value


def test_an_encoder_that_says_nothing_runs_in_fp32_and_uncompiled(paper):
    for encoder in paper.encoders.values():
        assert (encoder.precision, encoder.memory_format, encoder.compile) == ("fp32", "channels_last", "off")


def test_titles_and_folders_change_no_artefact(tmp_path):
    before = make_plan(PARAMS, {"preset": "flickr8k"})
    (tmp_path / "Flickr8k_text.zip").write_bytes(b"")
    after = make_plan(PARAMS, {"preset": "flickr8k", "archives": str(tmp_path)})
    assert before.corpora.keys() == after.corpora.keys()
    corpus = next(iter(after.corpora.values()))
    assert corpus.files["text"] == str(tmp_path / "Flickr8k_text.zip")
    assert corpus.files["images"] == "resources/downloads/Flickr8k_Dataset.zip"


def test_a_spec_survives_its_json():
    for fidelity in ("paper", "code"):
        for run in make_plan(PARAMS, {"preset": "paper", "fidelity": fidelity}).runs.values():
            assert from_json(RunSpec, to_json(run.spec)) == run.spec


def _differences(run, one, other):
    first, second = one.runs[run].spec, other.runs[run].spec
    return {name for name in RunSpec.__dataclass_fields__ if getattr(first, name) != getattr(second, name)}


def test_every_fidelity_key_changes_a_spec():
    paper, code = (make_plan(PARAMS, {"preset": "paper", "fidelity": f}) for f in ("paper", "code"))
    frozen = _differences("flickr-vsepp-rc", paper, code)
    assert {
        "train_store",
        "eval_store",
        "crop",
        "vocabulary",
        "encoder_mode",
        "validation_images",
        "model",
    } <= frozen
    assert {"schedule", "encoder_mode"} <= _differences("flickr-vsepp-rc-ft", paper, code)
    crop, store = code.runs["coco-vse0-rc"].spec.crop, code.runs["coco-vse0-rc"].spec.train_store
    assert (crop.random, crop.flip, store.side, store.resize) == ("resized_crop", True, 384, "short_side")


def test_fidelity_overlays_name_the_same_keys():
    import yaml

    paper, code = (
        yaml.safe_load((PARAMS / "fidelity" / f"{name}.yaml").read_text()) for name in ("paper", "code")
    )
    for section in ("runs", "corpora"):
        assert {key: set(values) for key, values in paper[section].items()} == {
            key: set(values) for key, values in code[section].items()
        }


def test_runs_of_other_lengths_have_tapes_of_their_own():
    before = make_plan(PARAMS, {})
    longer = make_plan(PARAMS, {"label": "x", "runs": {"coco-vse0-rc": {"epochs": 99}}})
    assert longer.runs["coco-vse0-rc"].tape not in before.tapes
    assert longer.runs["coco-vsepp-rc"].tape == before.runs["coco-vsepp-rc"].tape


def test_choosing_runs_changes_no_shared_artefact():
    whole, some = make_plan(PARAMS, {}), make_plan(PARAMS, {"only": "coco-vsepp-rc"})
    assert set(some.runs) == {"coco-vsepp-rc"}
    assert (whole.encoders, whole.tapes, whole.stores) == (some.encoders, some.tapes, some.stores)
    assert whole.runs["coco-vsepp-rc"] == some.runs["coco-vsepp-rc"]
