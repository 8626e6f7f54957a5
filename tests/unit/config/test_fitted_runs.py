"""Runs that are fitted in closed form: what is refused, and that other runs know nothing of them."""

import re

import pytest
from plans import edit, plan, refused

from vsepp.config import make_plan
from vsepp.spec import RunSpec, from_dict, to_dict

RUNS = "papers/vsepp/runs.yaml"
MINILM = {"name": "bert", "weights": "minilm", "layers": 6, "hidden": 384, "intermediate": 1536}
FIT = {
    "base": "coco-vsepp-1c",
    "protocols": ["1K"],
    "text": {**MINILM, "dim": 384, "frozen": True},
    "joint_dim": 384,
    "caption_pooling": "mean",
    "fit": "ridge",
}
RC = {"trainset": "RC"}
# What is added to a fitted run → the key that is named, and why.
WRONG = {
    "crops": (RC, "trainset: got trainset RC with a fit, where an image is one vector, the same in each pair; expected 1C or 10C or 1C+rV or 10C+rV"),
    "live": ({**RC, "frozen_mode": "legacy-python3"}, "trainset: got trainset RC with a fit"),
    "tuned": ({**RC, "finetune_from": "coco-vsepp-rc"}, "finetune_from: got finetune_from coco-vsepp-rc with a fit, where it has no steps; expected None"),
    "regions": ({"trainset": "regions", "image_pooling": "mean"}, "image_pooling: got image_pooling mean with a fit, where an image is one vector"),
    "grid": ({"image_pooling": "gpo"}, "image_pooling: got image_pooling gpo with a fit"),
    "head": ({"image_head": "regions"}, "image_head: got image_head regions with a fit, where it computes W and b; expected linear"),
    "plain": ({"image_bias": False}, "image_bias: got image_bias False with a fit"),
    "thawed": ({"text": {**MINILM, "dim": 384}}, "text: got text.frozen False with a fit, where it takes states that nothing trains; expected True"),
    "gru": ({"text": {"name": "gru", "dim": 384}, "caption_pooling": None}, "text: got text.frozen None with a fit"),
    "most": ({"caption_pooling": "max"}, "caption_pooling: got caption_pooling max with a fit, where its map of a caption's states stands before the pooling"),
    "mapped": ({"caption_projection": True}, "caption_projection: got caption_projection True with a fit"),
    "matched": ({"matcher": "fusion"}, "matcher: got matcher fusion with a fit, where it has no steps; expected None"),
    "thinned": ({"drop_words": 0.2}, "drop_words: got drop_words 0.2 with a fit"),
    "negative": ({"fit": {"name": "ridge", "alphas": [-1.0]}}, "fit: option alphas.0 of fit ridge: got -1.0; input should be greater than 0"),
    "empty": ({"fit": {"name": "cca", "alphas": []}}, "fit: option alphas of fit cca: got []"),
    "none": ({"fit": "lasso"}, "fit: no fit is named 'lasso'; there are cca, ridge"),
}  # fmt: skip


@pytest.mark.parametrize("run", WRONG)
def test_what_cannot_be_fitted_is_refused_with_the_reason(params, run):
    changes, said = WRONG[run]
    edit(params / RUNS, {run: {**FIT, **changes}})
    text = refused(params)
    assert re.search(rf"runs\.{run}\.", text) and said in text


def study():
    return plan(preset="flickr8k", papers=["flickr8k_study"])


def test_a_fitted_run_is_planned_as_any_run_on_features_and_states(params):
    # Without the records beside the project's own parameters.
    table = make_plan(params, {"preset": "flickr8k", "papers": ["flickr8k_study"]}).table
    for fit in ("ridge", "cca"):
        made = table["run", f"f8k-{fit}-minilm/seed-0"]
        assert made.inputs.keys() == {"corpus", "tokens", "features", "caption_states", "encoder"}
        assert ("fit", fit) in made.spec.components
        assert not {"loss", "optimiser"} & dict(made.spec.components).keys()
        assert from_dict(RunSpec, to_dict(made.spec)) == made.spec


@pytest.mark.parametrize("preset", ["mini", "flickr8k", "paper"])
def test_specs_of_other_runs_say_nothing_of_fits(preset):
    papers = [["vsepp"], ["goal"], ["objectives"], ["relative_margins"], ["vse_infinity"], ["vsepp", "cxc"]]
    papers += [["flickr8k_study"], ["vse_infinity_study"]] if preset == "flickr8k" else []
    fitted = set()
    for chosen in papers:
        for name, model in plan(preset=preset, papers=chosen).models.items():
            said = to_dict(model.spec)
            if "fit" in said:
                fitted.add(name)
            else:
                assert model.spec.components[-2:] == [
                    ("loss", model.spec.loss.name),
                    ("optimiser", model.spec.optimiser.name),
                ]
    assert fitted == ({"f8k-ridge-minilm", "f8k-cca-minilm"} if preset == "flickr8k" else set())


def test_a_fitted_run_has_no_learning_curve():
    figures = {figure.id: figure for figure in study().table["report", "flickr8k_study"].spec.figures}
    runs = figures["learning-curves"].runs
    assert "f8k-vsepp-1c-whole" in runs and not {"f8k-ridge-minilm", "f8k-cca-minilm"} & {*runs}
