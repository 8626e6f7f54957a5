"""Pages of a report in a real browser: wide and narrow, light and dark, and on paper."""

from __future__ import annotations

import pytest
from page_checks import require_good

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("size, scheme", [((1400, 900), "light"), ((390, 800), "dark")], ids=str)
@pytest.mark.parametrize("page", ["index.html", "runs/vsepp.html", "tables/table2.html"])
def test_pages_are_sound_on_a_computer_and_on_a_phone(browser, report_folder, page, size, scheme):
    shown = browser.new_page(viewport=dict(zip(("width", "height"), size, strict=True)), color_scheme=scheme)
    shown.goto((report_folder / page).as_uri())
    require_good(shown)
    assert shown.locator("main").count() == 1
    shown.close()


def test_nothing_is_cut_off_on_paper(browser, report_folder):
    width = 973  # of a landscape sheet of Letter in CSS pixels, without margins of 11 mm
    shown = browser.new_page(viewport={"width": width, "height": 700})
    shown.emulate_media(media="print")
    shown.goto((report_folder / "index.html").as_uri())
    ends = "boxes => boxes.map(box => Math.round(box.getBoundingClientRect().right))"
    assert max(shown.locator("table").evaluate_all(ends)) <= width
    assert max(shown.locator(".plot img").evaluate_all(ends)) <= width
    shown.close()


def test_claims_are_filtered_by_a_script_and_all_there_without_it(browser, report_folder):
    page = (report_folder / "index.html").as_uri()
    with_script, without = browser.new_page(), browser.new_context(java_script_enabled=False).new_page()
    for shown in (with_script, without):
        shown.goto(page)
    every = without.locator("table.claims tbody tr").count()
    assert with_script.locator("table.claims tbody tr").count() == every
    assert not without.locator(".filter").is_visible()

    tile = with_script.locator(".tiles .as-claimed")
    number = int(tile.locator("b").text_content())
    tile.click()
    rows = with_script.locator("table.claims tbody tr:visible")
    assert 0 < number == rows.count() < every
    assert all("as-claimed" in row.get_attribute("data-verdict").split() for row in rows.all())
    with_script.select_option(".filter select", "not-run")
    assert {row.get_attribute("data-verdict") for row in rows.all()} == {"no-result not-run"}, "unfolded"

    claim = without.locator("details tbody tr").first.get_attribute("id")
    with_script.goto(f"{page}#{claim}")
    with_script.reload()
    assert with_script.locator(f"#{claim}").is_visible()
    without.context.close()
    with_script.close()
