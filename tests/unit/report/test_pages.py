from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from statistics import stdev

import pytest
from matplotlib.font_manager import findfont, get_font
from reported import DIRTY, I2T, T2I, Models, seal

from vsepp.base import spec as specs
from vsepp.report.entries import Group, ReportSpec, Row
from vsepp.report.pages import TEMPLATES, write_entry, write_report

OWN = {"system": "VSE++", "encoder": "vgg", "finetuned": "no", "dataset": "coco", "trainset": "RC"}


class Page(HTMLParser):
    """Tables by id with the text of their cells row by row, links, ids, and tags that were left open or load something."""

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
        self.loaded += [tag] if attrs.get("src") or tag == "link" else []
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


def test_no_figure_shows_the_source_of_a_formula(folder):
    """A log scale sets its powers of ten as formulas, which are text in these figures; letters are outlines, numbered by font."""
    font = get_font(findfont("DejaVu Sans"))
    one, backslash = (f"{font.get_char_index(ord(letter)):x}" for letter in "1\\")
    pages = [path for path in folder.rglob("*") if path.suffix in (".html", ".svg")]
    drawn = {path.name: re.findall(r"<svg.*?</svg>", path.read_text(), re.DOTALL) for path in pages}
    assert any('aria-label="Distribution of ranks"' in svg for svg in drawn["vse0.html"])
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


def test_the_page_loads_nothing_and_its_links_lead_to_all_files(folder, page):
    text = (folder / "index.html").read_text(encoding="utf-8")
    assert page.loaded == []
    assert not re.search(r"url\(\s*['\"]?http|@import", text)
    assert len(page.ids) == len(set(page.ids)), "ids of the inlined figures must not collide"
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
    assert "claims was tested: the runs that they are about were not run" in text
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
    assert "<b>55.0</b>" in row
    assert "<b>49.0</b>" not in row and "<b>64.6</b>" in html, "the paper's best is in row 1.11"
    text = (folder / "tables/table2.tex").read_text(encoding="utf-8")
    assert r"\textbf{55.0}" in text
    lines = row_of(text, "2.2 & VSE0")
    assert r"ours & 50.3 & {\scriptsize$\pm$0.0}" in lines[0]
    assert lines[1].startswith("& & & paper & 43.1")
    assert lines[2].startswith("& & & released & 71.3 & & 76.0")
    lines = row_of(text, "2.4 & VSE0")
    assert lines[0].endswith(r"ours & \multicolumn{16}{c}{not run} \\")
    assert lines[2].startswith("& & & released & 71.3")
    assert sum("released &" in line for line in text.splitlines()) == 2
    lines = row_of((folder / "tables/margins.tex").read_text(encoding="utf-8"), "& VSE++ & ours &")
    assert r"\textbf{60.0} & \textbf{76.0}" in lines[0]
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


def test_rows_in_trouble_are_marked_and_named(report, tmp_path):
    models, chance = Models(tmp_path / "results"), (0.5, 2.0, 4.0, 60, 60.0)
    models.add("vsepp", chance, chance)
    made = report({"1.8": ("vsepp", "5x1K")}, models.all)
    write_report(replace(made, claims=(), figures=()), tmp_path / "report", tmp_path)
    table1, all_tables = (tmp_path / f"report/tables/{name}.tex" for name in ("table1", "tables"))
    assert r"1.8\ddag{} &" in table1.read_text(encoding="utf-8")
    assert r"\ddag{} Row 1.8: ranks like chance." in all_tables.read_text(encoding="utf-8")


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
    assert (folder / "tables/tables.tex").read_text(encoding="utf-8").count(rf"$^{{\dag{{}}}}$ {note}") == 2
    assert "1 row is marked †" in (folder / "headline.txt").read_text(encoding="utf-8")


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
    assert "lost (collapsed: seed 0)" in said
    assert "open    reports/mini/index.html" in said
    numbers = dict(Page((tmp_path / "report/index.html").read_text(encoding="utf-8")).tables["table2"])
    assert "collapsed" in numbers["2.2"][1]
    assert "This model collapsed" in (tmp_path / "report/runs/lost.html").read_text(encoding="utf-8")
