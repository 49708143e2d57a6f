"""Many clients on one studio: answers stay quick and memory stays flat."""

from __future__ import annotations

import os
import random
import resource
import socket
import threading
import time
from collections.abc import Callable

import httpx
import numpy as np
import psutil
import pytest

from tests.studio.test_server import Studio, started

__all__ = ["started"]  # a fixture

# One client in a thread of ours has to wait for all others, on two cores also for the server.
MAX_P95 = 5.0
# The second half of the run against the first, and what Python keeps of the memory of a burst.
MAX_SLOWER, MAX_GROWTH_BYTES = 3.0, 150e6


def work_until(end: float, studio: Studio, seed: int, seconds: list[tuple[float, float]], faults: list[str]) -> None:
    """Do what people do: look, label, undo."""
    rng = random.Random(seed)
    with studio.client() as client:
        while time.monotonic() < end:
            start = time.monotonic()
            match rng.randrange(6):
                case 0:
                    answer = client.post("/api/label", json={"items": [rng.randrange(1700)], "name": f"{seed % 10}"})
                case 1:
                    answer = client.post("/api/undo", json={"steps": 1})
                case 2:
                    answer = client.get("/api/state")
                case 3:
                    answer = client.get(f"/api/items/{rng.randrange(1700)}/thumbnail", params={"size": 64})
                case 4:
                    answer = client.get("/api/map/labels")
                case _:
                    answer = client.get("/api/items", params={"offset": rng.randrange(1000), "limit": 50})
            seconds.append((start, time.monotonic() - start))
            # 409: two people undid the same action, or labeled the same item alike.
            if answer.status_code not in (200, 304, 409):
                faults.append(f"{answer.request.url}: {answer.status_code} {answer.text[:200]}")
            time.sleep(rng.random() * 0.05)


@pytest.mark.parametrize(
    ("clients", "length"),
    [
        (8, 8.0),
        pytest.param(50, float(os.environ.get("LAPLACIANSHOT_LOAD_SECONDS", "600")), marks=pytest.mark.slow),
    ],
)
@pytest.mark.timeout(1500)
def test_latencies_and_memory_stay_flat(clients, length, started: Callable[..., Studio]):
    studio = started()
    process = psutil.Process(studio.process.pid)
    with studio.client() as client:
        for item in range(20):
            client.post("/api/label", json={"items": [item], "name": f"{item % 10}"})
        client.get("/api/state", params={"settled": True})
    seconds: list[tuple[float, float]] = []
    faults: list[str] = []
    begin = time.monotonic()
    arguments = [(begin + length, studio, seed, seconds, faults) for seed in range(clients)]
    threads = [threading.Thread(target=work_until, args=one) for one in arguments]
    for thread in threads:
        thread.start()
    memory: list[float] = []
    while any(thread.is_alive() for thread in threads):
        time.sleep(0.5)
        memory.append(process.memory_info().rss)
    assert not faults, faults[:3]
    assert studio.process.poll() is None
    early = [took for start, took in seconds if start < begin + length / 2]
    late = [took for start, took in seconds if start >= begin + length / 2]
    p95 = [float(np.quantile(half, 0.95)) for half in (early, late)]
    third = len(memory) // 3
    growth = float(np.median(memory[2 * third :]) - np.median(memory[third : 2 * third]))
    print(f"{len(seconds)} requests, p95 {p95[0]:.3f} s and {p95[1]:.3f} s, memory grew by {growth / 1e6:.0f} MB")
    assert max(p95) < MAX_P95
    assert p95[1] < MAX_SLOWER * p95[0] + 0.2
    assert growth < MAX_GROWTH_BYTES


def test_with_few_files_left_silent_clients_neither_stop_the_studio_nor_fill_its_log(started, monkeypatch):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The studio inherits it.
    resource.setrlimit(resource.RLIMIT_NOFILE, (160, limits[1]))
    try:
        studio = started()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    port = int(studio.base.rpartition(":")[2])
    silent = []
    for _ in range(300):
        connection = socket.create_connection(("127.0.0.1", port), timeout=60)
        silent.append(connection)
    for _ in range(5):
        with studio.client() as client:
            assert client.get("/api/state").status_code == 200
    for connection in silent:
        connection.close()
    with httpx.Client(base_url=studio.base, timeout=60) as stranger:
        assert stranger.get("/api/state").status_code == 401
    studio.process.terminate()
    _, err = studio.process.communicate(timeout=60)
    assert len(err) < 2000, err[:2000]
