"""The server of a model: what it answers, and what it refuses."""

from __future__ import annotations

import base64
import io
import threading

import numpy as np
import pytest
from starlette.testclient import TestClient

from laplacianshot import LabelModel, label, label_source
from laplacianshot.web import model_app
from laplacianshot.web.access import Gate
from laplacianshot.web.model_app import MAX_ITEMS, MAX_REQUEST, create_model_app
from tests.labeling.drawings import CLASSES, draw, draw_folder, first_of_each
from tests.labeling.test_model import groups

PORT = 8766


def client_of(model, token="", host="127.0.0.1", **headers):
    gate = Gate(token, host, PORT, host != "127.0.0.1", frozenset({"/health"}), "send the token.")
    return TestClient(
        create_model_app(model, gate),
        base_url=f"http://127.0.0.1:{PORT}",
        headers=headers,
        raise_server_exceptions=False,
    )


@pytest.fixture(scope="module")
def vectors():
    X, truth = groups()
    return label(X, np.where(np.arange(len(X)) < 12, truth, -1)).model.compact()


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    truth = draw_folder(folder)
    return label_source(folder, first_of_each(truth, 2), cache=False).model.compact()


def content(kind: int, seed: int) -> bytes:
    file = io.BytesIO()
    draw(kind, seed).save(file, "PNG")
    return file.getvalue()


def test_many_vectors_in_one_request_get_what_the_model_says(vectors):
    X = groups(50, seed=1)[0]
    answer = client_of(vectors).post("/predict?top=4", json={"vectors": X.tolist()})
    assert answer.status_code == 200
    found = answer.json()["predictions"]
    P, novelty = vectors.predict_proba(X), vectors.novelty(X)
    assert [one["label"] for one in found] == vectors.predict(X).tolist()
    np.testing.assert_allclose([one["confidence"] for one in found], P.max(axis=1), atol=1e-5)
    np.testing.assert_allclose([one["novelty"] for one in found], novelty, atol=1e-5)
    for one, row in zip(found, P, strict=True):
        listed = dict(map(tuple, one["probabilities"]))
        np.testing.assert_allclose([listed[c] for c in range(4)], row, atol=1e-5)
        assert list(listed.values()) == sorted(listed.values(), reverse=True)


def test_pictures_come_in_base64_or_as_the_body(photos):
    client = client_of(photos)
    coded = [base64.b64encode(content(kind, 40)).decode() for kind in range(3)]
    found = client.post("/predict", json={"pictures": coded}).json()["predictions"]
    assert [one["label"] for one in found] == list(CLASSES)
    single = client.post("/predict/picture", content=content(1, 40)).json()["predictions"]
    assert single == [found[1]]


def test_facts_and_health(photos):
    client = client_of(photos, token="secret")
    assert client.get("/health").json()["status"] == "ok"
    assert client.get("/model").status_code == 401
    facts = client.get("/model", headers={"authorization": "Bearer secret"}).json()
    assert facts["classes"] == list(CLASSES)
    assert facts["encoder"] == "efficientnet-lite0"
    assert facts["encoder_digest"] == photos.encoder.key
    assert facts["facts"]["labels"] == 6


def test_the_description_names_every_path(vectors):
    found = client_of(vectors).get("/openapi.json").json()
    assert set(found["paths"]) == {"/health", "/model", "/predict", "/predict/picture"}


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Basic secret", "Bearer "])
def test_without_the_token_nothing_is_predicted(vectors, header):
    headers = {} if header is None else {"authorization": header}
    client = client_of(vectors, token="secret")
    answer = client.post("/predict", json={"vectors": [[0.0] * 16]}, headers=headers)
    assert answer.status_code == 401
    assert answer.json() == {"detail": "send the token."}
    assert client.post(
        "/predict", json={"vectors": [[0.0] * 16]}, headers={"authorization": "Bearer secret"}
    ).is_success


def test_other_pages_and_other_names_are_refused_on_this_machine_alone(vectors):
    client = client_of(vectors)
    assert client.get("/health", headers={"host": "evil.example"}).status_code == 403
    assert client.get("/health", headers={"origin": "http://evil.example"}).status_code == 403
    # Behind a proxy a server has other names; pages from elsewhere are refused all the same.
    deployed = client_of(vectors, host="0.0.0.0")
    assert deployed.get("/health", headers={"host": "model.example"}).is_success
    assert (
        deployed.get("/health", headers={"host": "model.example", "origin": "http://evil.example"}).status_code == 403
    )


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, "one of"),
        ({"vectors": [[0.0] * 16], "texts": ["a"]}, "one of"),
        ({"vectors": []}, "empty"),
        ({"vectors": [[1.0], [1.0, 2.0]]}, "same length"),
        ({"vectors": [[1.0, 2.0]]}, "16"),
        ({"vectors": [[1e300] * 16]}, "finite"),
        ({"vectors": [["a"] * 16]}, "vectors"),
        ({"texts": ["a"]}, "for vectors"),
        ({"pictures": ["AA=="]}, "for vectors"),
        ({"vectors": [[0.0] * 16] * (MAX_ITEMS + 1)}, "1024"),
        ([1, 2], "body"),
    ],
)
def test_what_cannot_be_predicted_is_named_in_one_line(vectors, body, named):
    answer = client_of(vectors).post("/predict", json=body)
    assert answer.status_code == 422
    assert named in answer.json()["detail"]
    assert "\n" not in answer.json()["detail"]


@pytest.mark.parametrize(("picture", "named"), [("?", "base64"), ("AAAA", "cannot be read"), ("", "cannot be read")])
def test_a_picture_that_cannot_be_read_is_named(photos, picture, named):
    answer = client_of(photos).post("/predict", json={"pictures": [picture]})
    assert answer.status_code == 422
    assert named in answer.json()["detail"]


def test_a_body_that_is_too_large_is_refused_unread(photos):
    answer = client_of(photos).post("/predict/picture", content=b"", headers={"content-length": str(MAX_REQUEST + 1)})
    assert answer.status_code == 413

    def endless():
        for _ in range(MAX_REQUEST // 1_000_000 + 2):
            yield b"\0" * 1_000_000

    assert client_of(photos).post("/predict/picture", content=endless()).status_code == 413


def test_requests_beyond_those_that_wait_are_sent_away(vectors, monkeypatch):
    monkeypatch.setattr(model_app, "_WAITING", 1)
    monkeypatch.setattr(model_app, "available_threads", lambda: 1)
    started, go_on = threading.Event(), threading.Event()

    class Slow(LabelModel):
        def vectors(self, items):
            started.set()
            go_on.wait(60)
            return super().vectors(items)

    slow = Slow(vectors.classes, "vectors", None, vectors.classifier)
    client, body = client_of(slow), {"vectors": [[0.0] * 16]}
    answers = []
    thread = threading.Thread(target=lambda: answers.append(client.post("/predict", json=body).status_code))
    thread.start()
    assert started.wait(60)
    second = client_of(vectors)
    busy = client.post("/predict", json=body)
    go_on.set()
    thread.join(60)
    assert busy.status_code == 503
    assert "try again" in busy.json()["detail"]
    assert answers == [200]
    assert second.post("/predict", json=body).status_code == 200
