"""The files of a report: its page, tables in all forms, numbers for DVC, entry page and headline."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from statistics import stdev

import pytest
from csv_rows import csv_rows
from trained_models import DIRTY, I2T, OWN, T2I, Models, seal

from vsepp.base import spec as specs
from vsepp.report.claims import Difference
from vsepp.report.folders import TEMPLATES
from vsepp.report.index_page import answer, provenance, tiles
from vsepp.report.pages import headline, write_entry, write_report
from vsepp.report.verdicts import (
    COLLAPSED,
    LARGER,
    NOT_RUN,
    ONE_SEED,
    OPPOSITE,
    REPRODUCED,
    SAME,
    Measured,
    Verdict,
)

CHANCE = (0.5, 2.0, 4.0, 60, 60.0)


class Page(HTMLParser):
    """Tables by id with the text of their cells row by row, links, ids, what is loaded, and tags that were left open."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.links, self.open, self.ids, self.loaded, self.row = {}, [], [], [], [], None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag not in ("meta", "br", "img", "link"):
            self.open.append(tag)
        self.ids += [attrs["id"]] if "id" in attrs else []
        self.links += [attrs["href"]] if tag == "a" else []
        if tag == "link" or not attrs.get("src", "data:").startswith("data:"):
            self.loaded.append(attrs.get("src") or tag)
        if tag == "table":
            self.rows = self.tables.setdefault(attrs.get("id", "claims"), [])
        if "data-row" in attrs:
            self.row = []
            self.rows.append((attrs["data-row"], self.row))
        if tag in ("td", "th") and self.row is not None:
            self.row.append([])

    def handle_startendtag(self, tag, attrs):
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        self.row = None if tag == "tr" else self.row

    def handle_data(self, data):
        if self.row:
            self.row[-1] += data.split()


def text_of(folder, page):
    return (folder / f"{page}.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(report_folder):
    return Page(text_of(report_folder, "index"))


def test_it_has_the_files_that_its_spec_names(report_spec, report_folder):
    written = {
        path.relative_to(report_folder).as_posix() for path in report_folder.rglob("*") if path.is_file()
    }
    assert "figures/gaps.svg" in report_spec.files
    assert "†" in (report_folder / "headline.txt").read_text(encoding="utf-8"), "uncommitted code"
    assert written == {"index.html", *report_spec.files}


def test_the_page_holds_every_row_of_every_table_in_order(report_spec, page):
    assert page.open == []
    for name, table in report_spec.tables:
        expected = [row if isinstance(row, str) else row.run for row in table.rows]
        assert [number for number, _ in page.tables[name]] == expected
    rows = dict(page.tables["table2"])
    assert [rows["2.2"][3], rows["2.2"][11]] == [["50.3", "±", "0.0"], ["43.1"]], "ours, the paper's"
    assert [rows["1.7"][0], rows["1.7"][3], rows["1.7"][11]] == [["1.7", "†"], ["55.0"], ["49.0"]]
    assert [rows["2.4"][3], rows["2.4"][11]] == [[], ["50.1"]]
    assert "run" in rows["2.4"][1], "not run"
    own = dict(page.tables["margins"])
    assert ["60.0"] in own["mine"]
    assert own["later"][:2] == [[], ["My_1", "<i>", "&", "50", "%", "not", "run"]]


def test_the_page_loads_its_figures_alone_and_its_links_lead_to_all_files(report_folder, page):
    text = (report_folder / "index.html").read_text(encoding="utf-8")
    assert sorted(page.loaded) == sorted(
        f"figures/{path.name}" for path in (report_folder / "figures").glob("*.svg")
    )
    assert not re.search(r"url\(\s*['\"]?http|@import", text)
    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    linked = {link for link in page.links if not link.startswith("#")}
    files = {path.relative_to(report_folder).as_posix() for path in report_folder.glob("[tfr]*s/*")}
    assert linked == files | {"claims.csv"}
    for run in (report_folder / "runs").iterdir():
        other = Page(run.read_text(encoding="utf-8"))
        assert other.open == [] and other.loaded == [] and len(other.ids) == len(set(other.ids))
        assert all((run.parent / link).is_file() for link in other.links if not link.startswith("#"))
        assert {link[1:] for link in other.links if link.startswith("#")} <= set(other.ids)
    for table in (report_folder / "tables").glob("*.html"):
        assert f"../index.html#section-{table.stem}" in Page(table.read_text(encoding="utf-8")).links
        assert f"section-{table.stem}" in page.ids
    assert page.links.count("runs/vsepp.html") >= 4, "row number and label of two tables"


@pytest.mark.parametrize(
    "step, first", [("features", "Did it reproduce?"), ("scenes", "What this run shows")]
)
def test_a_report_leads_with_verdicts_and_on_generated_scenes_with_what_these_can_answer(
    report, tmp_path, step, first
):
    models = Models(tmp_path / "results")
    for run in ("a", "b", "lost"):
        models.add(run, measured_on=step, collapsed=run == "lost")
    claim = Difference(
        claim="A gains over B.", place="Table 2", kind="difference", runs=("a", "b"), protocol="5x1K", published={"i2t_r1": 1.0}
    )  # fmt: skip
    spec = report({"1.7": ("a", "5x1K"), "2.2": ("b", "5x1K")}, models.all)
    spec = replace(spec, claims=(("gain", claim),), figures=(), runs={**spec.runs, "a": OWN, "b": OWN})
    write_report(spec, tmp_path / "report", tmp_path)
    text = text_of(tmp_path / "report", "index")
    claims = text.index('<section id="claims">')
    assert text.index(f"<h2>{first}</h2>") < text.index('id="section-table2"') < claims
    has_verdicts = step != "scenes"
    assert ("generated scenes cannot answer</summary>" not in text[claims:]) is has_verdicts
    assert (text.index('src="figures/gaps.svg"') < claims) is has_verdicts
    assert '<span class="verdict ' not in text, "one seed settles nothing"


def test_all_forms_of_a_table_hold_the_same_numbers(report_folder):
    html, tex = (
        (report_folder / f"tables/table2.{form}").read_text(encoding="utf-8") for form in ("html", "tex")
    )
    assert 'best">64.6' in html and r"\textbf{64.6}" in tex, "the paper's best"
    assert 'best">55.0' not in html and r"\textbf{55.0}" not in tex, "one seed settles nothing"
    lines = [line.strip() for line in tex.splitlines()]
    row = next(number for number, line in enumerate(lines) if line.startswith("2.2 & VSE0"))
    assert r"ours & 50.3 & {\scriptsize$\pm$0.0}" in lines[row]
    assert lines[row + 1].startswith("& & & paper & 43.1")
    assert lines[row + 2].startswith("& & & released & 71.3 & & 76.0")
    rows = {row["row"]: row for row in csv_rows(report_folder / "tables/table2.csv")}
    numbers = [rows["2.2"][f"{source}_i2t_r1"] for source in ("ours", "paper", "released")]
    assert numbers == ["50.26", "43.1", "71.26"]
    assert rows["2.1"]["ours_i2t_r1"] == ""


def test_every_mark_of_a_tabular_has_one_meaning_which_stands_below_it(report, models, tmp_path):
    models.add("chance", CHANCE, CHANCE, trained=DIRTY)
    models.add("collapsed", CHANCE, CHANCE, collapsed=True)
    models.add("sound")
    models.add("sound", CHANCE, CHANCE, collapsed=True, seed=1)
    feeds = {"1.8": "chance", "1.7": "collapsed", "1.9": "sound"}
    spec = report({row: (run, "5x1K") for row, run in feeds.items()}, models.all)
    write_report(replace(spec, claims=(), figures=()), tmp_path / "report", tmp_path)
    text = (tmp_path / "report/tables/table1.tex").read_text(encoding="utf-8")
    rows, notes = text.split(r"\bottomrule")
    meanings = dict(re.findall(r"^\$\^\{(.+)\}\$ (.+)\\par$", notes, re.MULTILINE))
    marks = {row: re.search(rf"^{row}\$\^{{(.+)}}\$ &", rows, re.MULTILINE)[1].split(",") for row in feeds}
    assert {mark for marks_of_row in marks.values() for mark in marks_of_row} <= meanings.keys()
    last = [meanings[marks[row][-1]] for row in feeds]
    assert last == ["Ranks like chance.", "Collapsed.", "Collapsed (seed 1), left out."]
    assert r"\dag{}" in marks["1.8"] and "uncommitted" in meanings[r"\dag{}"]


@pytest.mark.tex
def test_the_tables_compile(report_folder, tmp_path):
    shutil.copytree(report_folder / "tables", tmp_path / "tables")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "tables.tex"]
    done = subprocess.run(
        command, cwd=tmp_path / "tables", capture_output=True, text=True, errors="replace", timeout=120
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "Overfull" not in done.stdout
    assert "Output written on tables.pdf (5 pages" in done.stdout


def test_templates_know_no_preset_and_no_paper():
    for template in TEMPLATES.iterdir():
        text = template.read_text(encoding="utf-8")
        assert not re.search(r"preset\s*(==|!=|in)|mini\b|flickr8k|VSE|Faghri", text), template


# Numbers for `dvc metrics` and `dvc plots`.


def test_models_are_exported_as_means_and_curves(report_folder):
    metrics = json.loads((report_folder / "metrics.json").read_text())
    assert metrics["mine"]["5x1K"]["i2t_r1"] == 60, "without the seed that collapsed"
    numbers = metrics["vse0"]["5x1K"]
    sums = [50.26 + sum(I2T[1:3]) + first + sum(T2I[1:3]) for first in (30, 32)]
    assert numbers == {
        "i2t_r1": 50.26, "i2t_r10": 86, "t2i_r1": 31, "t2i_r10": 80, "rsum": sum(sums) / 2, "rsum_sd": stdev(sums),
    }  # fmt: skip
    curves = {path.stem: path.read_text() for path in (report_folder / "curves").iterdir()}
    runs = ("vse0-seed-0", "vse0-seed-2", "vsepp-seed-0", "mine-seed-0", "flickr-vse0-rc-seed-0")
    assert curves.keys() >= set(runs)
    assert curves["mine-seed-0"].splitlines()[0] == "epoch,loss,i2t_r1,t2i_r1,rsum,collapsed,seconds"


# The page that opens a preset's reports.


def test_the_entry_page_opens_the_default_variants_report_or_lists_those_of_several_papers(report, tmp_path):
    entry = tmp_path / "mini/index.html"

    def links_with(variant, paper):
        """Links of the entry page once this report is there too."""
        folder = tmp_path / "mini" / variant / paper
        folder.mkdir(parents=True)
        seal(folder, "report", DIRTY, {}, spec=specs.to_dict(report()))
        write_entry(tmp_path / "mini")
        return Page(entry.read_text()).links if entry.exists() else None

    assert links_with("code", "vsepp") is None
    assert links_with("paper", "vsepp") == ["paper/vsepp/index.html"]
    assert 'content="0; url=paper/vsepp/index.html"' in entry.read_text()
    assert links_with("paper", "goal") == ["paper/goal/index.html", "paper/vsepp/index.html"]
    assert "refresh" not in entry.read_text()
    (tmp_path / "mini/paper/goal/manifest.json").write_text("{")
    write_entry(tmp_path / "mini")
    assert Page(entry.read_text()).links == ["paper/vsepp/index.html"], "a damaged one is left out"


# What opens the page, and what the workflow prints.

PAGE = Path("reports/mini/index.html")


def verdicts(*words, own=False, seeds=3, section="Table 1"):
    claim = Difference(
        claim="A gains over B.", place=section, kind="difference", runs=("a", "b"), protocol="1K", published={"i2t_r1": None}
    )  # fmt: skip
    verdict = partial(Verdict, claim, "i2t_r1", own, Measured(seeds=seeds), roles=("coco", "vgg"))
    return [verdict(word=word, name=str(section)) for section, word in enumerate(words)]


def test_four_tiles_count_the_verdicts():
    counts = [
        (tile.words, tile.number)
        for tile in tiles(verdicts(SAME, SAME, REPRODUCED, LARGER, OPPOSITE, ONE_SEED, COLLAPSED, NOT_RUN))
    ]
    assert counts == [("as claimed", 3), ("inconclusive", 1), ("not as claimed", 2), ("no result", 2)]


def test_the_answer_names_the_data_and_counts_what_was_tested(context):
    assert "scenes A and vgg_mini: 3 of 4 claims" in answer(verdicts(SAME, SAME, OPPOSITE, NOT_RUN), context)
    assert "1 of 1 claim," in answer(verdicts(REPRODUCED, own=True), context)
    assert "One seed" in answer(verdicts(SAME, seeds=1), context)
    assert "One seed" not in answer([*verdicts(COLLAPSED, seeds=0), *verdicts(SAME, seeds=3)], context)
    assert "none tested" in answer(verdicts(NOT_RUN), context)
    assert answer([], context) == ""


def test_the_headline_says_what_came_out_what_is_in_trouble_and_what_to_do_next(models, context, monkeypatch):
    monkeypatch.setenv("UV", "/bin/uv")
    models.add("sound")
    models.add("low", CHANCE, CHANCE)
    for name, (spec,) in models.specs.items():
        models.specs[name] = [replace(spec, pictures="pictures")]
    text = headline([], verdicts(SAME, OPPOSITE, OPPOSITE), models.records, "2 scores", context, PAGE)
    lines = [line.strip() for line in text.splitlines()]
    assert {"1  same direction", "2  opposite", "low ranks like chance (seed 0)"} <= set(lines)
    assert context.data_note in text
    served = models.specs["sound"][0].run
    assert "2 scores" in lines
    assert lines[-2:] == [f"open    {PAGE}", f"next    uv run vsepp serve {served}"]


def test_provenance_names_what_plays_the_papers_roles_and_who_made_each_run_once(models, context):
    old, new = ({"commit": digit * 40, "dirty": False} for digit in "12")
    for seed in (0, 1):
        models.add("a", seed=seed, git=new, trained=old)
    models.add("b", git=new, trained={**old, "dirty": True})
    models.add("released", git=new, trained=new, history=())
    facts = dict(provenance(context, models.records, [], {"commit": "3" * 40, "dirty": True}))
    assert "vgg_mini in place of VGG19" in facts["Data and encoders"]
    assert facts["Page written by"] == f"{'3' * 12} + uncommitted changes"
    assert facts["Trained by"] == f"2 models at {'1' * 12}; 1 model at {'1' * 12} + uncommitted changes"
    assert facts["Evaluated by"] == f"3 models at {'2' * 12}"
