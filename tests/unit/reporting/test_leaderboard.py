"""The page of submissions: who shares a table, who shares a letter, and what is said of each row."""

import re

import numpy as np
import pytest
from browsing import require_good
from submitted import OWNER, SAID, N, submit

from vsepp.errors import VseppError
from vsepp.provenance.studies import Kept
from vsepp.reporting.leaderboard import write_leaderboard
from vsepp.reporting.submissions import write_submission

pytestmark = pytest.mark.usefixtures("few_resamples")


def rows_of(page):
    """Each table's rows: group, name, all text."""
    tables = re.findall(r"<tbody>(.*?)</tbody>", page, re.DOTALL)
    rows = [re.findall(r"<tr .*?</tr>", table, re.DOTALL) for table in tables]
    return [
        [
            (re.search(r"letters\">(.*?)<", row)[1], re.search(r"paper\">(.*?)</a>", row)[1], row)
            for row in table
        ]
        for table in rows
    ]


def page_of(folder, out):
    said = write_leaderboard(folder, out)
    return (out / "index.html").read_text(), said


def test_rows_are_sorted_and_grouped_and_chance_is_in_no_group(tmp_path):
    submit(tmp_path / "in/worse", noise=2.5, seeds=(0, 1))
    submit(tmp_path / "in/good", noise=1.0, seeds=(0, 1), training_datasets=["CC3M", "<b>"])
    submit(tmp_path / "in/as good", noise=1.01, seeds=(None,), test_images_in_training=True)
    submit(tmp_path / "in/noise", noise=1e4)
    page, said = page_of(tmp_path / "in", tmp_path / "out")
    assert said == "4 submissions in 1 tables"
    ((*ahead, (third, worse, _), (none, noise, of_noise)),) = rows_of(page)
    assert {name for _, name, _ in ahead} == {"good", "as good"}
    assert ([group for group, *_ in ahead], worse, third) == (["a", "a"], "worse", "b")
    assert (none, noise) == ("–", "noise") and "ranks like chance" in of_noise
    text = {name: row for _, name, row in ahead}
    assert "2 seeds" in text["good"] and "no seeds" in text["as good"] and "one seed" in of_noise
    assert "test data in training</span>" in text["as good"] and "training: unknown" in text["good"]
    assert "&lt;b&gt;" in text["good"] and '<b>"' not in page
    assert page.count("python rank.py") == 4


def test_other_test_sets_stand_in_other_tables(tmp_path):
    owner = OWNER.copy()
    owner[[4, 5]] = owner[[5, 4]]
    submit(tmp_path / "in/a")
    submit(tmp_path / "in/b")
    submit(tmp_path / "in/other captions", owner=owner)
    submit(tmp_path / "in/other data", data_set="Another forty")
    submit(tmp_path / "in/other folds", protocol="1K")
    tables = rows_of(page_of(tmp_path / "in", tmp_path / "out")[0])
    names = sorted(sorted(name for _, name, _ in table) for table in tables)
    assert names == [["a", "b"], ["other captions"], ["other data"], ["other folds"]]


def test_one_digest_with_other_queries_is_refused(tmp_path):
    """The digest of a truth with ids cannot be computed from ranks: two submissions may claim the same one."""
    for name, images in (("a", [0, 1, 2]), ("b", [0, 1])):
        folder = tmp_path / "evaluated" / name
        folder.mkdir(parents=True)
        arrays = {f"cxc_{task}": np.zeros(len(images)) for task in ("i2t", "t2i")}
        arrays |= {f"cxc_{task}_starts": np.arange(len(images) + 1) for task in ("i2t", "t2i")}
        arrays |= {f"cxc_{task}_images": np.array(images) for task in ("i2t", "t2i")}
        sizes = {"n_images": 3, "n_captions": 9, "fold_size": 3, "similarity": "dot", "truth": "c" * 64}
        kept = Kept(str(folder), {}, None, {"cxc": sizes}, "", arrays)
        write_submission(tmp_path / "in" / name, {**SAID, "name": name}, [kept])
    with pytest.raises(VseppError, match="Forty, cxc: submissions of one digest have other queries: a, b"):
        write_leaderboard(tmp_path / "in", tmp_path / "out")


def test_what_is_shown_is_the_mean_over_the_seeds(tmp_path):
    made = submit(tmp_path / "in/a", seeds=(0, 1, 2), protocol="5K")
    expected = np.mean([100 * np.mean(model.kept.arrays["5K_t2i"] < 5) for model in made.models])
    (((_, _, row),),) = rows_of(page_of(tmp_path / "in", tmp_path / "out")[0])
    assert re.findall(r'<td class="n[^"]*">([0-9.]+)</td>', row)[4] == f"{expected:.1f}"
    assert len(made.models[0].kept.arrays["5K_i2t"]) == N


def test_one_name_is_one_submission(tmp_path):
    submit(tmp_path / "in/a")
    submit(tmp_path / "in/b", name="a")
    with pytest.raises(VseppError, match=r"in/b: is called a, as .*in/a is"):
        write_leaderboard(tmp_path / "in", tmp_path / "out")


def test_no_submissions_are_a_page_too(tmp_path):
    page, said = page_of(tmp_path / "nothing", tmp_path / "out")
    assert said == "0 submissions in 0 tables" and "vsepp submit MODEL" in page


@pytest.mark.browser
@pytest.mark.parametrize("size, scheme", [((1400, 900), "light"), ((390, 800), "dark")], ids=str)
def test_the_page_is_sound_on_a_computer_and_on_a_phone_and_filters(browser, tmp_path, size, scheme):
    submit(tmp_path / "in/clean", test_images_in_training=False)
    submit(tmp_path / "in/seen", noise=1e4, test_captions_in_training=True, training_datasets=["Mine's"])
    write_leaderboard(tmp_path / "in", tmp_path / "out")
    shown = browser.new_page(viewport=dict(zip(("width", "height"), size, strict=True)), color_scheme=scheme)
    shown.goto((tmp_path / "out/index.html").as_uri())
    require_good(shown)
    for chosen, left in (("unseen", ["clean"]), ("data:Mine's", ["seen"]), ("", ["clean", "seen"])):
        shown.select_option(".filter select", chosen)
        assert shown.locator("tbody tr:visible .model a").all_text_contents() == left
    shown.close()
