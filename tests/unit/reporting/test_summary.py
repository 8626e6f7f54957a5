from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from vsepp.reporting.claims import COLLAPSED, NOT_RUN, OPPOSITE, REPRODUCED, SAME, Verdict
from vsepp.reporting.report_specs import ClaimSpec
from vsepp.reporting.summary import answer, headline, provenance, troubles

FOLDER = Path("reports/mini/paper/vsepp")


def verdicts(*words, own=False, seeds=3, place="Table 1"):
    claim = ClaimSpec(
        id="a/i2t_r1", claim="A gains over B.", place=place, kind="difference", runs=("a", "b"), metric="i2t_r1",
        roles=("coco", "vgg"),
    )  # fmt: skip
    return [Verdict(replace(claim, id=f"{k}/i2t_r1"), word, "", own, seeds) for k, word in enumerate(words)]


def test_the_answer_counts_verdicts_and_names_the_data(context):
    said = answer(verdicts(SAME, SAME, OPPOSITE, NOT_RUN), context)
    assert said.startswith(
        "3 claims, each about one metric, were tested on other data or encoders than the paper’s (scenes A and vgg_mini)"
    )
    assert "2 same direction and 1 opposite. 1 more were not run." in said
    assert "not whether the paper’s numbers hold" in said
    own = answer(verdicts(REPRODUCED, OPPOSITE, own=True), context)
    assert own == "Of the 2 claims that were tested, each about one metric: 1 reproduced and 1 opposite."
    assert "supports no claim" in answer(verdicts(SAME, seeds=1), context)
    collapsed = verdicts(COLLAPSED, seeds=0)
    assert "supports no claim" not in answer(collapsed, context)
    assert "supports no claim" in answer([*collapsed, *verdicts(SAME, seeds=1)], context)
    assert "supports no claim" not in answer([*collapsed, *verdicts(SAME, seeds=3)], context)
    assert answer(verdicts(NOT_RUN), context).startswith("None of 1 claims was tested")
    assert answer([], context) == ""


def test_comparisons_of_ones_own_are_counted_apart(models, report, context):
    both = [*verdicts(SAME), *verdicts(OPPOSITE, SAME, place="")]
    said = answer(both, context)
    assert said.startswith("1 claims, each about one metric") and said.endswith(
        "2 comparisons of our own: 1 same direction and 1 opposite."
    )
    lines = [line.strip() for line in headline([], both, models.records, context, FOLDER).splitlines()]
    assert "1 claims, each about one metric:" in lines
    assert "2 comparisons of our own, each about one metric:" in lines


def test_the_headline_says_where_what_came_out_and_what_collapsed(models, report, context):
    models.add("sound")
    models.add("low", i2t=(1.0, 5.0, 10.0, 50, 60.0), t2i=(1.0, 5.0, 10.0, 50, 60.0))
    text = headline([], verdicts(SAME, OPPOSITE, OPPOSITE), models.records, context, FOLDER)
    lines = [line.strip() for line in text.splitlines()]
    assert f"page     {FOLDER}/index.html" in lines
    assert "1  same direction" in lines and "2  opposite" in lines
    assert "low (ranks like chance: seed 0)" in lines
    assert context.data_note in text
    assert troubles(models.records) == ["low (ranks like chance: seed 0)"]


def test_provenance_names_what_plays_the_papers_roles_and_who_made_each_run_once(models, context, own_data):
    old, new = ({"commit": digit * 40, "dirty": False} for digit in "12")
    for seed in (0, 1):
        models.add("a", seed=seed, git=new, trained=old)
    models.add("b", git=new, trained={**old, "dirty": True})
    models.add("c", git=new, trained=new)
    models.add("released", git=new, trained=new, history=())
    git = {"commit": "0123456789abcdef", "dirty": False}
    found = dict(provenance(context, models.records, git))
    assert "vgg_mini in place of VGG19" in found["Data and encoders"]
    assert found["Page written by"] == "0123456789ab"
    assert found["Trained by"] == (
        f"2 models at {'1' * 12}; 1 model at {'1' * 12} + uncommitted changes; 1 model at {'2' * 12}"
    )
    assert found["Evaluated by"] == f"4 models at {'2' * 12}"
    own = dict(provenance(own_data, {}, {**git, "dirty": True}))
    assert own["Data and encoders"] == "MS-COCO, Flickr30K, VGG19 and ResNet152"
    assert own["Page written by"] == "0123456789ab + uncommitted changes"
    assert own["Trained by"] == "nothing was run"
