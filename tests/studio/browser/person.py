"""What a person does on the page, by keys and clicks, and what they see."""

from __future__ import annotations

import csv
import io
import re
import time
from typing import Any

from tests.studio.browser.conftest import PATIENCE

SECONDS = PATIENCE * 1000


class Person:
    """Someone at a page. Waits for what they expect to see, and never for a time."""

    def __init__(self, page: Any) -> None:
        self.page = page

    def state(self) -> dict[str, Any]:
        """What the server knows when it has nothing left to do."""
        reply = self.page.request.get(f"{self.origin}/api/state?settled=true", timeout=SECONDS)
        assert reply.ok, reply.text()
        return reply.json()

    @property
    def origin(self) -> str:
        return re.match(r"https?://[^/]+", self.page.url)[0]

    def wait(self, expression: str, argument: Any = None) -> None:
        """Ask until it is true. Asked from here, as the page's policy lets nothing evaluate text within it."""
        end = time.monotonic() + PATIENCE
        while not self.page.evaluate(expression, argument):
            assert time.monotonic() < end, f"never true: {expression}"
            self.page.wait_for_timeout(40)

    def knows(self, version: int) -> None:
        """The page has heard from the server of this action."""
        self.wait("async (version) => (await import('/page/js/store.js')).store.state?.version >= version", version)

    def sees(self, state: dict[str, Any]) -> None:
        """The labels that the page shows are those of this state, or later ones."""
        self.wait(
            """async (revision) => {
              const { store } = await import("/page/js/store.js");
              return store.state !== null && store.state.revision >= revision && store.shown >= revision;
            }""",
            state["revision"],
        )

    def counts(self) -> dict[str, int]:
        """Items of each class as the list at the side shows them."""
        rows = self.page.locator(".class-row").evaluate_all(
            "rows => rows.map((row) => ['bdi', '.count'].map((part) => row.querySelector(part).textContent))"
        )
        return {name: int(number.replace(",", "")) for name, number in rows}

    def on_desk(self, other_than: str = "") -> str:
        """Name of the item that is asked about, once it is another than the last one."""
        self.wait(
            "(old) => ![null, '', old].includes(document.querySelector('#verdict .id')?.textContent ?? null)",
            other_than,
        )
        return self.page.locator("#verdict .id").text_content()

    def add_class(self, name: str) -> None:
        self.page.keyboard.press("n")
        field = self.page.locator("#new-class")
        self.wait("document.activeElement.id === 'new-class'")
        field.fill(name)
        field.press("Enter")
        self.wait(
            "(name) => [...document.querySelectorAll('.class-row bdi')].some((node) => node.textContent === name)", name
        )
        self.wait("document.querySelector('#new-class').value === ''")
        field.press("Escape")

    def label_by_keys(self, truth: Any, n: int) -> dict[str, str]:
        """Label n items of the queue by the keys of their classes, which are made when one is met first."""
        said: dict[str, str] = {}
        name = ""
        for _ in range(n):
            name = self.on_desk(name)
            label = said[name] = truth(name)
            known = list(self.counts())
            if label not in known:
                self.add_class(label)
                known = list(self.counts())
            self.page.keyboard.press(str(known.index(label) + 1))
        return said

    def view(self, name: str) -> None:
        self.page.get_by_role("tab", name=name).click()

    def menu_of(self, name: str, entry: str) -> None:
        row = self.page.locator(".class-row").filter(has=self.page.get_by_text(name, exact=True))
        row.hover()
        row.get_by_role("button", name="Rename, merge or delete").click()
        self.page.get_by_role("menuitem", name=entry).click()

    def rename(self, old: str, new: str) -> None:
        self.menu_of(old, "Rename")
        field = self.page.get_by_label("New name")
        field.fill(new)
        field.press("Enter")
        self.page.locator(".class-row").get_by_text(new, exact=True).wait_for()

    def exported(self, words: str = "CSV") -> list[dict[str, str]]:
        self.page.get_by_role("button", name="Export").click()
        with self.page.expect_download(timeout=SECONDS) as waiting:
            self.page.get_by_role("menuitem", name=words).click()
        return list(csv.DictReader(io.StringIO(waiting.value.path().read_text(encoding="utf-8"))))
