"""A page of the machine's Chromium, for tests that look at what a person sees."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Page, sync_playwright

CHROMIUM = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def open_page(**options: Any) -> Iterator[Page]:
    """An empty page with `options` of Playwright's; the browser ends with the context."""
    binary = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert binary, "chromium is not installed; `make test` installs it, or says what is missing"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=binary, args=CHROMIUM)
        page = browser.new_page(**{"viewport": {"width": 1400, "height": 1000}, **options})
        page.set_default_timeout(60_000)
        yield page
        browser.close()
