"""A real browser for the tests of pages: Debian's Chromium."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        if os.environ.get("DLSUITE_REQUIRE_CHROMIUM"):
            pytest.fail("DLSUITE_REQUIRE_CHROMIUM is set, and chromium is not installed")
        pytest.skip("chromium is not installed")
    with sync_playwright() as playwright:
        # Chromium's own sandbox does not start as root, nor in most containers.
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()
