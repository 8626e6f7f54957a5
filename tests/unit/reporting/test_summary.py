from __future__ import annotations

from pathlib import Path

import pytest
from reported import I2T, T2I

from vsepp.reporting.summary import best_pairs, headline, provenance
from vsepp.reporting.tables import build_table

SETTINGS = {  # row: run, protocol, our R@1 both ways
    "2.1": ("vse0-1c", "1K", 60, 50),
    "1.6": ("vsepp-1c", "1K", 65, 55),
    "2.2": ("vse0-rc", "5x1K", 41, 31),
    "1.7": ("vsepp-rc", "5x1K", 47.26, 33),
    "2.3": ("vse0-rv", "5x1K", 42, 32),
    "1.8": ("vsepp-rv", "5x1K", 46, 36),
    "1.11": ("vsepp-resnet-ft", "5x1K", 70, 60),
    "3.9": ("f-vse0", "1K", 20, 10),
    "3.11": ("f-vsepp", "1K", 25, 12),
}
INDEX = Path("reports/mini/paper/vsepp/index.html")


@pytest.fixture
def tables(models, report, context, published):
    """The paper's tables, filled as `SETTINGS` says, or as given."""

    def make(settings):
        for run, protocol, i2t, t2i in settings.values():
            models.add(run, (i2t, *I2T[1:]), (t2i, *T2I[1:]), protocol)
        feeds = {row: setting[:2] for row, setting in settings.items()}
        return [build_table(spec, context, published, models.records) for spec in report(feeds).tables]

    return make


def test_the_best_pair_has_the_highest_vsepp_over_five_folds(tables, context):
    # 1.11 has no VSE0 beside it, 1.6 is a single fold, so 1.7 with 2.2 it is.
    built = tables(SETTINGS)
    pairs = [tuple(row.spec.row for row in pair) for pair in best_pairs(built, context.paper.compare)]
    assert pairs == [("2.2", "1.7"), ("3.9", "3.11")]
    assert best_pairs(built, ()) == [], "where a paper names no two systems, none are compared"


def test_the_headline_says_where_and_how_much(tables, context):
    text = headline(tables(SETTINGS), context, INDEX)
    lines = text.splitlines()
    assert lines[0] == f"Table 1, Table 2, Table 3 and Table 4, figures and captions: {INDEX}"
    assert any("scenes A" in line and "RC, protocol 5x1K" in line for line in lines)
    (caption,) = [line for line in lines if "41.0" in line]
    assert caption.split() == ["Caption", "retrieval", "VSE0", "41.0", "VSE++", "47.3"]
    assert context.data_note in text
    # 28 distinct rows are trained (26 runs, two of them also under 5K), and 9 were given files.
    assert "19 rows say “not run”." in lines
    assert "R@1" not in headline(tables({}), context, INDEX)


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
        f"1 run at {'1' * 12}; 1 run at {'1' * 12} + uncommitted changes; 1 run at {'2' * 12}"
    )
    assert found["Evaluated by"] == f"3 runs at {'2' * 12}"
    own = dict(provenance(own_data, {}, {**git, "dirty": True}))
    assert own["Data and encoders"] == "MS-COCO, Flickr30K, VGG19 and ResNet152"
    assert own["Page written by"] == "0123456789ab + uncommitted changes"
    assert own["Trained by"] == "nothing was run"
