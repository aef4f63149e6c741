"""The site of the documentation: built strictly, searched and read in a real browser."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from suite.paths import REPOSITORY
from tests.browser import browser

pytestmark = pytest.mark.verify
__all__ = ["browser"]
PAGES = ("index.html", "tutorial/first-table.html", "reference/commands.html")
# What a reader looks for, and a page among the first three answers that explains it.
SEARCHES = {
    "MFU": ("explanation/method", "reference/glossary", "tutorial/read-the-page"),
    "my model": ("tutorial/my-model", "how-to/own-model"),
    "Slurm": ("how-to/slurm",),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site")
    subprocess.run(
        [Path(sys.executable).parent / "mkdocs", "build", "--quiet", "--site-dir", place],
        cwd=REPOSITORY,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        check=True,
    )
    return place


def opened(browser: Browser, site: Path, name: str, width: int, scheme: str) -> Page:
    """The page as a file, without a server; requests elsewhere fail the test."""
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=scheme,  # type: ignore[arg-type]
    )
    context.route("http*://**", lambda route: pytest.fail(f"request: {route.request.url}"))
    page = context.new_page()
    page.goto((site / name).as_uri())
    return page


@pytest.mark.parametrize("words", SEARCHES)
def test_the_search_works_from_a_folder_and_finds_the_page_that_explains(
    browser: Browser, site: Path, words: str
) -> None:
    page = opened(browser, site, "index.html", 1280, "light")
    page.keyboard.press("/")
    page.wait_for_selector(".md-search__input:visible")
    page.keyboard.type(words)
    page.wait_for_selector(".md-search-result__link")
    links = page.locator(".md-search-result__link").evaluate_all(
        "links => links.map(link => link.href)"
    )
    found = [link.split("/site")[-1] for link in links]
    assert any(wanted in link for link in found[:3] for wanted in SEARCHES[words]), found[:6]
    page.context.close()


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", PAGES)
def test_pages_can_be_read_on_a_phone_and_by_everybody(
    browser: Browser, site: Path, name: str, width: int
) -> None:
    page = opened(browser, site, name, width, "light" if width == 1280 else "dark")
    overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert overflow <= 0
    serious = [
        f"{each['id']}: {each['help']}"
        for each in Axe().run(page).response["violations"]
        if each["impact"] in ("serious", "critical")
    ]
    assert serious == []
    page.context.close()
