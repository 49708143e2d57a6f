"""A real studio in its own process, on a port of 127.0.0.1 that is free, and a real Chromium that looks at it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

# Seconds. Far more than anything takes on an idle machine: a busy one must not fail a test.
PATIENCE = 300
WINDOW = {"width": 1440, "height": 900}


@dataclass
class Studio:
    """A studio that runs, and how to have it run again on the same labels."""

    arguments: list[str]
    folder: Path
    process: subprocess.Popen[str] | None = None
    address: str = ""

    def start(self) -> Studio:
        command = [sys.executable, "-m", "laplacianshot", "studio", *self.arguments]
        command += ["--port", "0", "--no-browser", "--json", "--project", str(self.folder / "project")]
        surroundings = {**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache")}
        log = (self.folder / "log").open("a")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=surroundings)
        # A studio that says nothing is ended, which ends the reading of its words.
        watch = threading.Timer(PATIENCE, self.process.kill)
        watch.start()
        assert self.process.stdout is not None
        printed = self.process.stdout.readline()
        watch.cancel()
        assert printed, (self.folder / "log").read_text()
        self.address = json.loads(printed)["address"]
        return self

    def kill(self) -> None:
        """End it at once, as a lost machine would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(PATIENCE)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """The digits, for tests that do not mind what others have labeled."""
    shared = Studio(["--demo"], tmp_path_factory.mktemp("demo")).start()
    yield shared
    shared.kill()


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Callable[..., Studio]]:
    """Start a studio: ``studio("--demo")``."""
    started: list[Studio] = []

    def start(*arguments: str) -> Studio:
        folder = tmp_path / f"studio-{len(started)}"
        folder.mkdir()
        started.append(Studio([str(argument) for argument in arguments], folder))
        return started[-1].start()

    yield start
    for one in started:
        one.kill()


@dataclass
class Visit:
    """A person's browser: pages that share a session, and all that went wrong in any of them."""

    context: Any
    faults: list[str] = field(default_factory=list)
    # Words of faults that a test brings about itself.
    allowed: list[str] = field(default_factory=list)

    def open(self, address: str) -> Any:
        page = self.context.new_page()
        page.set_default_timeout(PATIENCE * 1000)
        page.on("console", lambda printed: self._fault(printed.text) if printed.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self._fault(str(error)))
        page.on("dialog", lambda dialog: (self._fault(f"a box says {dialog.message}"), dialog.dismiss()))
        page.on("request", self._asked)
        page.goto(address)
        page.locator("#source bdi").wait_for()
        return page

    def _asked(self, request: Any) -> None:
        if not request.url.startswith(("http://127.0.0.1:", "data:", "blob:")):
            self._fault(f"left this machine: {request.url}")

    def _fault(self, text: str) -> None:
        if not any(words in text for words in self.allowed):
            self.faults.append(text)


@pytest.fixture
def visit(chromium: Any) -> Iterator[Visit]:
    """A browser of its own; at the end nothing may have gone wrong in it and no request have left the machine."""
    context = chromium.new_context(viewport=WINDOW, accept_downloads=True, reduced_motion="reduce")
    visitor = Visit(context)
    yield visitor
    context.close()
    assert visitor.faults == []
