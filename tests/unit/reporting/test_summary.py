from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from vsepp.reporting.origins import read_origin
from vsepp.reporting.specs import RowSpec
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


@pytest.fixture
def tables(write_metrics, report, context, published):
    rows = {}
    for row, (run, protocol, i2t, t2i) in SETTINGS.items():
        file = write_metrics(run, [i2t, 76, 86, 2, 5], [t2i, 66, 80, 3, 9], protocol)
        rows[row] = RowSpec(row, run, protocol, (file,))
    return [build_table(spec, context, published) for spec in report(rows).tables]


def test_the_best_pair_has_the_highest_vsepp_over_five_folds(tables):
    # 1.11 has no VSE0 beside it, 1.6 is a single fold, so 1.7 with 2.2 it is.
    pairs = {pair.dataset: (pair.vse0.number, pair.vsepp.number) for pair in best_pairs(tables)}
    assert pairs == {"coco": ("2.2", "1.7"), "flickr": ("3.9", "3.11")}


def test_the_headline_says_where_and_how_much(tables, context):
    text = headline(tables, Path("reports/mini/paper/index.html"))
    lines = text.splitlines()
    assert "reports/mini/paper/index.html" in lines[0]
    assert any("scenes A" in line and "RC, protocol 5x1K" in line for line in lines)
    (caption,) = [line for line in lines if "41.0" in line]
    assert caption.split() == ["Caption", "retrieval", "VSE0", "41.0", "VSE++", "47.3"]
    assert context.data_note in text
    # 28 distinct rows are trained (26 runs, two of them also under 5K), and 9 were given files.
    assert "19 rows say “not run”." in lines


def test_nothing_run_gives_a_headline_without_numbers(report, context, published):
    empty = [build_table(spec, context, published) for spec in report().tables]
    assert best_pairs(empty) == []
    assert "R@1" not in headline(empty, Path("index.html"))


def test_provenance_names_what_plays_the_papers_roles(tables, context):
    found = dict(provenance(tables, context))
    assert "vgg_mini in place of VGG19" in found["Data and encoders"]
    assert found["Page written by"] == "0123456789ab"
    assert (found["Trained by"], found["Evaluated by"]) == ("not known", "9 runs at unknown")
    own = dict(provenance(tables, replace(context, titles=context.paper_titles, dirty=True)))
    assert own["Data and encoders"] == "MS-COCO, Flickr30K, VGG19 and ResNet152"
    assert own["Page written by"] == "0123456789ab + uncommitted changes"


def test_provenance_lists_who_trained_and_who_evaluated_each_run_once(
    write_metrics, write_history, report, context, published
):
    old, new = {"commit": "1" * 40, "dirty": False}, {"commit": "2" * 40, "dirty": False}
    rows = {}
    for row, (run, trained) in {"2.2": ("a", old), "1.7": ("b", {**old, "dirty": True})}.items():
        file = write_metrics(run, [41, 76, 86, 2, 5], [30, 66, 80, 3, 9], git=new, trained=trained)
        rows[row] = RowSpec(row, run, "5x1K", (file,))
    tables = [build_table(spec, context, published) for spec in report(rows).tables]
    curves = [("a", read_origin(Path(write_history("a", [1, 2], git=old))))]
    curves += [("c", read_origin(Path(write_history("c", [1, 2], git=new))))]
    found = dict(provenance([*tables, *tables], context, curves))
    assert found["Trained by"] == (
        f"1 run at {'1' * 12}; 1 run at {'1' * 12} + uncommitted changes; 1 run at {'2' * 12}"
    )
    assert found["Evaluated by"] == f"2 runs at {'2' * 12}"
    assert "1 row is marked †: made in part with uncommitted changes." in headline(tables, Path("index.html"))
    empty = [build_table(spec, context, published) for spec in report().tables]
    assert dict(provenance(empty, context))["Trained by"] == "nothing was run"
