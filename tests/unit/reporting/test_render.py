from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from vsepp import spec as specs
from vsepp.errors import VseppError
from vsepp.reporting import summary
from vsepp.reporting.entry import write_entry
from vsepp.reporting.render import (
    TEMPLATES,
    make_report,
    table_caption,
    write_table,
    write_tables_document,
)
from vsepp.reporting.specs import ReportSpec, RowSpec
from vsepp.reporting.tables import build_table

I2T, T2I = [50.26, 80, 90, 1, 5], [40, 70, 85, 2, 9]


class Page(HTMLParser):
    """Tables by id with the text of their cells row by row, all links, and tags that were left open."""

    VOID = ("meta", "br", "img", "link", "hr", "input")

    def __init__(self, text):
        super().__init__()
        self.tables, self.links, self.open, self.text, self.ids = {}, [], [], [], []
        self.row, self.loaded = None, []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag not in self.VOID:
            self.open.append(tag)
        if "id" in attrs:
            self.ids.append(attrs["id"])
        if tag == "a":
            self.links.append(attrs["href"])
        if attrs.get("src") or tag in ("script", "link"):
            self.loaded.append(tag)
        if tag == "table":
            self.rows = self.tables.setdefault(attrs["id"], [])
        if tag == "tr" and "data-row" in attrs:
            self.row = []
            self.rows.append((attrs["data-row"], self.row))
        if tag == "td" and self.row is not None:
            self.row.append("")

    def handle_startendtag(self, tag, attrs):
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag == "tr":
            self.row = None

    def handle_data(self, data):
        self.text.append(data)
        if self.row:
            self.row[-1] += f" {data.strip()}" if data.strip() else ""


@pytest.fixture(scope="module")
def full(writers, report, tmp_path_factory):
    """A report in which rows 2.2 (two seeds) and 1.7 were run, and figure 2a's curves."""
    metrics, history = (writer(tmp_path_factory.mktemp("results")) for writer in writers)
    files = tuple(metrics("coco-vse0-rc", I2T, T2I, seed=seed) for seed in (0, 1))
    rows = {
        "2.2": RowSpec("2.2", "coco-vse0-rc", "5x1K", files),
        "1.7": RowSpec("1.7", "coco-vsepp-rc", "5x1K", (metrics("coco-vsepp-rc", [55, *I2T[1:]], T2I),)),
    }
    runs = ("flickr-vse0-rc", "flickr-vsepp-rc")
    return report(rows, {("figure2a", run): (history(run, [10, 20, 30]),) for run in runs})


@pytest.fixture(scope="module")
def folder(full, tmp_path_factory):
    """The folder that the full report was written to."""
    path = tmp_path_factory.mktemp("report")
    make_report(full, path)
    return path


def compile_tables(document):
    """Run LaTeX on a document and give what it printed."""
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", document.name],
        cwd=document.parent,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=120,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "Overfull" not in done.stdout
    return done.stdout


def test_a_spec_survives_json(full):
    assert specs.from_json(ReportSpec, specs.to_json(full)) == full


def test_the_page_holds_every_row_of_every_table_in_order(full, folder):
    page = Page((folder / "index.html").read_text(encoding="utf-8"))
    assert page.open == []
    for table in full.tables:
        expected = [row.row for group in table.groups for row in group.rows]
        assert [number for number, _ in page.tables[table.id]] == expected
        width = 8 + 2 + table.trainset
        assert {len(cells) for _, cells in page.tables[table.id]} == {width}
    row = dict(page.tables["table2"])["2.2"]
    assert [cell.split() for cell in row[:4]] == [
        ["2.2"],
        ["VSE0", "RC"],
        ["RC"],
        ["50.3", "±", "0.0", "43.1"],
    ]


def test_the_page_loads_nothing_and_its_links_lead_somewhere(folder):
    text = (folder / "index.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.loaded == []
    assert not re.search(r"url\(\s*['\"]?http|@import", text)
    assert len(page.ids) == len(set(page.ids)), "ids of the inlined figures must not collide"
    for link in page.links:
        assert link[1:] in page.ids if link.startswith("#") else (folder / link).is_file(), link
    linked = {link for link in page.links if not link.startswith("#")}
    written = {path.relative_to(folder).as_posix() for path in folder.glob("[tf]*s/*")}
    assert linked == written


def test_every_caption_says_whose_numbers_these_are(full, folder, context):
    text = (folder / "index.html").read_text(encoding="utf-8")
    captions = re.findall(r'<p class="caption">(.*?)</p>', text, flags=re.DOTALL)
    assert sum(context.data_note in caption for caption in captions) == len(full.tables) + len(full.figures)
    for number in range(1, 5):
        assert context.data_note in (folder / f"tables/table{number}.html").read_text(encoding="utf-8")
        assert context.data_note in (folder / f"tables/table{number}.tex").read_text(encoding="utf-8")
    assert (folder / "tables/tables.tex").read_text(encoding="utf-8").count(context.data_note) == 4


def test_the_papers_own_data_needs_no_note(full, context, published, tmp_path):
    own = replace(context, data_note="", titles=context.paper_titles)
    make_report(replace(full, context=own), tmp_path)
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "in place of" not in text
    assert 'class="whose"' not in text
    table = build_table(full.tables[3], own, published)
    assert table_caption(table) == f"{full.tables[3].caption} Not run: 4 of 4 trained rows."


def test_a_report_in_which_nothing_was_run_still_renders(report, tmp_path):
    make_report(report(), tmp_path)
    page = Page((tmp_path / "index.html").read_text(encoding="utf-8"))
    for table in ("table2", "table3", "table4"):
        for _, cells in page.tables[table]:
            quoted = "(20" in cells[1]
            assert ("not run" in cells[1]) != quoted
    assert "not run" in (tmp_path / "tables" / "table4.tex").read_text(encoding="utf-8")


def test_the_same_report_gives_the_same_bytes(full, folder, tmp_path):
    text = make_report(full, tmp_path)
    assert str(tmp_path / "index.html") in text
    written = sorted(path.relative_to(folder) for path in folder.rglob("*.*"))
    assert len(written) == 1 + 3 * len(full.tables) + 1 + 3 * len(full.figures)
    for file in written:
        assert (folder / file).read_bytes() == (tmp_path / file).read_bytes(), file


def test_best_cells_are_bold_in_html_and_latex(full, context, published, tmp_path):
    table = build_table(full.tables[1], context, published)
    _, html, tex = write_table(table, tmp_path).files
    text = html.read_text(encoding="utf-8")
    row = text[text.index('data-row="1.7"') :]
    row = row[: row.index("</tr>")]
    assert "<b>55.0</b>" in row
    assert "<b>49.0</b>" not in row, "the paper's best is in row 1.11"
    assert "<b>64.6</b>" in text
    latex = tex.read_text(encoding="utf-8")
    assert r"\textbf{55.0}" in latex
    assert r"ours & 50.3 & {\scriptsize$\pm$0.0}" in latex
    assert r"\multicolumn{16}{c}{not run}" in latex


def with_released(table, files):
    """A table with released checkpoints' metrics, by row."""
    groups = tuple(
        replace(group, rows=tuple(replace(row, released=files.get(row.row, ())) for row in group.rows))
        for group in table.groups
    )
    return replace(table, groups=groups)


@pytest.fixture
def released(full, context, published, write_metrics):
    """Table 2 with the authors' checkpoints of rows 2.2 (run here, two seeds) and 2.4 (not run)."""
    file = (write_metrics("released", [71.26, *I2T[1:]], [61, *T2I[1:]]),)
    spec = with_released(full.tables[1], {"2.2": file, "2.4": file})
    return build_table(spec, context, published)


def test_released_numbers_are_the_third_line_of_a_cell_and_explained(
    released, full, context, published, tmp_path
):
    _, html, _ = write_table(released, tmp_path / "with").files
    text = html.read_text(encoding="utf-8")
    assert Page(text).open == []
    rows = dict(Page(text).tables["table2"])
    assert rows["2.2"][3].split() == ["50.3", "±", "0.0", "43.1", "71.3"]
    assert "not run" in rows["2.4"][1]
    assert rows["2.4"][3].split() == ["50.1", "71.3"]
    assert rows["1.7"][3].split() == ["55.0", "49.0"]
    key = "released: the authors’ own checkpoint, evaluated here"
    assert text.count(key) == 1
    assert text.count('<span class="released">') == 1 + 2 * 8
    _, html, _ = write_table(build_table(full.tables[1], context, published), tmp_path / "without").files
    plain = html.read_text(encoding="utf-8")
    assert key not in plain and 'class="released"' not in plain


def test_released_numbers_are_a_line_of_their_own_in_latex(released, full, context, published, tmp_path):
    _, _, tex = write_table(released, tmp_path).files
    lines = [line.strip() for line in tex.read_text(encoding="utf-8").splitlines()]
    (at,) = [i for i, line in enumerate(lines) if line.startswith("2.2 & VSE0")]
    assert "ours & 50.3" in lines[at]
    assert lines[at + 1].startswith("& & & paper & 43.1")
    assert lines[at + 2].startswith("& & & released & 71.3 & & 80.0")
    (at,) = [i for i, line in enumerate(lines) if line.startswith("2.4 & VSE0")]
    assert "not run" in lines[at]
    assert lines[at + 2].startswith("& & & released & 71.3")
    assert sum("released &" in line for line in lines) == 2
    key = "Released: the authors' own checkpoint, evaluated here."
    assert write_tables_document([released], tmp_path).read_text(encoding="utf-8").count(key) == 1
    plain = build_table(full.tables[1], context, published)
    assert key not in write_tables_document([plain], tmp_path).read_text(encoding="utf-8")


def test_released_numbers_change_no_word_of_the_summary(released, full, context, published, tmp_path):
    plain = build_table(full.tables[1], context, published)
    assert summary.headline([released], tmp_path) == summary.headline([plain], tmp_path)
    assert summary.provenance([released], context) == summary.provenance([plain], context)
    assert table_caption(released) == table_caption(plain)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_a_table_with_released_numbers_compiles(released, tmp_path):
    write_table(released, tmp_path)
    assert "Output written on tables.pdf (1 page" in compile_tables(
        write_tables_document([released], tmp_path)
    )


def test_text_is_escaped_in_html_and_latex(full, context, published, tmp_path):
    rude = replace(context, data_note="<script> & 50 % of my_data")
    table = build_table(full.tables[1], rude, published)
    _, html, tex = write_table(table, tmp_path).files
    assert "&lt;script&gt; &amp; 50 % of my_data" in html.read_text(encoding="utf-8")
    assert r"\textless{}script\textgreater{} \& 50 \% of my\_data" in tex.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "call"), [("table.tex.j2", "<<nothing>>"), ("table_page.html.j2", "{{ nothing }}")]
)
def test_a_template_that_asks_for_an_unknown_value_fails(full, context, published, tmp_path, name, call):
    templates = tmp_path / "templates"
    shutil.copytree(TEMPLATES, templates)
    (templates / name).write_text(f"{call}\n", encoding="utf-8")
    table = build_table(full.tables[1], context, published)
    with pytest.raises(VseppError, match=rf"template {re.escape(name)}.*nothing"):
        write_table(table, tmp_path, templates)


def test_templates_know_no_preset():
    for template in TEMPLATES.iterdir():
        text = template.read_text(encoding="utf-8")
        assert not re.search(r"preset\s*(==|!=|in)|mini\b|flickr8k", text), template


def test_the_commit_is_filled_in_when_the_spec_has_none(full, context, tmp_path):
    make_report(replace(full, context=replace(context, commit="", dirty=None)), tmp_path)
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "0123456789ab" not in text
    assert "<dt>Page written by</dt><dd></dd>" not in text


def test_the_entry_page_opens_the_page_of_the_variant(full, tmp_path):
    make_report(full, tmp_path / "paper")
    entry = write_entry(tmp_path / "paper")
    assert entry == tmp_path / "index.html"
    text = entry.read_text(encoding="utf-8")
    assert Page(text).links == ["paper/index.html"]
    assert 'content="0; url=paper/index.html"' in text


@pytest.fixture(scope="module")
def dirty(writers, report, tmp_path_factory):
    """Row 1.7 was trained by code that no commit holds; row 2.2 and the figures were not."""
    metrics, history = (writer(tmp_path_factory.mktemp("dirty")) for writer in writers)
    clean = {"commit": "c" * 40, "dirty": False}
    ours = metrics("coco-vse0-rc", I2T, T2I, git=clean, trained=clean)
    theirs = metrics("coco-vsepp-rc", I2T, T2I, git=clean, trained={"commit": "d" * 40, "dirty": True})
    rows = {
        "2.2": RowSpec("2.2", "coco-vse0-rc", "5x1K", (ours,)),
        "1.7": RowSpec("1.7", "coco-vsepp-rc", "5x1K", (theirs,)),
    }
    curve = (history("flickr-vse0-rc", [10, 20, 30], git=clean),)
    return report(rows, {("figure2a", "flickr-vse0-rc"): curve})


def test_numbers_of_uncommitted_code_are_marked_wherever_they_stand(dirty, tmp_path):
    headline = make_report(dirty, tmp_path)
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    page = Page(text)
    numbers = {table: {row: cells[0].split() for row, cells in rows} for table, rows in page.tables.items()}
    assert numbers["table1"]["1.7"] == numbers["table2"]["1.7"] == ["1.7", "†"]
    assert numbers["table2"]["2.2"] == ["2.2"]
    assert (
        text.count("<li><sup>†</sup> made in part with uncommitted changes of code or parameters (train)")
        == 2
    )
    assert "rows 2.2 and 1.7†" in text
    assert f"<dt>Trained by</dt><dd>2 runs at {'c' * 12}; 1 run at {'d' * 12} + uncommitted changes" in text
    assert f"<dt>Evaluated by</dt><dd>2 runs at {'c' * 12}</dd>" in text
    assert "1 row is marked †" in headline
    latex = (tmp_path / "tables" / "table2.tex").read_text(encoding="utf-8")
    assert r"1.7$^{\dag{}}$ &" in latex
    assert "2.2 &" in latex
    document = (tmp_path / "tables" / "tables.tex").read_text(encoding="utf-8")
    assert document.count(r"$^{\dag{}}$ made in part with") == 2


def test_no_sign_stands_where_all_code_was_committed(full, tmp_path):
    make_report(full, tmp_path)
    for file in tmp_path.rglob("*.[hct]*"):
        assert not re.search(r"†|\\dag\b", file.read_text(encoding="utf-8")), file


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_marked_tables_compile(dirty, tmp_path):
    make_report(dirty, tmp_path)
    assert "Output written on tables.pdf (4 pages" in compile_tables(tmp_path / "tables" / "tables.tex")


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_the_tables_compile(folder, tmp_path):
    shutil.copytree(folder / "tables", tmp_path / "tables")
    printed = compile_tables(tmp_path / "tables" / "tables.tex")
    assert (tmp_path / "tables" / "tables.pdf").read_bytes().startswith(b"%PDF")
    assert "Output written on tables.pdf (4 pages" in printed
