from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from laplacianshot.labeling.sources import Source, open_source
from laplacianshot.studio.app import create_app
from laplacianshot.studio.server import open_session
from laplacianshot.studio.session import Session
from laplacianshot.web.access import Gate

TOKEN = "a-token-for-tests"
PORT = 8765


@pytest.fixture
def user_cache_here(tmp_path, monkeypatch) -> Path:
    """The user's cache in a folder of the test."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("LAPLACIANSHOT_CACHE", str(folder))
    return folder


@pytest.fixture
def two_groups(tmp_path) -> Path:
    """A file of 60 vectors, 0-29 of one kind and 30-59 of another."""
    rng = np.random.default_rng(0)
    X = np.repeat(np.eye(2, 6), 30, axis=0) + 0.1 * rng.standard_normal((60, 6))
    path = tmp_path / "vectors.npy"
    np.save(path, X)
    return path


@pytest.fixture
def opened(user_cache_here, monkeypatch) -> Iterator[Callable[..., Session]]:
    """Opens sessions that end with the test: ``opened(path or source, **options)``."""
    # Nobody rests in a test.
    monkeypatch.setattr("laplacianshot.studio.engine._PAUSE", 0.02)
    contexts = []

    def make(source: Path | Source, **options: Any) -> Session:
        context = open_session(source if isinstance(source, Source) else open_source(source), **options)
        session = context.__enter__()
        contexts.append(context)
        return session

    yield make
    for context in reversed(contexts):
        context.__exit__(None, None, None)


@pytest.fixture
def client_of() -> Iterator[Callable[[Session], TestClient]]:
    """A client that has the token of a session's application."""
    clients = []

    def make(session: Session) -> TestClient:
        gate = Gate(TOKEN, "127.0.0.1", PORT)
        client = TestClient(
            create_app(session, gate),
            base_url=f"http://127.0.0.1:{PORT}",
            headers={"authorization": f"Bearer {TOKEN}"},
            follow_redirects=False,
        )
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def client(opened, client_of, two_groups) -> TestClient:
    """On the file of two groups of vectors."""
    return client_of(opened(two_groups))


@pytest.fixture
def settled() -> Callable[[TestClient], dict[str, Any]]:
    """The state once nothing is left to do."""

    def wait(client: TestClient) -> dict[str, Any]:
        for _ in range(4):
            state: dict[str, Any] = client.get("/api/state", params={"settled": True}).json()
            if state["settled"] == state["version"]:
                return state
        raise AssertionError(f"not settled: {state}")

    return wait
