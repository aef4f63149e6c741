"""The page in a real browser: no request, no error, every figure, the filter, accessibility."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from suite.report import run_data
from suite.report.html import page as report_page
from suite.report.html import site as pages
from tests.browser import browser
from tests.conftest import rest_in_verify
from tests.report.made_inference import RATES, made_inference
from tests.report.made_run import CONFIGURATIONS, made_run

__all__ = ["browser"]
WIDE, NARROW = 1280, 390  # of a screen in pixels
VIEWS = rest_in_verify((NARROW, "dark"), (NARROW, "light"), (WIDE, "light"), (WIDE, "dark"))
DRAWN = "svg => { const box = svg.getBBox(); return box.width > 100 && box.height > 20; }"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page; beside it are `interactive.html`, and `inference.html` of another run."""
    place = tmp_path_factory.mktemp("page")
    run = run_data.read(made_run(place))
    report_page.write(place / "report.html", run, run)
    report_page.write(place / "interactive.html", run, run, interactive=True)
    inference = run_data.read(made_inference(place))
    report_page.write(place / "inference.html", inference, inference)
    return place / "report.html"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site")
    made_run(place / "results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DLSUITE_HOME", str(place / "home"))
        pages.write(place / "results", place / "site")
    return place / "site"


Opened = Callable[..., Page]


@pytest.fixture
def opened(browser: Browser, file: Path) -> Iterator[Opened]:
    """Opens the page; at the end, it must have caused no request and no message."""
    problems: list[str] = []
    contexts = []

    def open_page(
        width: int = WIDE,
        scheme: str = "light",
        *,
        script: bool = True,
        interactive: bool = False,
        other: Path | None = None,
    ) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,  # type: ignore[arg-type]
            java_script_enabled=script,
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: problems.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on("request", lambda request: problems.append(f"request: {request.url[:60]}"))
        own = file.with_stem("interactive") if interactive else file
        address = (other or own).as_uri()
        page.goto(address)
        problems.remove(f"request: {address[:60]}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [each for each in problems if not each.startswith("request: data:")] == []


def visible(page: Page, selector: str) -> int:
    return page.locator(selector).locator("visible=true").count()


@pytest.mark.parametrize(("width", "scheme"), VIEWS)
def test_every_figure_is_drawn_and_the_page_does_not_scroll_sideways(
    opened: Opened, width: int, scheme: str
) -> None:
    page = opened(width, scheme)
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    figures = page.locator("figure svg")
    assert figures.count() == 3 + 2 + 16 + 2 + 1 + 3
    assert all(figures.nth(number).evaluate(DRAWN) for number in range(figures.count()))
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(("width", "scheme"), VIEWS)
def test_every_figure_of_inference_is_drawn_and_nothing_is_wider_than_the_page(
    opened: Opened, file: Path, width: int, scheme: str
) -> None:
    page = opened(width, scheme, other=file.with_stem("inference"))
    figures = page.locator("figure svg")
    assert figures.count() == 4 + 4 + 1 + 3 + 4
    assert all(figures.nth(number).evaluate(DRAWN) for number in range(figures.count()))
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert serious(page) == []
    page.select_option("select[name=framework]", "jax")
    assert visible(page, "#answer tbody tr") == 2 + len(RATES) + 1


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_the_figure_of_the_answer_is_not_clipped(opened: Opened, width: int) -> None:
    """Its frame shows all of it without scrolling, and no text is beyond its edge."""
    page = opened(width)
    outside = page.evaluate(
        """() => [...document.querySelectorAll("#answer figure .scroll")].flatMap((frame) => {
            const edge = frame.getBoundingClientRect();
            const texts = [...frame.querySelectorAll("text")];
            const beyond = texts.filter((text) => {
                const box = text.getBoundingClientRect();
                return box.left < edge.left - 1 || box.right > edge.right + 1;
            });
            const scrolls = frame.scrollWidth > frame.clientWidth + 1 ? ["it scrolls"] : [];
            return [...scrolls, ...beyond.map((text) => text.textContent)];
        })"""
    )
    assert outside == []


def test_the_filter_hides_what_is_about_other_frameworks(opened: Opened) -> None:
    page = opened()
    rows = "#answer tbody tr"
    every = visible(page, rows)
    assert every == len(CONFIGURATIONS) + 3
    page.select_option("select[name=framework]", "jax")
    assert visible(page, rows) == 2
    assert page.locator("#shown").inner_text() == f"2 of {every} rows"
    dimmed = page.locator("#answer svg [data-framework=pytorch]").first
    assert dimmed.evaluate("each => getComputedStyle(each).opacity") == "0.12"
    page.select_option("select[name=framework]", "")
    page.select_option("select[name=device]", "cpu:2")
    assert visible(page, rows) == 1 and visible(page, "#answer article") == 1
    page.select_option("select[name=device]", "")
    assert visible(page, rows) == every


def test_the_filter_works_by_keyboard(opened: Opened) -> None:
    page = opened()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.locator("select[name=framework]").focus()
    page.keyboard.press("ArrowDown")
    assert visible(page, "#answer tbody tr") == 2


def test_without_script_the_page_has_everything_and_no_filter(opened: Opened) -> None:
    page = opened(script=False)
    assert visible(page, "#answer tbody tr") == len(CONFIGURATIONS) + 3
    assert visible(page, "#filter") == 0 and visible(page, "#answer svg") == 3


@pytest.mark.parametrize("scheme", rest_in_verify("light", "dark"))
def test_axe_finds_nothing_serious(opened: Opened, scheme: str) -> None:
    page = opened(scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    assert serious(page) == []


def serious(page: Page) -> list[str]:
    """What axe finds that is serious or critical."""
    found = Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {each['nodes'][0]['html']}"
        for each in found
        if each["impact"] in ("serious", "critical")
    ]


def test_a_printed_page_has_no_navigation_and_dark_text(opened: Opened) -> None:
    page = opened(scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert visible(page, "nav") == 0 and visible(page, "#filter") == 0
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert page.pdf().startswith(b"%PDF")


def test_marks_of_an_interactive_page_show_their_values(opened: Opened) -> None:
    page = opened(interactive=True)
    page.wait_for_selector("#answer figure[data-live]")
    page.locator("#answer svg path[data-framework=mxnet]").first.hover()
    page.wait_for_selector("#tip:not([hidden])")
    lines = page.locator("#tip").inner_text().splitlines()
    assert lines[0] == "MXNet hybrid" and any(line.startswith("median: 3,0") for line in lines)
    page.select_option("select[name=framework]", "jax")
    dimmed = page.locator("#answer svg path[data-framework=mxnet]").first
    assert dimmed.evaluate("each => getComputedStyle(each).opacity") == "0.12"


def test_every_figure_of_an_interactive_page_is_drawn_again(opened: Opened, file: Path) -> None:
    page = opened(NARROW, "dark", interactive=True)
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    figures = page.locator("figure")
    for number in range(figures.count()):
        figures.nth(number).scroll_into_view_if_needed()
        page.wait_for_selector(f":nth-match(figure, {number + 1})[data-live]")
        assert figures.nth(number).locator("svg").evaluate(DRAWN)
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW
    assert file.with_stem("interactive").stat().st_size < 3 * 10**6


@pytest.mark.parametrize(("width", "scheme"), VIEWS)
def test_the_pages_of_a_site_are_accessible_and_do_not_scroll_sideways(
    opened: Opened, site: Path, width: int, scheme: str
) -> None:
    (workload,) = (site / "workloads").iterdir()
    for path in (site / "index.html", workload):
        page = opened(width, scheme, other=path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert serious(page) == []


def test_the_filter_of_a_workload_and_the_links_of_a_site_work(opened: Opened, site: Path) -> None:
    (workload,) = (site / "workloads").iterdir()
    page = opened(other=workload)
    every = visible(page, "tbody tr")
    page.select_option("select[name=framework]", "jax")
    assert 0 < visible(page, "tbody tr") < every
    assert page.locator("#shown").inner_text().endswith(f"of {every} rows")
