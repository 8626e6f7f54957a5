from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from vsepp.report.claims import (
    COLLAPSED,
    LARGER,
    NOT_RUN,
    ONE_SEED,
    OPPOSITE,
    REPRODUCED,
    SAME,
    Difference,
    Verdict,
)
from vsepp.report.summary import answer, compared, headline, provenance, tiles, troubles

PAGE = Path("reports/mini/index.html")


def verdicts(*words, own=False, seeds=3, place="Table 1"):
    claim = Difference(
        claim="A gains over B.", place=place, kind="difference", runs=("a", "b"), protocol="1K", published={"i2t_r1": None}
    )  # fmt: skip
    made = partial(Verdict, claim, "i2t_r1", why="", own=own, seeds=seeds, roles=("coco", "vgg"))
    return [made(word=word, name=str(place)) for place, word in enumerate(words)]


def test_four_tiles_count_the_verdicts():
    found = tiles(verdicts(SAME, SAME, REPRODUCED, LARGER, OPPOSITE, ONE_SEED, COLLAPSED, NOT_RUN))
    assert [(tile.outcome, tile.number, tile.verdicts) for tile in found] == [
        ("as claimed", 3, "1 reproduced and 2 same direction"),
        ("inconclusive", 1, "1 inconclusive (one seed)"),
        ("not as claimed", 2, "1 larger and 1 opposite"),
        ("no result", 2, "1 not reproduced: collapsed and 1 not run"),
    ]


def test_the_answer_names_the_data_and_what_it_cannot_say(context):
    some = verdicts(SAME, SAME, OPPOSITE, NOT_RUN)
    tested = "3 of 4 claims, each about one metric, were tested on scenes A and vgg_mini"
    assert answer(some, context) == f"{tested}."  # the page has a note of the data
    assert answer(some, replace(context, data_note="")) == f"{tested}, not on the paper’s data and encoders."
    own = answer(verdicts(REPRODUCED, OPPOSITE, own=True), context)
    assert own == "2 of 2 claims, each about one metric, were tested on the paper’s data and encoders."
    assert "supports no claim" in answer(verdicts(SAME, seeds=1), context)
    collapsed = verdicts(COLLAPSED, seeds=0)
    assert "supports no claim" not in answer(collapsed, context)
    assert "supports no claim" in answer([*collapsed, *verdicts(SAME, seeds=1)], context)
    assert "supports no claim" not in answer([*collapsed, *verdicts(SAME, seeds=3)], context)
    assert answer(verdicts(NOT_RUN), context).startswith("None of 1 claims was tested")
    assert answer([], context) == ""


def test_comparisons_of_ones_own_are_counted_apart(models, context):
    own = verdicts(OPPOSITE, SAME, NOT_RUN, place="")
    assert compared(own) == "2 comparisons of our own: 1 same direction and 1 opposite; 1 more were not run."
    assert compared([]) == compared(own[2:]) == ""
    text = headline([], [*verdicts(SAME), *own], models.records, "", context, PAGE)
    lines = [line.strip() for line in text.splitlines()]
    assert "1 claims, each about one metric:" in lines
    assert "3 comparisons of our own, each about one metric:" in lines


def test_the_headline_says_what_came_out_what_collapsed_and_what_to_do_next(models, context, monkeypatch):
    monkeypatch.setenv("UV", "/bin/uv")
    models.add("sound")
    models.add("low", i2t=(1.0, 5.0, 10.0, 50, 60.0), t2i=(1.0, 5.0, 10.0, 50, 60.0))
    for name, (spec,) in models.specs.items():
        models.specs[name] = [replace(spec, pictures="pictures")]
    records = models.records
    text = headline([], verdicts(SAME, OPPOSITE, OPPOSITE), records, "2 scores", context, PAGE)
    lines = [line.strip() for line in text.splitlines()]
    assert "1  same direction" in lines and "2  opposite" in lines
    assert "low (ranks like chance: seed 0)" in lines
    assert context.data_note in text
    assert lines[-3:] == [
        "2 scores",
        f"open    {PAGE}",
        f"next    uv run vsepp serve {models.specs['sound'][0].run}",
    ]
    assert troubles(records) == ["low (ranks like chance: seed 0)"]
    monkeypatch.delenv("UV")
    assert "next    vsepp serve" in headline([], [], records, "", context, PAGE)


def test_provenance_names_what_plays_the_papers_roles_and_who_made_each_run_once(models, context, own_data):
    old, new = ({"commit": digit * 40, "dirty": False} for digit in "12")
    for seed in (0, 1):
        models.add("a", seed=seed, git=new, trained=old)
    models.add("b", git=new, trained={**old, "dirty": True})
    models.add("c", git=new, trained=new)
    models.add("released", git=new, trained=new, history=())
    git = {"commit": "0123456789abcdef", "dirty": False}
    found = dict(provenance(context, models.records, [], git, {}))
    assert "vgg_mini in place of VGG19" in found["Data and encoders"]
    assert found["Page written by"] == "0123456789ab"
    assert found["Trained by"] == (
        f"2 models at {'1' * 12}; 1 model at {'1' * 12} + uncommitted changes; 1 model at {'2' * 12}"
    )
    assert found["Evaluated by"] == f"4 models at {'2' * 12}"
    own = dict(provenance(own_data, {}, [], {**git, "dirty": True}, {}))
    assert own["Data and encoders"] == "MS-COCO, Flickr30K, VGG19 and ResNet152"
    assert own["Page written by"] == "0123456789ab + uncommitted changes"
    assert own["Trained by"] == "nothing was run"
