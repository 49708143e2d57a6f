"""The command itself, in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import laplacianshot
from laplacianshot.studio.server import serve
from laplacianshot.web import server
from laplacianshot.web.server import BoundedServer

# A busy machine takes its time.
PATIENCE = 300.0


class Studio:
    """``laplacianshot studio --demo`` on a project, and what it printed."""

    def __init__(self, project: Path, cache: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "laplacianshot", "studio", "--demo", "--no-browser", "--json"]
        source = str(Path(laplacianshot.__file__).parents[1])
        environment = os.environ | {"PYTHONPATH": source, "PYTHONUTF8": "1", "LAPLACIANSHOT_CACHE": str(cache)}
        self.process = subprocess.Popen(
            [*command, "--port", "0", "--project", str(project), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        printed = json.loads(self._line())
        self.address, self.token = printed["address"], printed["token"]
        self.base = self.address.partition("/?")[0]

    def _line(self) -> str:
        found: queue.Queue[str] = queue.Queue()
        stream = self.process.stdout
        assert stream is not None
        threading.Thread(target=lambda: found.put(stream.readline()), daemon=True).start()
        return found.get(timeout=PATIENCE)

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.base, headers={"authorization": f"Bearer {self.token}"}, timeout=PATIENCE)

    def end(self, sign: signal.Signals = signal.SIGINT) -> int:
        """End the process and give its code."""
        if self.process.poll() is None:
            self.process.send_signal(sign)
        code = self.process.wait(PATIENCE)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code


@pytest.fixture
def started(tmp_path) -> Iterator[Callable[..., Studio]]:
    """Starts studios on the project of this test; none outlives it."""
    made: list[Studio] = []

    def start(*arguments: str) -> Studio:
        made.append(Studio(tmp_path / "project", tmp_path / "cache", *arguments))
        return made[-1]

    yield start
    for studio in made:
        studio.end(signal.SIGKILL)


def events(client: httpx.Client, expected: Callable[[dict[str, Any]], bool]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and data of the server's events, up to the first that is requested."""
    with client.stream("GET", "/api/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        name = ""
        for line in answer.iter_lines():
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                data = json.loads(line[6:])
                yield name, data
                if name == "bye" or expected(data):
                    return


def test_the_printed_address_opens_the_page_two_tabs_stay_in_step_and_ctrl_c_ends_it(started):
    studio = started()
    with httpx.Client(base_url=studio.base, timeout=PATIENCE, follow_redirects=True) as browser:
        page = browser.get(studio.address)
        assert page.status_code == 200
        assert page.headers["content-type"].startswith("text/html")
        assert "token" not in str(page.url)
        assert browser.get("/api/state").status_code == 200
    with studio.client() as one, studio.client() as other:
        seen: list[dict[str, Any]] = []
        listening = threading.Event()

        def listen() -> None:
            for name, data in events(other, lambda state: False):
                seen.append({"event": name, **data})
                listening.set()

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        assert listening.wait(PATIENCE)
        for index, name in ((0, "zero"), (1, "one")):
            assert one.post("/api/label", json={"items": [index], "name": name}).status_code == 200
        settled = one.get("/api/state", params={"settled": True}).json()
        assert settled["counts"]["given"] == 2
        code = studio.end(signal.SIGINT)
        thread.join(PATIENCE)
    assert code == 0
    assert seen[-1]["event"] == "bye"
    states = [state for state in seen if state["event"] == "state"]
    assert states[-1]["version"] == 2
    assert [state["version"] for state in states] == sorted(state["version"] for state in states)
    assert any(state["predicted"] == 2 for state in states)


def test_silent_clients_are_dropped_and_leave_room_for_others(opened, two_groups, monkeypatch, capfd):
    monkeypatch.setattr(server, "_MAX_WAITING", 1.0)
    monkeypatch.setattr(server, "_max_connections", lambda: 20)
    ready: queue.Queue[Any] = queue.Queue()
    listener = server.listen("127.0.0.1", 0)
    running: list[Any] = []
    monkeypatch.setattr(server, "BoundedServer", lambda *a: running.append(BoundedServer(*a)) or running[0])
    monkeypatch.setattr(BoundedServer, "install_signal_handlers", lambda self: None, raising=False)
    monkeypatch.setattr(BoundedServer, "capture_signals", lambda self: contextlib.nullcontext())
    thread = threading.Thread(
        target=serve, args=(opened(two_groups), "127.0.0.1", listener), kwargs={"opened": ready.put}
    )
    thread.start()
    try:
        gate = ready.get(timeout=PATIENCE)
        halves = [socket.create_connection(("127.0.0.1", gate.port), timeout=PATIENCE) for _ in range(60)]
        for half in halves:
            with contextlib.suppress(OSError):
                half.send(b"GET /api/state HTTP/1.1\r\nHost: ")
        headers = {"authorization": f"Bearer {gate.token}"}
        answer = httpx.get(f"http://127.0.0.1:{gate.port}/api/state", headers=headers, timeout=PATIENCE)
        assert answer.status_code == 200
        for half in halves:
            with contextlib.suppress(ConnectionResetError):
                assert half.recv(1) == b""
            half.close()
    finally:
        running[0].handle_exit(signal.SIGINT, None)
        thread.join(PATIENCE)
    assert not thread.is_alive()
    assert len(capfd.readouterr().err) < 1000


def test_what_was_acknowledged_is_there_after_a_kill(started):
    acknowledged: dict[int, str] = {}
    for life in range(2):
        studio = started()
        with studio.client() as client:
            items = client.get("/api/items", params={"origin": "given", "limit": 500}).json()["items"]
            assert {item["index"] for item in items} >= set(acknowledged)
            for index in range(5 * life, 5 * life + 5):
                answer = client.post("/api/label", json={"items": [index], "name": f"class {index % 2}"})
                assert answer.status_code == 200
                acknowledged[index] = f"class {index % 2}"
        studio.end(signal.SIGKILL)
