"""A studio in a process of its own, and clients that talk to it."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np

START_SECONDS = 180.0


@dataclass(frozen=True)
class Studio:
    """A server that answers: its process, address and token."""

    process: subprocess.Popen[str]
    address: str
    token: str

    def client(self, **options: Any) -> httpx.Client:
        """A client that has the token."""
        headers = {"authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=self.address, headers=headers, timeout=60, **options)


@contextmanager
def studio(arguments: Sequence[str], project: Path) -> Iterator[Studio]:
    """``laplacianshot studio`` with these arguments, ended at the end of ``with``."""
    command = [sys.executable, "-m", "laplacianshot", "studio", *arguments]
    command += ["--port", "0", "--no-browser", "--json", "--project", str(project)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src")}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    try:
        line = _first_line(process)
        told = json.loads(line)
        yield Studio(process, told["address"].partition("/?")[0], told["token"])
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(30)


def _first_line(process: subprocess.Popen[str]) -> str:
    found: queue.Queue[str] = queue.Queue()
    assert process.stdout is not None
    stream = process.stdout
    threading.Thread(target=lambda: found.put(stream.readline()), daemon=True).start()
    line = found.get(timeout=START_SECONDS)
    if not line:
        raise RuntimeError(f"the studio ended with code {process.wait(30)} before it answered.")
    return line


class States:
    """The states that the server's events tell, the newest at hand."""

    def __init__(self, server: Studio) -> None:
        self._server = server
        self._changed = threading.Condition()
        self.newest: dict[str, Any] = {}
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def wait(self, predicate: Any, seconds: float) -> bool:
        """Wait until a state is as ``predicate`` wants it."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self.newest) and predicate(self.newest), seconds)

    def _listen(self) -> None:
        try:
            with self._server.client() as client, client.stream("GET", "/api/events", timeout=None) as answer:
                for line in answer.iter_lines():
                    if line.startswith("data: {") and len(line) > 10:
                        with self._changed:
                            self.newest = json.loads(line[6:])
                            self._changed.notify_all()
        except httpx.HTTPError:
            pass


def made_up(n: int, dim: int, n_classes: int, seed: int = 0) -> tuple[Any, Any]:
    """Vectors (n, D) in float32 and their classes; three in ten lie on the way to the center of another class."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_classes, n)
    other = (truth + rng.integers(1, n_classes, n)) % n_classes
    share = np.where(rng.random(n) < 0.3, rng.uniform(0, 0.6, n), 0)[:, None].astype(np.float32)
    centers = 0.5 * rng.standard_normal((n_classes, dim), dtype=np.float32)
    shapes = 0.1 * rng.standard_normal((40, dim), dtype=np.float32)
    X = (1 - share) * centers[truth] + share * centers[other]
    for start in range(0, n, 10_000):
        some = slice(start, min(start + 10_000, n))
        X[some] += rng.standard_normal((len(X[some]), 40), dtype=np.float32) @ shapes
        X[some] += rng.standard_normal((len(X[some]), dim), dtype=np.float32)
    return X, truth


def percentiles(seconds: Sequence[float]) -> str:
    """Median, 95th percentile and largest, in milliseconds."""
    middle, high, most = np.percentile(seconds, [50, 95, 100]) * 1e3
    return f"median {middle:7.1f} ms   p95 {high:7.1f} ms   max {most:7.1f} ms   n {len(seconds)}"
