from __future__ import annotations

import os
from pathlib import Path

import pytest
from PIL import Image

from laplacianshot.web.access import MAX_BODY, MAX_SMALL_BODY, MAX_UPLOAD, Gate
from tests.studio.conftest import PORT, TOKEN

HOST = f"127.0.0.1:{PORT}"
BARE = {"authorization": ""}


def test_without_the_token_nothing_is_shown(client):
    for path in ("/", "/api/state", "/api/items", "/page/js/api.js", "/api/openapi.json", "/nothing"):
        answer = client.get(path, headers=BARE)
        assert answer.status_code == 401
        assert list(answer.json()) == ["detail"]
    assert client.post("/api/label", json={"items": [0], "name": "a"}, headers=BARE).status_code == 401
    assert client.get("/api/state", headers={"authorization": f"Bearer {TOKEN}x"}).status_code == 401
    assert client.get("/api/state", headers={"authorization": f"Basic {TOKEN}"}).status_code == 401


def test_the_address_gives_a_cookie_that_scripts_cannot_read_and_leaves_no_token_behind(client):
    answer = client.get("/", params={"token": TOKEN}, headers=BARE)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert client.get("/api/state", headers=BARE).status_code == 200  # the client has kept it
    client.cookies.clear()
    assert client.get("/", params={"token": "wrong"}, headers=BARE).status_code == 401
    assert client.get(f"/?token={TOKEN}&token={TOKEN}", headers=BARE).status_code == 401
    assert client.post("/", params={"token": TOKEN}, headers=BARE).status_code == 401


@pytest.mark.parametrize("host", [HOST, f"localhost:{PORT}", f"[::1]:{PORT}", f"LOCALHOST:{PORT}"])
def test_the_server_goes_by_its_own_names(client, host):
    assert client.get("/api/state", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:80", f"127.0.0.1.evil:{PORT}", ""]
)
def test_a_name_that_was_pointed_here_is_refused(client, host):
    assert client.get("/api/state", headers={"host": host}).status_code == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", f"https://{HOST}", "http://127.0.0.1:1", ""])
def test_other_pages_are_refused(client, origin):
    assert client.get("/api/state", headers={"origin": origin}).status_code == 403
    answer = client.post("/api/classes", json={"name": "a"}, headers={"origin": origin})
    assert answer.status_code == 403
    assert client.get("/api/state").json()["version"] == 0


def test_our_own_page_is_not(client):
    headers = {"origin": f"http://{HOST}", "sec-fetch-site": "same-origin"}
    assert client.post("/api/classes", json={"name": "a"}, headers=headers).status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_a_browser_sends_for_another_site_is_refused_but_a_link_to_the_page(client, site):
    assert client.get("/api/state", headers={"sec-fetch-site": site}).status_code == 403
    assert client.get("/", headers={"sec-fetch-site": site}).status_code == 200


def test_every_answer_tells_the_browser_how_little_it_may_do(client):
    answers = [client.get("/"), client.get("/api/state"), client.get("/nothing"), client.get("/", headers=BARE)]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert "cache-control" in answer.headers


def test_large_bodies_are_refused_before_they_are_read(client):
    lie = {"content-length": str(MAX_BODY + 1), "content-type": "application/json"}
    assert client.post("/api/label", content=b"{}", headers=lie).status_code == 413
    lie["content-length"] = str(MAX_UPLOAD + 1)
    assert client.post("/api/import?name=a.csv", content=b"", headers=lie).status_code == 413
    # Only lists of items and files of labels are large.
    lie["content-length"] = str(MAX_SMALL_BODY + 1)
    for path in ("/api/classes", "/api/undo", "/api/classes/1/merge"):
        assert client.post(path, content=b"{}", headers=lie).status_code == 413


def test_bodies_without_a_length_are_counted_as_they_come(client):
    def endless():
        for _ in range(MAX_BODY // 1_000_000 + 2):
            yield b" " * 1_000_000

    headers = {"content-type": "application/json"}
    assert client.post("/api/label", content=endless(), headers=headers).status_code == 413


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_forms_of_other_pages_are_no_actions(client, kind):
    body = b'{"name": "a"}'
    assert client.post("/api/classes", content=body, headers={"content-type": kind}).status_code == 422
    assert client.get("/api/state").json()["version"] == 0


@pytest.mark.parametrize(
    "path",
    [
        "/page/../app.py",
        "/page/..%2fapp.py",
        "/page/%2e%2e/app.py",
        "/page/....//app.py",
        "/page//etc/passwd",
        "/page/%00",
        "/page/js",
        "/page/",
        "/page/C:%5cwindows",
        "/api/items/..%2f..%2fetc%2fpasswd/thumbnail",
        "/api/items/-1/thumbnail",
        "/api/items/0%2f..%2f1",
    ],
)
def test_no_path_leads_out(client, path):
    answer = client.get(path)
    assert answer.status_code in (404, 422)
    assert answer.headers["content-type"] == "application/json"


@pytest.fixture
def linked_folder(tmp_path) -> Path:
    """Pictures, one of them a link to a picture outside, one in a linked folder, one a link to no picture."""
    outside = tmp_path / "outside"
    outside.mkdir()
    Image.new("RGB", (60, 60), "red").save(outside / "secret.png")
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(3):
        Image.new("RGB", (60, 60), (number, 0, 0)).save(folder / f"inside {number}.png")
    (folder / "link.png").symlink_to(outside / "secret.png")
    (folder / "passwd.png").symlink_to("/etc/passwd")
    (folder / "linked").symlink_to(outside)
    (folder / "own.png").symlink_to(folder / "inside 0.png")
    return folder


def test_pictures_outside_the_folder_are_never_shown_whatever_links_there_are(opened, client_of, linked_folder):
    client = client_of(opened(linked_folder))
    items = client.get("/api/items").json()["items"]
    shown = {item["id"]: client.get(f"/api/items/{item['index']}/thumbnail").status_code for item in items}
    assert shown == {
        "inside 0.png": 200,
        "inside 1.png": 200,
        "inside 2.png": 200,
        "own.png": 200,
        "link.png": 404,
        "linked/secret.png": 404,
        "passwd.png": 404,
    }


def test_a_picture_that_becomes_a_link_later_is_not_shown_either(opened, client_of, linked_folder, tmp_path):
    client = client_of(opened(linked_folder))
    index = next(item["index"] for item in client.get("/api/items").json()["items"] if item["id"] == "inside 1.png")
    assert client.get(f"/api/items/{index}/thumbnail").status_code == 200
    (linked_folder / "inside 1.png").unlink()
    (linked_folder / "inside 1.png").symlink_to(tmp_path / "outside" / "secret.png")
    assert client.get(f"/api/items/{index}/thumbnail").status_code == 404
    assert client.get(f"/api/items/{index}/picture").status_code == 404


def test_huge_and_broken_pictures_are_reported_not_decoded(opened, client_of, tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    Image.new("L", (200, 100)).save(folder / "fine.png")
    Image.new("1", (30_000, 30_000)).save(folder / "huge.png")
    (folder / "broken.png").write_bytes((folder / "fine.png").read_bytes()[:40])
    (folder / "page.png").write_text("<script>alert(1)</script>")
    client = client_of(opened(folder))
    by_id = {item["id"]: item["index"] for item in client.get("/api/items").json()["items"]}
    fine = client.get(f"/api/items/{by_id['fine.png']}/thumbnail", params={"size": 64})
    assert fine.headers["content-type"].startswith("image/")
    for name in ("huge.png", "broken.png", "page.png"):
        answer = client.get(f"/api/items/{by_id[name]}/thumbnail")
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/json"


ODD = [
    '"quoted" & <b>bold.png',
    "<img src=x onerror=alert(1)>.png",
    "\u202egnp.exe.png",
    "🦊 fox.png",
    "new\nline.png",
]


@pytest.mark.skipif(os.name != "posix", reason="other systems do not allow such names")
def test_odd_names_are_data_and_come_back_as_they_were(opened, client_of, tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number, name in enumerate(ODD):
        Image.new("RGB", (50, 50), (40 * number, 0, 0)).save(folder / name)
    client = client_of(opened(folder))
    page = client.get("/api/items")
    assert page.headers["content-type"] == "application/json"
    assert sorted(item["id"] for item in page.json()["items"]) == sorted(ODD)
    for index, name in enumerate(['<script>alert("x")</script>', "\u202eabc", "🦊", "'; DROP TABLE labels; --"]):
        answer = client.post("/api/label", json={"items": [index], "name": name})
        assert answer.status_code == 200
        assert answer.json()["state"]["classes"][-1]["name"] == name
    rows = client.get("/api/export", params={"format": "jsonl"}).text
    assert client.get("/api/export").headers["content-disposition"] == 'attachment; filename="labels.csv"'
    assert "DROP TABLE" in rows
    assert client.get("/api/state").json()["counts"]["given"] == 4


@pytest.mark.parametrize(
    ("gate", "host", "known"),
    [
        (Gate("t", "0.0.0.0", 80), "192.168.1.5:80", True),
        (Gate("t", "0.0.0.0", 80), "192.168.1.5", True),
        (Gate("t", "0.0.0.0", 80), "evil.example:80", False),
        (Gate("t", "192.168.1.5", 81), "192.168.1.5:81", True),
        (Gate("t", "192.168.1.5", 81), "192.168.1.6:81", False),
        (Gate("t", "::", 81), "[fe80::1]:81", True),
        (Gate("t", "127.0.0.1", 81), "[::1]:82", False),
    ],
)
def test_a_server_for_others_is_known_by_its_address_alone(gate, host, known):
    assert gate.knows_host(host) is known


def test_the_printed_address_can_be_opened():
    assert Gate("t", "127.0.0.1", 81).address == "http://127.0.0.1:81/?token=t"
    assert Gate("t", "0.0.0.0", 81).address == "http://127.0.0.1:81/?token=t"
    assert Gate("t", "::1", 81).address == "http://[::1]:81/?token=t"
