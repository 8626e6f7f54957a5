"""The report as an article: a PDF where TeX is installed, and nothing that fails where it is not."""

import os
from pathlib import Path

import pytest

pytestmark = [pytest.mark.workflow, pytest.mark.whole]
REPORT = "reports/tiny/paper/vsepp"


@pytest.fixture
def without_tex(project, tmp_path):
    """A PATH with all that there is but TeX."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for tool in Path(folder).glob("*"):
            if "tex" not in tool.name and not (tools / tool.name).exists():
                (tools / tool.name).symlink_to(tool.resolve() if tool.is_symlink() else tool)
    first = project.environment["PATH"].split(os.pathsep)[0]
    return os.pathsep.join([first, str(tools)])


@pytest.mark.tex
def test_the_article_is_typeset_with_the_report_and_again_when_it_is_gone(project):
    paper = project.folder / REPORT / "paper.pdf"
    before = paper.read_bytes()
    assert before.startswith(b"%PDF")
    assert project.planned() == {}
    paper.unlink()
    assert project.planned() == {"paper": 1}
    assert "install" not in project.run()
    assert paper.read_bytes() == before


def test_without_tex_the_source_is_there_and_the_end_says_what_to_install(project, without_tex):
    folder = project.folder / REPORT
    (folder / "paper.pdf").unlink(missing_ok=True)
    done = project.call(*project.snakemake(), PATH=without_tex)
    assert "Nothing to be done" in done.stdout and not (folder / "paper.pdf").exists()
    (folder / "paper.pdf").write_bytes(b"of an earlier report")
    done = project.call(*project.snakemake("--forcerun", "report"), PATH=without_tex)
    assert "apt-get install texlive-latex-base" in done.stdout
    assert (folder / "paper.tex").is_file() and not (folder / "paper.pdf").exists()
    assert (
        "there is no pdflatex" in project.call("vsepp", "paper", REPORT, check=False, PATH=without_tex).stdout
    )
