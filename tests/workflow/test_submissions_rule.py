"""The leaderboard is made of submissions alone: in a fresh clone, again after an edit, and not twice."""

import pytest
from dag import copy_of_the_project
from submitted import submit

pytestmark = pytest.mark.workflow


def test_the_page_is_made_of_the_submissions_alone(tmp_path):
    project = copy_of_the_project(tmp_path / "vsepp", {"preset": "flickr8k"})
    submit(project.folder / "leaderboard/first", seeds=(0, 1))
    submit(tmp_path / "second", noise=2.0)
    (tmp_path / "second").rename(project.folder / "leaderboard/second")
    (project.folder / "leaderboard/first-evaluated").rename(tmp_path / "first-evaluated")
    target = ("--cores", "1", "leaderboard")
    project.run(*target)
    page = project.folder / "reports/leaderboard/index.html"
    assert "first" in page.read_text() and "second" in page.read_text()
    assert project.planned(*target) == {}

    # The text of a card is on the page; a submission that is refused leaves the page as it was.
    project.edit("leaderboard/second/card.yaml", "python rank.py", "python rank.py --twice")
    assert project.planned(*target) == {"leaderboard": 1}
    project.run(*target)
    assert "python rank.py --twice" in page.read_text()
    project.edit("leaderboard/second/card.yaml", "license: ", "licence: ")
    project.refusal(*project.snakemake(*target))
    log = (project.folder / "reports/leaderboard/leaderboard.log").read_text()
    assert "second/card.yaml: 2 mistakes" in log and "did you mean license" in log
    assert "python rank.py --twice" in page.read_text()

    # One fewer is another page.
    (project.folder / "leaderboard/second").rename(tmp_path / "second")
    assert project.planned(*target) == {"leaderboard": 1}
