"""Inheritance, layers, and every mistake that a user can make in `params/`."""

import shutil
from pathlib import Path

import pytest
import yaml

from vsepp.config import make_plan
from vsepp.config.resolve import load
from vsepp.errors import VseppError

PARAMS = Path(__file__).resolve().parents[3] / "params"


@pytest.fixture
def params(tmp_path):
    return Path(shutil.copytree(PARAMS, tmp_path / "params"))


def edit(path, change):
    content = yaml.safe_load(path.read_text())
    change(content)
    path.write_text(yaml.safe_dump(content))


def complaint(folder, overrides=None):
    with pytest.raises(VseppError) as caught:
        make_plan(folder, overrides)
    return str(caught.value)


@pytest.mark.parametrize("preset", ["mini", "flickr8k", "paper"])
@pytest.mark.parametrize("fidelity", ["paper", "code"])
def test_every_shipped_configuration_is_valid(preset, fidelity):
    plan = make_plan(PARAMS, {"preset": preset, "fidelity": fidelity})
    assert plan.runs
    assert plan.variant == fidelity


def test_the_paper_has_26_runs_and_six_more_negative_set_sizes():
    runs = make_plan(PARAMS, {"preset": "paper"}).runs
    negatives = {name for name in runs if "-neg" in name}
    assert len(runs) - len(negatives) == 26
    assert {runs[name].spec.loss.negative_set for name in negatives} == {2, 8, 32, 64, 256, 512}


def test_paper_runs_have_the_papers_hyperparameters():
    plan = make_plan(PARAMS, {"preset": "paper"})
    spec = plan.runs["coco-vsepp-rc-rv"].spec
    assert (spec.schedule.batch_size, spec.schedule.epochs, spec.schedule.learning_rate) == (128, 30, 0.0002)
    assert (spec.schedule.drop_at, spec.schedule.drop_factor, spec.loss.margin) == (0.5, 0.1, 0.2)
    assert (spec.model.text_dim, spec.model.joint_dim, spec.model.word_dim) == (1024, 1024, 300)
    order0 = plan.runs["coco-order0-10c-rv"].spec
    assert (order0.loss.margin, order0.schedule.learning_rate, order0.model.absolute) == (0.05, 0.001, True)
    tuned = plan.runs["flickr-vse0-rc-resnet-ft"].spec
    assert (tuned.finetune_from, tuned.schedule.epochs) == ("flickr-vse0-rc-resnet", 15)
    assert tuned.schedule.learning_rate == 0.00002
    assert not tuned.model.normalise_images


def test_layers_take_precedence_in_the_documented_order(params):
    run = "flickr-vsepp-rc"
    edit(params / "runs.yaml", lambda runs: runs["vsepp"].update(margin=0.11))
    assert load(params, {}).get(run, "margin") == 0.11
    edit(params / "runs.yaml", lambda runs: runs[run].update(margin=0.12))
    assert load(params, {}).get(run, "margin") == 0.12
    edit(params / "fidelity" / "paper.yaml", lambda f: f["runs"]["default"].update(margin=0.13))
    assert load(params, {}).get(run, "margin") == 0.13
    edit(params / "presets" / "mini.yaml", lambda p: p["runs"]["default"].update(margin=0.14))
    assert load(params, {}).get(run, "margin") == 0.14
    overrides = {"label": "trial", "runs": {"default": {"margin": 0.15}}}
    resolved = load(params, overrides)
    assert resolved.get(run, "margin") == 0.15
    assert resolved.all_runs[run]["margin"].origin == "--config: default"


def test_of_several_bases_the_later_wins_and_the_root_is_applied_once(params):
    tuned = load(params, {"preset": "paper"})
    assert tuned.get("coco-vse0-rc-rv-ft", "learning_rate") == 0.00002
    assert tuned.get("coco-vse0-rc-rv-ft", "system") == "VSE0"


def test_rows_are_not_inherited():
    runs = load(PARAMS, {"preset": "paper"})
    assert runs.get("coco-vsepp-rc-rv-resnet", "feeds") == {"1.10": "5x1K"}
    assert runs.get("flickr-vsepp-rc-neg2", "feeds") == {}


def test_all_mistakes_are_reported_at_once(params):
    edit(params / "runs.yaml", lambda runs: runs["coco-vse0-1c"].update(epochs="ten", colour="red"))
    edit(params / "presets" / "mini.yaml", lambda p: p["evaluation"].update(fold_size=0))
    text = complaint(params)
    assert "3 mistakes" in text
    assert "runs.yaml: runs.coco-vse0-1c.epochs: got 'ten'" in text
    assert "runs.coco-vse0-1c.colour: unknown key; known here are" in text
    assert "mini.yaml: evaluation.fold_size: got 0" in text


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"base": "nobody"}, "base: got 'nobody', which is no entry"),
        ({"base": "odd"}, "inherits from itself: odd → odd"),
        ({"base": "vsepp", "dataset": "coco", "trainset": "RC", "encoder": "alexnet"}, "encoder: got 'alexnet'"),
        ({"base": "vsepp", "dataset": "coco", "trainset": "RC", "loss": "nca"}, "loss: got 'nca'"),
        ({"base": "vsepp", "dataset": "coco", "trainset": "RC", "negative_set": 1}, "negative_set: got 1"),
        ({"base": "vsepp", "dataset": "flickr", "trainset": "RC+rV"}, "only COCO has restval"),
        ({"base": "vsepp", "dataset": "coco", "trainset": "RC", "finetune_from": "odd"}, "finetune_from: got 'odd'"),
        ({"base": "vsepp", "dataset": "coco", "trainset": "RC", "finetune_from": "coco-vse0-rc-rv-ft"}, "fine-tuned itself"),
        ({"base": "vsepp", "dataset": "coco", "trainset": "1C", "finetune_from": "coco-vsepp-rc"}, "needs images"),
        ({"base": "vsepp", "dataset": "coco", "trainset": "RC", "feeds": {"1.7": "1K"}}, "row 1.7 is fed by"),
        ({"base": "vsepp", "dataset": "coco", "trainset": "RC", "feeds": {"9.9": "1K"}}, "odd.feeds: row 9.9 is not in published.csv"),
        ({"base": "vsepp", "trainset": "RC"}, "no layer gives dataset"),
        ({"base": "vsepp", "dataset": "coco", "trainset": "RC"}, "odd.protocols: got none and feeds no row"),
        ({"base": "coco-vsepp-rc", "finetune_from": "coco-vsepp-rc-rv", "protocols": ["1K"]}, "odd.trainset: got 'RC'"),
        ({"base": "vsepp", "dataset": "coco", "trainset": "RC", "text_dim": 7}, "joint_dim: got 128 with text_dim 128"),
    ],
)  # fmt: skip
def test_a_wrong_run_is_named_with_what_is_wrong(params, entry, expected):
    edit(params / "runs.yaml", lambda runs: runs.update(odd=entry))
    if "text_dim" in entry:
        # The preset's dimension wins over the run's, so the contradiction has to come from the command line.
        edit(params / "runs.yaml", lambda runs: runs.pop("odd"))
        text = complaint(params, {"label": "x", "runs": {"default": {"text_dim": 7}}})
        assert "joint_dim: got 128 with text_dim 7" in text
        return
    text = complaint(params)
    assert expected in text
    assert "odd" in text


def test_two_runs_with_one_id_are_refused_with_both_lines(params):
    path = params / "runs.yaml"
    path.write_text(path.read_text() + "\ncoco-vse0-1c: {base: vse0, dataset: coco, trainset: 1C}\n")
    text = complaint(params)
    assert "`coco-vse0-1c` stands twice, in lines" in text
    assert "runs.yaml" in text


def test_a_cycle_of_bases_is_spelled_out(params):
    edit(params / "runs.yaml", lambda runs: runs.update(a={"base": "b"}, b={"base": "a"}))
    assert "a → b → a" in complaint(params)


def test_overrides_need_a_label_of_their_own():
    assert "without a label" in complaint(PARAMS, {"runs": {"default": {"epochs": 1}}})
    assert "names a fidelity" in complaint(PARAMS, {"label": "paper", "runs": {"default": {"epochs": 1}}})
    plan = make_plan(PARAMS, {"label": "short", "runs": {"default": {"epochs": 1}}})
    assert plan.variant == "short"
    assert plan.runs["coco-vse0-1c"].spec.schedule.epochs == 1


def test_choosing_runs_seeds_and_resources_needs_no_label():
    plan = make_plan(PARAMS, {"only": "*-1c", "seeds": [3, 4], "resources": {"threads": 2}})
    assert set(plan.runs) == {"coco-vse0-1c", "coco-vsepp-1c", "flickr-vse0-1c", "flickr-vsepp-1c"}
    assert [spec.init_seed for spec in plan.runs["coco-vse0-1c"].specs.values()] == [3, 4]


def test_a_selected_fine_tuned_run_brings_the_run_it_starts_from():
    assert set(make_plan(PARAMS, {"only": "flickr-vse0-rc-ft"}).runs) == {
        "flickr-vse0-rc",
        "flickr-vse0-rc-ft",
    }


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({"only": "nothing-*"}, "matches no run"),
        ({"archives": "/no/such/folder"}, "archives: got '/no/such/folder', which is no folder"),
        ({"label": "x", "evaluation": {"fold_size": 201}}, "fold_size: got 201; 5 such folds need more than the 1000"),
        ({"preset": "huge"}, "no such file; there are flickr8k, mini, paper"),
        ({"fidelity": "poster"}, "fidelity: got 'poster'"),
        ({"seeds": []}, "seeds: got []"),
        ({"label": "x", "epochs": 3}, "epochs: unknown key; known are"),
        ({"label": "x", "runs": 3}, "runs: got 3; expected keys and values"),
        ({"label": "x", "runs": {"nobody": {"epochs": 3}}}, "runs.nobody: no such entry"),
        ({"label": "x", "encoders": {"vgg": {"architecture": "keras/vgg"}}}, "encoders.vgg.architecture"),
        ({"label": "x", "corpora": {"coco": {"dataset": "imagenet"}}}, "corpora.coco.dataset: got 'imagenet'"),
        ({"label": "x", "tables": ["table9"]}, "got 'table9'; tables.yaml has"),
    ],
)  # fmt: skip
def test_a_wrong_override_is_named(overrides, expected):
    assert expected in complaint(PARAMS, overrides)


def test_files_that_are_no_yaml_mapping_are_named(params):
    (params / "runs.yaml").write_text("- a\n- b\n")
    assert "expected keys and values, got list" in complaint(params)
    (params / "runs.yaml").write_text("a: [1\n")
    assert "not valid YAML" in complaint(params)


def test_null_on_a_command_line_is_nothing():
    runs = {"flickr-vsepp-rc-neg2": {"negative_set": "null"}}
    plan = make_plan(PARAMS, {"label": "x", "runs": runs, "only": "null"})
    assert plan.runs["flickr-vsepp-rc-neg2"].spec.loss.negative_set is None
    assert len(plan.runs) == 32
