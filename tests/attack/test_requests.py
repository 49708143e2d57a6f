"""Requests to the studio, allowed and not: an answer in time, never an error of the server, never past the gate."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import Any

import httpx
import numpy as np
import pytest
from starlette.testclient import TestClient

from laplacianshot.studio import schemas
from laplacianshot.web.access import MAX_SMALL_BODY
from tests.attack.conftest import blocks, in_time
from tests.attack.test_files import mutated
from tests.studio.conftest import PORT, client, client_of, opened, two_groups, user_cache_here

__all__ = ["client", "client_of", "opened", "two_groups", "user_cache_here"]  # fixtures

PER_BLOCK = 50
PATHS = [
    *("/api/state", "/api/items", "/api/indices", "/api/groups", "/api/history", "/api/map", "/api/map/labels"),
    *("/api/items/{n}", "/api/items/{n}/thumbnail", "/api/items/{n}/picture", "/api/export", "/api/openapi.json"),
    *("/api/label", "/api/accept", "/api/classes", "/api/classes/{n}", "/api/classes/{n}/merge", "/api/undo"),
    *("/api/redo", "/api/import", "/", "/page/index.html", "/page/../../../etc/passwd", "/page/%2e%2e/%2e%2e/app.py"),
]
BODIES: list[Any] = [
    *({"items": [0, 1], "name": "cat"}, {"items": [31], "name": "dog"}, {"items": [2], "class": 1}, {"steps": 1}),
    *({"items": [0], "class": None}, {"name": "owl"}, {"into": 1}, {"min_confidence": 0.9}, {"items": [5]}),
    *(None, [], "x", 7, {"items": "all"}, {"items": [1e300]}, {"name": "\ud800"}, {"name": "a" * 10_000}),
]
VALUES = ["0", "7", "-1", "1e3", "99999999999999999999", "NaN", "", "../..", "%00", "é", "true", "cat", "'; DROP"]
QUERIES = ["class", "origin", "min_confidence", "search", "sort", "only", "offset", "limit", "index", "size", "format"]


def random_request(rng: np.random.Generator) -> dict[str, Any]:
    """A request as httpx takes it."""

    def one(values: list[Any]) -> Any:
        return values[int(rng.integers(len(values)))]

    body = json.dumps(one(BODIES)).encode()
    if rng.random() < 0.3:
        body = mutated(body, rng)
    headers = {"content-type": one(["application/json"] * 5 + ["text/plain", "application/octet-stream", "x", ""])}
    match rng.choice(20):
        case 0:
            headers["authorization"] = one(["", "Bearer", "Bearer x", "Basic eDp4"])
        case 1:
            headers["host"] = one(["evil.example", f"localhost:{PORT + 1}", ""])
        case 2:
            headers["origin"] = one(["http://evil.example", "null"])
        case 3:
            headers["sec-fetch-site"] = "cross-site"
        case 4:
            headers["if-none-match"] = one(["*", '"x"', "\x7f"])
    query = {one(QUERIES): one(VALUES) for _ in range(int(rng.integers(0, 3)))}
    if rng.random() < 0.2:
        query["name"] = one(["labels.csv", "labels.json", "x.exe", "../../l.csv", "l.parquet"])
    return {
        "method": one(["GET", "GET", "POST", "POST", "PATCH", "DELETE", "PUT", "HEAD", "OPTIONS"]),
        "url": one(PATHS).replace("{n}", one(["0", "1", "59", "60", "-1", "x", "9" * 30])),
        "params": query,
        "headers": headers,
        "content": body,
    }


def is_stranger(headers: dict[str, str]) -> bool:
    """Whether a request lacks the token, or comes from elsewhere."""
    return bool({"authorization", "host", "origin", "sec-fetch-site"} & set(headers))


@pytest.mark.parametrize("seed", blocks(300, PER_BLOCK))
def test_every_request_is_answered_and_no_stranger_gets_in(seed, client):
    for number in range(PER_BLOCK):
        request = random_request(np.random.default_rng([seed, number]))
        case = f"seed {seed}, case {number}, {request}"
        with in_time(case):
            answer = client.request(**request)
        assert answer.status_code < 500 or answer.status_code == 503, f"{case}: {answer.text}"
        assert answer.headers["x-content-type-options"] == "nosniff", case
        if is_stranger(request["headers"]):
            at_door = request["headers"].get("sec-fetch-site") and request["url"] == "/" and request["method"] == "GET"
            assert answer.status_code in (401, 403) or at_door, case
        if answer.status_code >= 400 and answer.content:
            assert "\n" not in answer.json()["detail"], case
    assert client.get("/api/state").json()["source"]["total"] == 60


@pytest.mark.parametrize(
    ("slow", "path"),
    [
        *(("parsed", path) for path in ("/api/label", "/api/accept", "/api/import?name=l.csv")),
        *(("checked", path) for path in ("/api/label", "/api/accept")),
    ],
)
def test_others_are_answered_while_a_large_body_is(slow, path, client: TestClient, monkeypatch):
    """By events: the large body waits for the answer to the other request, which it must not keep from coming."""
    begun, answered = threading.Event(), threading.Event()
    in_between: list[bool] = []

    def wait() -> None:
        begun.set()
        in_between.append(answered.wait(20))

    loads, whole = json.loads, schemas._whole

    def slow_loads(text: Any, **options: Any) -> Any:
        if len(text) > MAX_SMALL_BODY:
            wait()
        return loads(text, **options)

    def slow_whole(value: Any) -> Any:
        if not in_between:
            wait()
        return whole(value)

    if slow == "parsed":
        monkeypatch.setattr("json.loads", slow_loads)
    else:
        monkeypatch.setattr(schemas, "_whole", slow_whole)

    async def both() -> tuple[Any, Any]:
        transport = httpx.ASGITransport(client.app)
        options: Any = {"base_url": str(client.base_url), "headers": client.headers, "timeout": 60}
        async with httpx.AsyncClient(transport=transport, **options) as page:
            body = json.dumps({"items": [0] * 30_000, "class": None})
            large = asyncio.create_task(page.post(path, content=body, headers={"content-type": "application/json"}))
            while not begun.is_set():
                await asyncio.sleep(0.01)
            other = await page.get("/api/state")
            answered.set()
            return await large, other

    large, other = asyncio.run(both())
    assert in_between == [True], "the other request was not answered meanwhile"
    assert other.status_code == 200
    assert large.status_code < 500


@pytest.mark.parametrize(
    "body",
    [
        {"items": ["a"] * 1_000_000, "class": 1},
        {"items": [[]] * 1_000_000, "class": 1},
        {"items": [-1] * 1_000_000, "name": "cat"},
        {"items": [0.5] * 1_000_000, "class": 1},
        {f"field {i}": 1 for i in range(250_000)},
        {"items": [1] * 2_000_000, "class": 1},
        {"items": [0], "name": ["a"] * 1_000_000},
    ],
    ids=lambda body: " ".join(list(body)[:2]),
)
@pytest.mark.parametrize("path", ["/api/label", "/api/accept"])
def test_a_million_faults_cost_no_more_than_one(path, body, client: TestClient):
    content = json.dumps(body)
    start = time.perf_counter()
    answer = client.post(path, content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert len(answer.content) < 2000
    # It took 55 s; a busy machine may take a few.
    assert time.perf_counter() - start < 10
