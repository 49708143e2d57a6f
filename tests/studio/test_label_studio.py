"""The ML backend for Label Studio, asked as Label Studio 1.23 asks (``label_studio/ml/api_connector.py``)."""

from __future__ import annotations

import base64
import io
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest
from starlette.testclient import TestClient

from laplacianshot import label_source
from laplacianshot.cli.app import run
from laplacianshot.labeling.errors import LabelingError
from laplacianshot.labeling.sources import open_source
from laplacianshot.runtime.errors import InputError
from laplacianshot.studio.label_studio import Interface, PasswordGate, Pictures, create_backend, open_predictor
from laplacianshot.studio.server import open_session
from tests.labeling.drawings import CLASSES, draw

TEXTS = [
    "my card is lost",
    "the card was stolen",
    "block the card",
    "transfer is late",
    "where is my transfer",
    "cancel transfer",
]
TEXT_VIEW = """<View><Text name="txt" value="$message"/><Choices name="topic" toName="txt">
<Choice value="card"/><Choice value="transfer" alias="t"/></Choices></View>"""
PICTURE_VIEW = """<View><Image name="img" value="$image"/><Choices name="kind" toName="img">
<Choice value="ball"/><Choice value="box"/><Choice value="kite"/></Choices></View>"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LAPLACIANSHOT_CACHE", str(tmp_path / "cache"))


def client_of(predictor, pictures=None, token="", note=lambda text: None):
    gate = PasswordGate(token, "127.0.0.1", 9090)
    return TestClient(create_backend(predictor, gate, pictures or Pictures(), note), base_url="http://127.0.0.1:9090")


@pytest.fixture(scope="module")
def text_model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tickets.lshot"
    label_source(TEXTS, {0: "card", 3: "transfer"}, cache=False).model.save(path)
    return path


@pytest.fixture
def texts(text_model):
    with open_predictor(text_model, Pictures()) as predictor:
        yield client_of(predictor)


def asked(messages, view=TEXT_VIEW):
    """A request of /predict, with everything that Label Studio sends."""
    tasks = [{"id": i, "data": {"message": text}, "annotations": []} for i, text in enumerate(messages)]
    params = {"login": None, "password": None, "context": None}
    return {"tasks": tasks, "project": "4.1700000000", "label_config": view, "params": params}


def test_a_model_is_connected_and_predicts(texts):
    assert texts.get("/health").json()["status"] == "UP"
    setup = {"project": "4.17", "schema": TEXT_VIEW, "hostname": "http://x", "access_token": "k", "extra_params": None}
    version = texts.post("/setup", json=setup).json()["model_version"]
    assert version.startswith("laplacianshot ")
    for ask in (texts.get, texts.post):
        assert ask("/versions").json()["versions"] == [version]
    answer = texts.post("/predict", json=asked(["I lost my card", "the transfer did not arrive", " "])).json()
    assert answer["model_version"] == version
    first, second, blank = answer["results"]
    assert first["model_version"] == version
    result = first["result"][0]
    names = (result["from_name"], result["to_name"], result["type"], result["value"])
    assert names == ("topic", "txt", "choices", {"choices": ["card"]})
    assert 0.5 < first["score"] <= 1
    # A choice with an alias is called by it.
    assert second["result"][0]["value"] == {"choices": ["t"]}
    assert (blank["result"], blank["score"]) == ([], 0.0)


def test_annotations_do_not_change_a_model(texts):
    event = {"action": "ANNOTATION_CREATED", "task": {"data": {"message": TEXTS[0]}}, "annotation": {"result": []}}
    before = texts.get("/versions").json()
    answer = texts.post("/webhook", json=event)
    assert (answer.status_code, answer.json()["learned"]) == (201, 0)
    assert texts.post("/webhook", json={"action": "START_TRAINING", "project": {}}).status_code == 201
    assert texts.get("/versions").json() == before


def test_a_class_without_a_choice_gets_no_prediction_and_is_said_once(text_model):
    view = TEXT_VIEW.replace('<Choice value="card"/>', "")
    said = []
    with open_predictor(text_model, Pictures()) as predictor:
        client = client_of(predictor, note=said.append)
        for _ in range(2):
            client.post("/setup", json={"schema": view})
        assert client.post("/predict", json=asked([TEXTS[0]], view)).json()["results"][0]["result"] == []
    assert said == ["the labeling interface has no choice 'card'; items of these classes get no prediction."]


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/predict", b"nonsense", "not JSON"),
        ("/predict", b"[]", "not a JSON object"),
        ("/predict", b'{"tasks": 3}', "tasks must be a list"),
        ("/predict", b'{"tasks": [], "label_config": "<View/>"}', "no tag Choices on a tag Text or HyperText"),
        ("/setup", b'{"schema": "<View"}', "cannot be read"),
        ("/validate", b'{"config": "<!DOCTYPE x [<!ENTITY a \\"b\\">]><View/>"}', "has declarations"),
    ],
)
def test_bad_requests_are_answered_in_one_line(texts, path, body, said):
    answer = texts.post(path, content=body)
    assert answer.status_code == 422
    assert said in answer.json()["detail"]


def test_too_many_tasks_are_refused(texts):
    answer = texts.post("/predict", json=asked(["x"] * 1025))
    assert (answer.status_code, "at most 1,024" in answer.json()["detail"]) == (422, True)


def test_a_token_is_the_password_of_basic_authentication(text_model):
    with open_predictor(text_model, Pictures()) as predictor:
        client = client_of(predictor, token="secret")
        assert client.get("/health").status_code == 401
        assert client.get("/health", auth=("anyone", "wrong")).status_code == 401
        assert client.get("/health", auth=("anyone", "secret")).status_code == 200
        assert client.get("/health", headers={"authorization": "Basic !"}).status_code == 401
        # A page of a browser, and another host, are refused in any case.
        there = {"origin": "http://evil.example"}
        assert client.get("/health", auth=("a", "secret"), headers=there).status_code == 403


# Pictures.


def png(kind, seed):
    buffer = io.BytesIO()
    draw(kind, seed).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture(scope="module")
def picture_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    for seed in range(4):
        for kind in range(3):
            (folder / f"{seed}-{kind}.png").write_bytes(png(kind, seed))
    path = folder / "shapes.lshot"
    given = {f"0-{kind}.png": name for kind, name in enumerate(CLASSES)}
    label_source(folder, given, cache=False, classes_from_folders=False).model.save(path)
    return path


@pytest.fixture
def label_studio():
    """A server that gives a picture to whoever has the key, and sends others elsewhere."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append((self.path, self.headers.get("Authorization")))
            if self.path.startswith("/away"):
                self.send_response(302)
                self.send_header("Location", "http://127.0.0.1:1/")
                self.end_headers()
                return
            ok = self.headers.get("Authorization") == "Token key"
            self.send_response(200 if ok else 401)
            self.end_headers()
            self.wfile.write(png(1, 9) if ok else b"no")

        def log_message(self, *args):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", seen
    server.shutdown()
    server.server_close()


def test_pictures_come_from_label_studio_and_from_nowhere_else(picture_model, label_studio):
    host, seen = label_studio
    pictures, said = Pictures(), []
    inside = "data:image/png;base64," + base64.b64encode(png(2, 9)).decode()
    addresses = ["/data/upload/4/ab-box.png", inside, "http://elsewhere.example/x.png", "/away", "data:,!", None]
    with open_predictor(picture_model, pictures, note=said.append) as predictor:
        client = client_of(predictor, pictures)
        client.post("/setup", json={"schema": PICTURE_VIEW, "hostname": host, "access_token": "key"})
        tasks = [{"id": i, "data": {"image": address}} for i, address in enumerate(addresses)]
        results = client.post("/predict", json={"tasks": tasks, "label_config": PICTURE_VIEW}).json()["results"]
    found = [one["result"][0]["value"]["choices"][0] if one["result"] else None for one in results]
    assert found == ["box", "kite", None, None, None, None]
    assert {path for path, _ in seen} == {"/data/upload/4/ab-box.png", "/away"}
    assert any("is not a picture of" in text for text in said)


def test_a_request_cannot_lead_the_users_key_elsewhere(picture_model, label_studio):
    host, seen = label_studio
    pictures = Pictures("http://127.0.0.1:1", "the user's key", fixed=True)
    with open_predictor(picture_model, pictures, note=lambda text: None) as predictor:
        client = client_of(predictor, pictures)
        client.post("/setup", json={"schema": PICTURE_VIEW, "hostname": host, "access_token": ""})
        task = {"data": {"image": f"{host}/x.png"}}
        client.post("/predict", json={"tasks": [task], "label_config": PICTURE_VIEW})
    assert seen == []


# A project of the studio.


@pytest.fixture
def project(tmp_path):
    (tmp_path / "tickets.csv").write_text("message\n" + "\n".join(TEXTS) + "\n")
    source = open_source(tmp_path / "tickets.csv", text_column="message")
    with open_session(source, project=tmp_path / "project") as session:
        session.label_by_name([0], "card")
    return tmp_path / "project"


def waited(what):
    """Wait for an event of the labeler, not for a time."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        if (found := what()) is not None:
            return found
        time.sleep(0.05)
    raise AssertionError("nothing came")


def event(action, text, *choices):
    result = [{"type": "choices", "from_name": "topic", "value": {"choices": list(choices)}}] if choices else []
    return {"action": action, "task": {"id": 1, "data": {"message": text}}, "annotation": {"result": result}}


def test_a_project_learns_from_annotations(project):
    with open_predictor(project, Pictures(), text_column="message") as predictor:
        client = client_of(predictor)
        before = client.get("/versions").json()["versions"]
        learned = client.post("/webhook", json=event("ANNOTATION_CREATED", TEXTS[3], "transfer")).json()
        assert (learned["learned"], [learned["model_version"]] != before) == (1, True)

        def labels():
            results = client.post("/predict", json=asked(TEXTS)).json()["results"]
            found = [one["result"][0]["value"]["choices"][0] if one["result"] else None for one in results]
            return None if None in found else found

        assert waited(labels) == ["card"] * 3 + ["t"] * 3
        # Removed, and a text that the project does not have.
        assert client.post("/webhook", json=event("ANNOTATIONS_DELETED", TEXTS[3])).json()["learned"] == 1
        assert client.post("/webhook", json=event("ANNOTATION_CREATED", "unknown", "card")).json()["learned"] == 0
        assert client.post("/webhook", json=event("TASKS_CREATED", TEXTS[3])).json()["learned"] == 0
    # The labels are in the project.
    source = open_source(project.parent / "tickets.csv", text_column="message")
    with open_session(source, project=project) as session:
        assert set(session.log.state.labels) == {"0"}


def test_what_is_neither_a_model_nor_a_project_is_an_error(tmp_path, capsys):
    with pytest.raises(InputError, match="neither a model"), open_predictor(tmp_path, Pictures()):
        pass
    assert run(["label-studio-backend", str(tmp_path / "gone.lshot"), "--port", "0"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    np.save(tmp_path / "v.npy", np.eye(4))
    label_source(tmp_path / "v.npy", {0: "a", 1: "b"}).model.save(tmp_path / "v.lshot")
    with pytest.raises(LabelingError, match="for vectors"), open_predictor(tmp_path / "v.lshot", Pictures()):
        pass


def test_an_interface_may_have_comments_and_more_tags():
    view = "<View><!-- a note --><Header value='x'/>" + TEXT_VIEW[6:]
    assert Interface.read(view, "texts").field == "message"
