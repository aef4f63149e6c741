"""Renders figures by vl-convert, in this process: as files, and as SVG inside a page."""

from __future__ import annotations

import json
import re
import resource
import sys
from collections.abc import Iterable
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from suite.errors import ResultsError
from suite.report.figures.colors import GRID, SURFACE, TEXT
from suite.report.figures.figure import MARKED, Figure
from suite.worker.programs import ask

# Metrically equal fonts: what is measured here has the same width in a browser.
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
FORMS = ("svg", "png", "pdf")
SCALE = 2  # of PNG: pixels for each unit
CONFIG: dict[str, Any] = {
    "aria": False,  # the whole figure has one description; marks would have thousands
    "background": SURFACE,
    "padding": {"left": 5, "right": 24, "top": 5, "bottom": 5},  # a browser's font may be wider
    "font": FONT,
    "view": {"stroke": None},
    "axis": {
        "labelColor": TEXT,
        "titleColor": TEXT,
        "gridColor": GRID,
        "domainColor": GRID,
        "tickColor": GRID,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelLimit": 320,
        "labelSeparation": 12,
    },
    "axisQuantitative": {"tickCount": 5},
    "axisLeft": {"titlePadding": 12},
    "header": {"labelColor": TEXT, "titleColor": TEXT, "labelFontSize": 12},
    "legend": {"labelColor": TEXT, "titleColor": TEXT, "labelFontSize": 12, "labelLimit": 320},
    "title": {"color": TEXT},
    "text": {"color": TEXT, "fontSize": 12},
    "rule": {"color": TEXT},
}
PAGE_COLORS = {TEXT: "currentColor", GRID: "var(--grid)", SURFACE: "var(--surface)"}
OFFLINE: dict[str, Any] = {"allowed_base_urls": []}  # a figure has its data and loads nothing
# What vl-convert writes for assistive technology and pointers inside a figure that is one image.
NOISE = re.compile(r' (?:aria-hidden|pointer-events|class|role|aria-roledescription)="[^"]*"')
EMPTY = re.compile(r'<path d="(?:M0,0h0v0h0Z)?"[^>]*/>|<g(?: transform="[^"]*")?></g>')
GEOMETRY = re.compile(r' (?:d|transform|x2|y2)="[^"]*"')  # a tenth of a pixel is enough there
SIZE = re.compile(r'(?<= )(width|height)="([0-9.]+)"')  # the first two are those of the figure
ENLARGED = 1.3  # on a wide page; a narrow one reduces figures to its width
PROBE = "import vl_convert; vl_convert.vegalite_to_svg({'mark': 'point'})"  # starts V8
PROBE_S = 60.0
FREE = "ulimit -v unlimited -d unlimited"
LONG = re.compile(r"-?\d+\.\d{2,}")


def renderer() -> Any:
    """The module vl_convert; ResultsError where it would end this process."""
    if reason := _obstacle():
        raise ResultsError(f"figures cannot be drawn: {reason}", hint=f"{FREE}, or elsewhere")
    import vl_convert

    return vl_convert


@cache
def _obstacle() -> str | None:
    """Why vl_convert would end this process: V8 reserves gigabytes of addresses when it starts.

    It aborts where `ulimit -v` or `-d` does not allow them, as a batch system may set them.
    """
    limits = (resource.RLIMIT_AS, resource.RLIMIT_DATA)
    if all(resource.getrlimit(each)[0] == resource.RLIM_INFINITY for each in limits):
        return None
    if ask([sys.executable, "-c", PROBE], timeout_s=PROBE_S).problem is None:
        return None
    return "ulimit -v or -d allows too few addresses"


def svg(figure: Figure) -> str:
    """The figure as an SVG file; ResultsError where this process cannot draw."""
    return str(renderer().vegalite_to_svg(figure.spec, config=CONFIG, **OFFLINE))


def of_page(values: Any) -> Any:
    """A specification or a configuration with the colors of the page, for Vega in the browser."""
    text = json.dumps(values)
    for color, variable in PAGE_COLORS.items():
        text = text.replace(f'"{color}"', f'"{variable}"')
    return json.loads(text)


def inline_svg(figure: Figure) -> str:
    """The figure as an element of a page that has the variables `--grid` and `--surface`.

    Text has the color of the page. Marks of a framework have it as `data-framework`.
    """
    try:
        drawn = svg(figure)
    except ResultsError as error:  # the tables have all values
        return f"<p>{escape(f'{figure.description} {error}; {error.hint}')}</p>"
    text = NOISE.sub("", drawn.replace(f'aria-label="{MARKED}', 'data-framework="'))
    for color, variable in PAGE_COLORS.items():
        text = text.replace(f'"{color}"', f'"{variable}"')
    text = text.replace(f' font-family="{FONT}"', "")
    text = GEOMETRY.sub(lambda found: LONG.sub(_rounded, found[0]), text)
    while EMPTY.search(text):
        text = EMPTY.sub("", text)
    text = SIZE.sub(lambda found: f'{found[1]}="{float(found[2]) * ENLARGED:.0f}"', text, count=2)
    label = escape(figure.description)
    return text.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)


def _rounded(found: re.Match[str]) -> str:
    return f"{float(found[0]):.1f}".removesuffix(".0")


def write_files(figures: Iterable[Figure], folder: Path) -> list[Path]:
    """Write each figure to `folder` as SVG; raise OSError where that fails."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for figure in figures:
        path = folder / f"{figure.name}.svg"
        path.write_bytes(content(figure, "svg"))
        written.append(path)
    return written


def content(figure: Figure, form: str) -> bytes:
    """The figure as a file of one of the FORMS."""
    drawn, vl_convert = svg(figure), renderer()
    if form == "svg":
        return drawn.encode()
    return bytes(
        vl_convert.svg_to_png(drawn, scale=SCALE) if form == "png" else vl_convert.svg_to_pdf(drawn)
    )
