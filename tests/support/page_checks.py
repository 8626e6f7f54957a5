"""What every page must be in a real browser."""


def require_good(page):
    """Nothing that axe finds, nothing that sticks out at the side, no picture that does not load."""
    from axe_playwright_python.sync_playwright import Axe

    page.wait_for_load_state("networkidle")
    violations = Axe().run(page).response["violations"]
    assert not [f"{rule['impact']}: {rule['id']}: {rule['nodes'][0]['html']}" for rule in violations]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for picture in page.locator("main img").all():
        picture.scroll_into_view_if_needed()
        picture.evaluate("image => image.decode()")
