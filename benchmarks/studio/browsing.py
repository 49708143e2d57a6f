"""A real studio in a real browser, without a window: what the scripts of this folder that look at the page share."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright
from studio.serving import Studio

# Milliseconds.
PATIENCE = 300_000


@contextmanager
def chromium() -> Iterator[Browser]:
    """The system's Chromium; none is ever downloaded."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        sys.exit("error: chromium is absent (on Debian and Ubuntu: apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def opened(browser: Browser, server: Studio, size: tuple[int, int], dark: bool = False, still: bool = True) -> Page:
    """The page of a studio, once it shows its items."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce" if still else "no-preference",
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(f"{server.address}/?token={server.token}")
    until(page, "async () => (await import('/page/js/store.js')).store.columns.n > 0")
    return page


def until(page: Page, expression: str, argument: Any = None) -> None:
    """Ask until it is true. Asked from here, as the page's policy lets nothing evaluate text within it."""
    end = time.monotonic() + PATIENCE / 1000
    while not page.evaluate(expression, argument):
        assert time.monotonic() < end, f"never true: {expression}"
        page.wait_for_timeout(40)


def settled(page: Page) -> None:
    """Wait until the page shows all that the labels say."""
    until(
        page,
        """async () => {
          const { store } = await import("/page/js/store.js");
          const { state, columns } = store;
          if (!state || state.settled !== state.version || !state.embedding.finished) return false;
          return store.places !== null && columns.n === state.source.total;
        }""",
    )
    page.wait_for_timeout(900)
