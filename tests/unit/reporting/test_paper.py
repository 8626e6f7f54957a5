"""A report as an article: what `paper.tex` holds, and what a TeX engine makes of it."""

from __future__ import annotations

import subprocess

import pytest

from vsepp.errors import VseppError
from vsepp.reporting.paper import short_note
from vsepp.reporting.typeset import has_tex, typeset


@pytest.fixture(scope="module")
def text(report_folder):
    return (report_folder / "paper.tex").read_text(encoding="utf-8")


def test_every_table_and_figure_has_a_label_and_the_datas_note(text, context):
    floats = text.split(r"\caption")[1:]
    labels = [part.partition(r"\label{")[2].partition("}")[0] for part in floats]
    figures = ["gaps", "figure1", "figure2b", "appendix-a", "figure2a", "figure3", "learning-curves"]
    assert sorted(labels) == sorted(
        [f"fig:{name}" for name in figures]
        + [f"tab:table{number}" for number in range(1, 5)]
        + ["tab:claims", "tab:claims-2", "tab:claims-3"]
    )
    note = short_note(context)
    without_data = {"fig:figure1", "fig:appendix-a"}
    assert {label for label, part in zip(labels, floats, strict=True) if note not in part} == without_data
    assert all(
        f"\\ref{{{label}}}" in text for label in ("fig:gaps", "tab:claims", "tab:table1", "tab:table4")
    )


def test_the_ledger_has_ours_and_the_papers_effect_in_columns_of_their_own(text):
    lines = [
        line for line in text.splitlines() if line.startswith("With RC, VSE++ gains over VSE0. & Section 3.3")
    ]
    (line,) = lines
    cells = [cell.strip() for cell in line.removesuffix(r"\\").split("&")]
    assert cells[2:4] == ["R@1, caption retrieval", "+9.5"] and cells[5] == r"+5.9 $\pm$ 0.7"
    assert r"claims of the paper: " in text and "not run" in text


def test_rows_in_trouble_are_marked_and_named(report_folder, text):
    assert r"1.8\ddag{} &" in (report_folder / "tables/table1.tex").read_text(encoding="utf-8")
    assert r"\ddag{} Row 1.8: ranks like chance." in text


def test_specials_are_text(text):
    assert r"50 \% of \$x\_1\$ \& \{evil\} \textbackslash{}input\{x\}" in text


@pytest.mark.tex
def test_the_article_is_typeset_with_nothing_too_wide_and_the_same_way_each_time(report_folder, tmp_path):
    first = typeset(report_folder).read_bytes()
    assert first.startswith(b"%PDF") and typeset(report_folder).read_bytes() == first
    command = ["pdflatex", "-interaction=nonstopmode", f"-output-directory={tmp_path}", "paper.tex"]
    done = subprocess.run(
        command, cwd=report_folder, capture_output=True, text=True, errors="replace", timeout=120
    )
    assert "Overfull" not in done.stdout and "too large" not in done.stdout
    assert not list(report_folder.glob("*.aux")), "what TeX leaves behind stays out of the report"


@pytest.mark.tex
def test_what_tex_does_not_understand_is_said(tmp_path):
    (tmp_path / "paper.tex").write_text("\\documentclass{article}\n\\begin{document}\n\\nonsense\n")
    with pytest.raises(VseppError, match=r"Undefined control sequence.*nonsense"):
        typeset(tmp_path)
    assert not (tmp_path / "paper.pdf").exists()


def test_without_a_tex_engine_it_is_said_what_to_install(report_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not has_tex()
    with pytest.raises(
        VseppError, match=r"paper\.tex cannot be typeset here.*apt-get install texlive-latex-base"
    ):
        typeset(report_folder)


def test_a_folder_without_a_report_is_refused(tmp_path):
    with pytest.raises(VseppError, match=r"paper\.tex: no such file"):
        typeset(tmp_path)
