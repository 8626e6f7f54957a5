from __future__ import annotations

import base64
import csv
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
from jinja2.defaults import DEFAULT_FILTERS
from matplotlib.font_manager import findfont, get_font
from reported import DIRTY, I2T, T2I, Models, seal

from vsepp.base import spec as specs
from vsepp.report import pages
from vsepp.report.claims import Difference
from vsepp.report.entries import Group, ReportSpec, Row
from vsepp.report.pages import (
    TEMPLATES,
    about_comparisons,
    answer,
    headline,
    provenance,
    tiles,
    troubles,
    write_entry,
    write_report,
)
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

OWN = {"system": "VSE++", "encoder": "vgg", "finetuned": "no", "dataset": "coco", "trainset": "RC"}


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


@pytest.fixture(scope="module")
def full(report, tmp_path_factory):
    """Rows 2.2 (two seeds), 1.7 (code that no commit holds) and one of one's own were run; 2.2 and 2.4 have checkpoints."""
    models = Models(tmp_path_factory.mktemp("results"))
    models.add("vse0", (50.26, *I2T[1:]))
    models.add("vse0", (50.26, *I2T[1:]), (32.0, *T2I[1:]), seed=2)
    models.add("vsepp", (55, *I2T[1:]), trained=DIRTY)
    models.add("mine", (60, *I2T[1:]))
    models.add("released", (71.26, *I2T[1:]), (61, *T2I[1:]), history=())
    models.add("flickr-vse0-rc", protocol="1K")
    feeds = {
        "2.2": ("vse0", "5x1K", "released"),
        "1.7": ("vsepp", "5x1K"),
        "2.4": ("none", "5x1K", "released"),
    }
    made = report(feeds, models.all)
    rows = (
        Row(run="mine", protocol="5x1K"),
        Row(run="later", protocol="1K", label="My_1 <i> & 50 %"),
    )
    (_, first), *_ = made.tables
    table = replace(first, title="Margins", groups=(Group(heading="", rows=rows),), trainset=False)
    runs = {**made.runs, "mine": OWN, "later": OWN}
    return replace(made, tables=(*made.tables, ("margins", table)), runs=runs)


@pytest.fixture(scope="module")
def folder(full, tmp_path_factory):
    """Where the full report was written."""
    path = tmp_path_factory.mktemp("report")
    write_report(full, path, path)
    return path


@pytest.fixture(scope="module")
def page(folder):
    return Page((folder / "index.html").read_text(encoding="utf-8"))


def test_it_has_the_files_that_its_spec_names(full, folder):
    written = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert "figures/gaps.svg" in full.files
    assert written == {"index.html", *full.files}


def inside(page):
    """The figures that a page of a run holds."""
    found = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page.read_text(encoding="utf-8"))
    return [base64.b64decode(data).decode() for data in found]


def test_no_figure_shows_the_source_of_a_formula(folder):
    """A log scale sets its powers of ten as formulas, which are text in these figures; letters are outlines, numbered by font."""
    font = get_font(findfont("DejaVu Sans"))
    one, backslash = (f"{font.get_char_index(ord(letter)):x}" for letter in "1\\")
    drawn = {path.name: [path.read_text()] for path in (folder / "figures").glob("*.svg")}
    drawn |= {path.name: inside(path) for path in (folder / "runs").iterdir()}
    assert len(drawn["vse0.html"]) == 2
    outlines = {name: re.findall(r'DejaVuSans-([0-9a-f]+)"', "".join(svgs)) for name, svgs in drawn.items()}
    assert one in outlines["vse0.html"]
    assert [name for name, found in outlines.items() if backslash in found] == []


def row_of(text, start):
    """Lines of a tabular from the line that starts with `start`."""
    lines = [line.strip() for line in text.splitlines()]
    return lines[next(k for k, line in enumerate(lines) if line.startswith(start)) :]


def test_a_spec_survives_json_and_names_what_it_reads(full):
    assert specs.from_dict(ReportSpec, specs.to_dict(full)) == full
    assert [role for role in full.inputs if "vse0/seed-0" in role] == [
        "evaluation/vse0/seed-0",
        "history/vse0/seed-0",
    ]
    assert "history/released/seed-0" not in full.inputs


def test_the_page_holds_every_row_of_every_table_in_order(full, page):
    assert page.open == []
    for name, table in full.tables:
        expected = [row if isinstance(row, str) else row.run for row in table.rows]
        assert [number for number, _ in page.tables[name]] == expected
        columns = 2 + table.trainset + (8 if name == "margins" else 16)
        assert {len(cells) for _, cells in page.tables[name]} == {columns}
    rows = dict(page.tables["table2"])
    made = ["vgg_mini,", "mean", "of", "5", "folds", "of", "100", "test", "images"]
    assert rows["2.2"][:4] == [["2.2"], ["VSE0", "RC", *made], ["RC"], ["50.3", "±", "0.0"]]
    assert rows["2.2"][11] == ["43.1"], "ours and the paper's stand in columns of their own"
    assert rows["1.7"][3] == ["55.0"] and rows["1.7"][11] == ["49.0"]
    assert rows["2.4"][3] == [] and rows["2.4"][11] == ["50.1"]
    assert "run" in rows["2.4"][1] and "run" in rows["2.1"][1]
    own = dict(page.tables["margins"])
    assert own["mine"][:3] == [[], ["VSE++", *made], ["60.0"]]
    assert own["later"][:3] == [[], ["My_1", "<i>", "&", "50", "%", "not", "run"], []]


def test_the_page_loads_its_figures_alone_and_its_links_lead_to_all_files(folder, page):
    text = (folder / "index.html").read_text(encoding="utf-8")
    assert sorted(page.loaded) == sorted(
        f"figures/{path.name}" for path in (folder / "figures").glob("*.svg")
    )
    assert not re.search(r"url\(\s*['\"]?http|@import", text)
    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    linked = {link for link in page.links if not link.startswith("#")}
    files = {path.relative_to(folder).as_posix() for path in folder.glob("[tfr]*s/*")}
    assert linked == files | {"claims.csv"}
    for run in (folder / "runs").iterdir():
        other = Page(run.read_text(encoding="utf-8"))
        assert other.open == [] and other.loaded == [] and len(other.ids) == len(set(other.ids))
        assert all((run.parent / link).is_file() for link in other.links if not link.startswith("#"))
        assert {link[1:] for link in other.links if link.startswith("#")} <= set(other.ids)
    for table in (folder / "tables").glob("*.html"):
        assert f"../index.html#section-{table.stem}" in Page(table.read_text(encoding="utf-8")).links
        assert f"section-{table.stem}" in page.ids
    assert page.links.count("runs/vsepp.html") >= 4, "row number and label of two tables"


def test_pages_say_whose_numbers_these_are_and_where_parts_come_from(full, folder, context):
    text = (folder / "index.html").read_text(encoding="utf-8")
    assert text.count(context.data_note) == 1, "once at the top"
    for name, _ in full.tables:
        for suffix in ("html", "tex"):
            assert context.data_note in (folder / f"tables/{name}.{suffix}").read_text(encoding="utf-8")
    assert (folder / "tables/tables.tex").read_text(encoding="utf-8").count(context.data_note) == 5
    assert "<footer>Faghri et al., VSE++. The numbers in the columns “Paper”" in text
    assert "<dt>Loss max_of_hinges</dt><dd>Faghri et al. (2018), Eq. 6</dd>" in text
    key = "checkpoint of row 2.2, evaluated here"
    found = {name: (folder / f"tables/{name}.html").read_text(encoding="utf-8") for name, _ in full.tables}
    assert [name for name, html in found.items() if key in html] == ["table2"]
    assert [name for name, html in found.items() if ">Paper<" not in html] == ["margins"]


def test_a_report_in_which_nothing_was_run_still_renders(report, own_data, folder, tmp_path):
    write_report(replace(report(), context=own_data, sources=()), tmp_path, tmp_path)
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    for table in ("table2", "table3", "table4"):
        for _, cells in Page(text).tables[table]:
            assert (cells[1][-2:] == ["not", "run"]) != ("(20" in " ".join(cells[1]))
    assert "claims, none tested" in text
    assert "Did it reproduce?" not in text and 'id="section-gaps"' in text
    assert not any(word in text for word in ("Our rows use", 'class="whose"', 'id="sources"', "†"))
    assert "{not run}" in (tmp_path / "tables/table4.tex").read_text(encoding="utf-8")


def test_the_same_report_gives_the_same_bytes(full, folder, tmp_path):
    assert str(tmp_path / "index.html") in write_report(full, tmp_path, tmp_path)
    written = sorted(path.relative_to(folder) for path in folder.rglob("*.*") if path.name != "headline.txt")
    assert len(written) == 1 + 3 * len(full.tables) + 1 + 3 * (len(full.figures) + 1) + 5 + 1 + 1 + 5
    for file in written:
        assert (folder / file).read_bytes() == (tmp_path / file).read_bytes(), file


def test_tabulars_hold_what_the_page_holds(folder):
    html = (folder / "tables/table2.html").read_text(encoding="utf-8")
    row = html[html.index('data-row="1.7"') :]
    row = row[: row.index("</tr>")]
    assert 'best">55.0' not in row, "one seed settles nothing"
    assert 'best">49.0' not in row and 'best">64.6' in html, "the paper's best is in row 1.11"
    text = (folder / "tables/table2.tex").read_text(encoding="utf-8")
    assert r"\textbf{55.0}" not in text and r"\textbf{64.6}" in text
    lines = row_of(text, "2.2 & VSE0")
    assert r"ours & 50.3 & {\scriptsize$\pm$0.0}" in lines[0]
    assert lines[1].startswith("& & & paper & 43.1")
    assert lines[2].startswith("& & & released & 71.3 & & 76.0")
    lines = row_of(text, "2.4 & VSE0")
    assert lines[0].endswith(r"ours & \multicolumn{16}{c}{not run} \\")
    assert lines[2].startswith("& & & released & 71.3")
    assert sum("released &" in line for line in text.splitlines()) == 2
    lines = row_of((folder / "tables/margins.tex").read_text(encoding="utf-8"), "& VSE++ & ours &")
    assert "60.0 & 76.0" in lines[0]
    assert lines[2] == r"& My\_1 \textless{}i\textgreater{} \& 50 \% & ours & \multicolumn{8}{c}{not run} \\"
    assert lines[3] == r"\bottomrule"
    with (folder / "tables/table2.csv").open(newline="", encoding="utf-8") as stream:
        found = {row["row"]: row for row in csv.DictReader(stream)}
    assert [found["2.2"][f"{source}_i2t_r1"] for source in ("ours", "paper", "released")] == [
        "50.26",
        "43.1",
        "71.26",
    ]
    assert found["2.1"]["ours_fold_size"] == found["2.1"]["ours_i2t_r1"] == ""


def test_every_mark_of_a_tabular_has_one_meaning_which_stands_below_it(report, tmp_path):
    models, chance = Models(tmp_path / "results"), (0.5, 2.0, 4.0, 60, 60.0)
    models.add("chance", chance, chance, trained=DIRTY)
    models.add("collapsed", chance, chance, collapsed=True)
    models.add("sound")
    models.add("sound", chance, chance, collapsed=True, seed=1)
    feeds = {"1.8": "chance", "1.7": "collapsed", "1.9": "sound"}
    made = report({row: (run, "5x1K") for row, run in feeds.items()}, models.all)
    write_report(replace(made, claims=(), figures=()), tmp_path / "report", tmp_path)
    text = (tmp_path / "report/tables/table1.tex").read_text(encoding="utf-8")
    rows, notes = text.split(r"\bottomrule")
    explained = dict(re.findall(r"^\$\^\{(.+)\}\$ (.+)\\par$", notes, re.MULTILINE))
    marks = {row: re.search(rf"^{row}\$\^{{(.+)}}\$ &", rows, re.MULTILINE)[1].split(",") for row in feeds}
    assert {mark for of in marks.values() for mark in of} <= explained.keys()
    assert explained[marks["1.8"][-1]] == "Ranks like chance."
    assert explained[marks["1.7"][-1]] == "Collapsed."
    assert explained[marks["1.9"][-1]] == "Collapsed (seed 1), left out."
    assert r"\dag{}" in marks["1.8"] and "uncommitted" in explained[r"\dag{}"]


@pytest.mark.tex
def test_the_tables_compile(folder, tmp_path):
    shutil.copytree(folder / "tables", tmp_path / "tables")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "tables.tex"]
    done = subprocess.run(
        command, cwd=tmp_path / "tables", capture_output=True, text=True, errors="replace", timeout=120
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "Overfull" not in done.stdout
    assert "Output written on tables.pdf (5 pages" in done.stdout


def test_filters_of_the_templates_leave_jinjas_own_alone():
    for latex in (False, True):
        filters = pages._environment(latex).filters
        assert DEFAULT_FILTERS.items() <= filters.items() and "plain" in filters


def test_templates_know_no_preset_and_no_paper():
    for template in TEMPLATES.iterdir():
        text = template.read_text(encoding="utf-8")
        assert not re.search(r"preset\s*(==|!=|in)|mini\b|flickr8k|VSE|Faghri", text), template


def test_numbers_of_uncommitted_code_are_marked_wherever_they_stand(folder, page):
    text = (folder / "index.html").read_text(encoding="utf-8")
    numbers = {table: {row: cells[0] for row, cells in rows} for table, rows in page.tables.items()}
    assert numbers["table1"]["1.7"] == numbers["table2"]["1.7"] == ["1.7", "†"]
    assert numbers["table2"]["2.2"] == ["2.2"]
    note = "partly made with uncommitted changes of code or parameters (train)"
    assert text.count(f"<li><sup>†</sup> {note}") == 2
    assert "<dt>Trained by</dt><dd>4 models at abc; 1 model at abc + uncommitted changes</dd>" in text
    assert r"1.7$^{\dag{}}$ &" in (folder / "tables/table2.tex").read_text(encoding="utf-8")
    assert rf"$^{{\dag{{}}}}$ {note}" in (folder / "tables/table2.tex").read_text(encoding="utf-8")
    assert "1 row marked †" in (folder / "headline.txt").read_text(encoding="utf-8")


# Numbers for `dvc metrics` and `dvc plots`.


def test_models_are_exported_as_means_and_curves_and_those_of_an_earlier_plan_are_deleted(
    full, folder, tmp_path
):
    found = json.loads((folder / "metrics.json").read_text())["vse0"]["5x1K"]
    sums = [50.26 + sum(I2T[1:3]) + first + sum(T2I[1:3]) for first in (30, 32)]
    assert found == {
        "i2t_r1": 50.26, "i2t_r10": 86, "t2i_r1": 31, "t2i_r10": 80, "rsum": sum(sums) / 2, "rsum_sd": stdev(sums),
    }  # fmt: skip
    curves = {path.name: path.read_text() for path in (folder / "curves").iterdir()}
    assert set(curves) == {
        f"{name}.csv"
        for name in ("vse0-seed-0", "vse0-seed-2", "vsepp-seed-0", "mine-seed-0", "flickr-vse0-rc-seed-0")
    }
    assert curves["mine-seed-0.csv"].splitlines()[0] == "epoch,loss,i2t_r1,t2i_r1,rsum,collapsed,seconds"
    small = replace(full, tables=full.tables[:1], figures=(), claims=())
    write_report(small, tmp_path, tmp_path)
    assert (tmp_path / "figures").is_dir()  # which the workflow waits for


# The page that opens a preset's reports.


def test_the_entry_page_opens_the_default_variants_report_or_lists_those_of_several_papers(report, tmp_path):
    def made(variant, paper):
        folder = tmp_path / "mini" / variant / paper
        folder.mkdir(parents=True)
        seal(folder, "report", DIRTY, {}, spec=specs.to_dict(report()))

    entry = tmp_path / "mini/index.html"
    made("code", "vsepp")
    write_entry(tmp_path / "mini")
    assert not entry.exists()
    made("paper", "vsepp")
    write_entry(tmp_path / "mini")
    assert Page(entry.read_text()).links == ["paper/vsepp/index.html"]
    assert 'content="0; url=paper/vsepp/index.html"' in entry.read_text()
    made("paper", "goal")
    write_entry(tmp_path / "mini")
    assert Page(entry.read_text()).links == ["paper/goal/index.html", "paper/vsepp/index.html"]
    assert "VSE++ on generated scenes</a>: VSE++: Improving" in entry.read_text()
    assert "refresh" not in entry.read_text()


def test_a_report_with_a_damaged_manifest_is_left_out_of_the_entry_page(report, tmp_path):
    folders = [tmp_path / "mini/paper" / paper for paper in ("cut", "empty", "other", "vsepp")]
    for folder in folders:
        folder.mkdir(parents=True)
        seal(folder, "report", DIRTY, {}, spec={} if folder.name == "other" else specs.to_dict(report()))
    for folder, length in zip(folders, (1000, 0), strict=False):
        with (folder / "manifest.json").open("r+b") as stream:
            stream.truncate(length)
    write_entry(tmp_path / "mini")
    assert Page((tmp_path / "mini/index.html").read_text()).links == ["paper/vsepp/index.html"]


def test_a_collapse_is_said_on_all_pages_and_the_headline_names_the_entry_page(report, tmp_path):
    models, chance = Models(tmp_path / "results"), (0.5, 2.0, 4.0, 60, 60.0)
    models.add("lost", chance, chance, collapsed=True)
    made = replace(report({"2.2": ("lost", "5x1K")}, models.all), figures=(), claims=())
    said = write_report(made, tmp_path / "report", Path("reports/mini/paper/vsepp"))
    assert "lost collapsed (seed 0)" in said
    assert "open    reports/mini/index.html" in said
    numbers = dict(Page((tmp_path / "report/index.html").read_text(encoding="utf-8")).tables["table2"])
    assert "collapsed" in numbers["2.2"][1]
    assert "Collapsed (seed 0)." in (tmp_path / "report/runs/lost.html").read_text(encoding="utf-8")


def test_a_page_of_a_run_with_sound_seeds_names_the_collapsed_ones_and_leaves_them_out(report, tmp_path):
    models, chance = Models(tmp_path / "results"), (0.5, 2.0, 4.0, 60, 60.0)
    for seed in (2, 10, 0):
        lost = seed == 10
        models.add("mixed", *(2 * [chance] if lost else [I2T, T2I]), seed=seed, collapsed=lost)
    made = replace(report({"2.2": ("mixed", "5x1K")}, models.all), figures=(), claims=())
    write_report(made, tmp_path, tmp_path)
    text = (tmp_path / "runs/mixed.html").read_text(encoding="utf-8")
    assert "Collapsed (seed 10)." in text and "Left out of all numbers" in text
    assert "no verdict rests" not in text
    assert "mean over 2 seeds" in text and '<th scope="col" class="n">seed 10' not in text
    (row,) = [cells for number, cells in Page(text_of(tmp_path, "index")).tables["table2"] if number == "2.2"]
    assert row[3] == ["41.0", "±", "0.0"] and "10)," in row[1]
    assert json.loads((tmp_path / "metrics.json").read_text())["mixed"]["5x1K"]["i2t_r1"] == 41.0


def text_of(folder, page):
    return (folder / f"{page}.html").read_text(encoding="utf-8")


def test_code_in_a_sentence_is_shown_as_code_and_nowhere_in_backticks(report, tmp_path):
    (name, first), *_ = report().tables
    table = replace(first, caption="On `mini` & `x < 1`.", title="With `tau`")
    made = report()
    context = replace(made.context, data_note="Only `mini`.")
    made = replace(made, context=context, tables=((name, table),), figures=(), claims=())
    write_report(made, tmp_path, tmp_path)
    pages = [path for path in tmp_path.rglob("*") if path.suffix in (".html", ".tex")]
    for path in pages:
        assert not re.search(r"`(mini|x|tau)|(mini|1|tau)`", path.read_text(encoding="utf-8")), path
    text = text_of(tmp_path, "index")
    assert "<code>mini</code> &amp; <code>x &lt; 1</code>" in text
    assert r"\texttt{mini} \& \texttt{x \textless{} 1}" in (tmp_path / "tables/tables.tex").read_text("utf-8")


# What opens the page, and what the workflow prints.

PAGE = Path("reports/mini/index.html")


def verdicts(*words, own=False, seeds=3, place="Table 1"):
    claim = Difference(
        claim="A gains over B.", place=place, kind="difference", runs=("a", "b"), protocol="1K", published={"i2t_r1": None}
    )  # fmt: skip
    made = partial(Verdict, claim, "i2t_r1", own, Measured(seeds=seeds), roles=("coco", "vgg"))
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
    tested = "Tested on scenes A and vgg_mini"
    assert answer(some, context) == f"{tested}: 3 of 4 claims, each about one metric."
    elsewhere = answer(some, replace(context, data_note=""))  # the page has no note of the data
    assert elsewhere.startswith(f"{tested}, not on the paper’s data and encoders: 3 of 4")
    own = answer(verdicts(REPRODUCED, own=True), context)
    assert own.startswith("Tested on the paper’s data and encoders: 1 of 1 claim,")
    said = "One seed settles nothing."
    collapsed = verdicts(COLLAPSED, seeds=0)
    assert said in answer([*collapsed, *verdicts(SAME, seeds=1)], context)
    assert said not in answer(collapsed, context)
    assert said not in answer([*collapsed, *verdicts(SAME, seeds=3)], context)
    assert answer(verdicts(NOT_RUN), context).startswith("1 claim, none tested")
    assert answer([], context) == ""


def test_comparisons_of_ones_own_are_counted_apart(models, context):
    own = verdicts(OPPOSITE, SAME, NOT_RUN, place="")
    assert about_comparisons(own) == "3 comparisons of our own: 1 same direction, 1 opposite and 1 not run."
    assert about_comparisons([]) == about_comparisons(own[2:]) == ""
    text = headline([], [*verdicts(SAME), *own[:1]], models.records, "", context, PAGE)
    lines = [line.strip() for line in text.splitlines()]
    assert "1 claim, each about one metric:" in lines
    assert "1 comparison of our own, each about one metric:" in lines


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
    assert "low ranks like chance (seed 0)" in lines
    assert context.data_note in text
    assert lines[-3:] == [
        "2 scores",
        f"open    {PAGE}",
        f"next    uv run vsepp serve {models.specs['sound'][0].run}",
    ]
    assert troubles(records) == ["low ranks like chance (seed 0)"]
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
    assert "Fold of 1K and 5×1K" not in own  # no protocol of folds stands on the page
