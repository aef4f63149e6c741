"""Compares the page in a run's folder with the one that its records give."""

from __future__ import annotations

import re
from itertools import zip_longest
from pathlib import Path

from suite.report import run_data
from suite.report.html import page
from suite.results import store

HIDDEN = re.compile(r"<(style|script|svg)\b.*?</\1>", re.DOTALL | re.IGNORECASE)
TAG = re.compile(r"<[^>]*>")


def difference(folder: Path) -> tuple[str, str] | None:
    """The first text that the page should have, and the one that it has; None where both agree.

    None, too, where the run has no page. Figures are drawn from the same values as the tables.
    """
    path = folder / page.NAME
    if not path.is_file():
        return None
    made = _texts(page.html(run_data.of(folder, store.read(folder))))
    found = _texts(path.read_text(encoding="utf-8", errors="replace"))
    for expected, actual in zip_longest(made, found, fillvalue="nothing"):
        if expected != actual:
            return expected, actual
    return None


def _texts(html: str) -> list[str]:
    """The texts of a page between its tags, in their order."""
    texts = TAG.split(HIDDEN.sub("", html))
    return [text for each in texts if (text := " ".join(each.split()))]
