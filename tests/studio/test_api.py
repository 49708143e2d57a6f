from __future__ import annotations

import csv
import io
import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from laplacianshot import LabelModel
from laplacianshot.labeling import label_source
from laplacianshot.labeling.labels import read_labels
from laplacianshot.labeling.sources import open_source
from laplacianshot.studio.change_log import ProjectError
from laplacianshot.studio.demo import digit_source
from laplacianshot.studio.server import open_session
from tests.labeling.files import pictures
from tests.studio.test_change_log import replayed


def label(client, index, name):
    answer = client.post("/api/label", json={"items": index if isinstance(index, list) else [index], "name": name})
    assert answer.status_code == 200, answer.text
    return answer.json()


def class_id(client, name):
    return next(c["id"] for c in client.get("/api/state").json()["classes"] if c["name"] == name)


@pytest.fixture
def labeled(client, settled):
    """Two items of each group are labeled, and the rest is predicted."""
    for index in (0, 1, 30, 31):
        label(client, index, "left" if index < 30 else "right")
    settled(client)
    return client


def test_at_first_there_is_a_queue_and_a_hint(client, settled):
    state = settled(client)
    assert state["version"] == 0
    assert state["counts"]["unlabeled"] == 60
    assert state["counts"]["suggested"] == 30
    assert "second" in label(client, 3, "left")["state"]["hint"]
    queue = client.get("/api/items", params={"only": "suggested", "sort": "suggestion"}).json()["items"]
    ranks = [item["suggestion"] for item in queue]
    assert ranks == sorted(ranks)


def test_after_two_classes_every_item_has_a_label_and_the_right_one(labeled):
    items = labeled.get("/api/items").json()["items"]
    names = {c["id"]: c["name"] for c in labeled.get("/api/state").json()["classes"]}
    assert [names[item["class"]] for item in items] == ["left"] * 30 + ["right"] * 30
    assert [item["origin"] for item in items[:3]] == ["given", "given", "predicted"]
    assert [item["how"] for item in items[:3]] == ["person", "person", None]
    assert items[0]["confidence"] == 1
    assert 0.5 < items[2]["confidence"] <= 1


def test_the_same_labels_come_out_as_laplacianshot_label_gives(labeled, two_groups):
    expected = label_source(two_groups, {"0": "left", "1": "left", "30": "right", "31": "right"})
    rows = list(csv.DictReader(io.StringIO(labeled.get("/api/export").text)))
    assert list(rows[0]) == ["id", "label", "confidence", "origin", "suggestion", "written"]
    assert [row["label"] for row in rows] == list(expected.labels)
    assert [row["origin"] for row in rows] == list(expected.origins)


def test_exports_hold_the_same_rows_in_each_format(labeled):
    get = {kind: labeled.get("/api/export", params={"format": kind}) for kind in ("csv", "jsonl", "parquet")}
    rows = [json.loads(line) for line in get["jsonl"].text.splitlines()]
    table = pq.read_table(io.BytesIO(get["parquet"].content)).to_pylist()
    assert table == rows
    # Row numbers are numbers where a file has them.
    assert [int(row["id"]) for row in csv.DictReader(io.StringIO(get["csv"].text))] == [row["id"] for row in rows]
    tasks = labeled.get("/api/export", params={"format": "label-studio"}).json()
    assert len(tasks) == 60
    assert tasks[0]["annotations"][0]["result"][0]["value"]["choices"] == ["left"]
    assert tasks[2]["predictions"][0]["result"][0]["value"]["choices"] == ["left"]
    interface = labeled.get("/api/export", params={"format": "label-studio-interface"}).text
    assert '<Choice value="left"/>' in interface


def test_the_exported_model_labels_new_items_as_the_page_does(labeled, two_groups, tmp_path):
    answer = labeled.get("/api/export", params={"format": "model"})
    assert answer.headers["content-disposition"] == 'attachment; filename="model.lshot"'
    (tmp_path / "model.lshot").write_bytes(answer.content)
    model = LabelModel.load(tmp_path / "model.lshot")
    vectors = np.load(two_groups)
    assert model.predict(vectors).tolist() == ["left"] * 30 + ["right"] * 30
    items = labeled.get("/api/items").json()["items"]
    shown = np.array([item["confidence"] for item in items])
    predicted = np.array([item["origin"] == "predicted" for item in items])
    assert np.abs(model.predict_proba(vectors).max(axis=1) - shown)[predicted].max() < 0.1


def test_without_two_classes_there_is_no_model(client):
    answer = client.get("/api/export", params={"format": "model"})
    assert answer.status_code == 409
    assert "label items of two classes" in answer.json()["detail"]


def test_what_was_exported_can_be_imported_again(labeled, opened, client_of, two_groups, tmp_path, settled):
    file = labeled.get("/api/export", params={"format": "csv"}).content
    other = client_of(opened(two_groups, project=tmp_path / "other"))
    answer = other.post("/api/import", params={"name": "labels.csv"}, content=file)
    assert answer.status_code == 200
    assert answer.json()["imported"] == 4
    assert "predictions" in answer.json()["notes"][0]
    assert settled(other)["counts"]["given"] == 4
    (tmp_path / "back.csv").write_bytes(other.get("/api/export").content)
    with pytest.warns(UserWarning, match="predictions of laplacianshot"):
        given = read_labels(tmp_path / "back.csv", open_source(two_groups))
    assert [i for i, name in enumerate(given) if name] == [0, 1, 30, 31]


def test_an_import_keeps_labels_that_are_there_unless_it_may_replace_them(labeled):
    file = b"id,label\n0,right\n5,left\n"
    answer = labeled.post("/api/import", params={"name": "more.csv"}, content=file).json()
    assert (answer["imported"], answer["kept"]) == (1, 1)
    answer = labeled.post("/api/import", params={"name": "more.csv", "replace": True}, content=file).json()
    assert (answer["imported"], answer["kept"]) == (1, 0)
    assert labeled.get("/api/items/0").json()["how"] == "imported"
    assert labeled.post("/api/import", params={"name": "more.csv"}, content=file).status_code == 409


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("labels.csv", b"id,label\n99,left\n", "99"),
        ("labels.csv", b"id,label\n0,left\n0,right\n", "two labels"),
        ("labels.csv", b"a,b\n0,left\n", "no column"),
        ("labels.exe", b"id,label\n0,left\n", "must end in"),
        ("labels.json", b"{", "JSON"),
        ("labels.parquet", b"PAR1", "labels.parquet"),
        ("../../labels.csv", b"id,label\n99,left\n", ".._.._labels.csv"),
    ],
)
def test_a_file_that_does_not_fit_is_named_in_one_line(client, name, content, named):
    answer = client.post("/api/import", params={"name": name}, content=content)
    assert answer.status_code == 422
    assert named in answer.json()["detail"]
    assert "/labels" not in answer.json()["detail"]
    assert client.get("/api/state").json()["version"] == 0


def test_an_invalid_number_is_reported_in_plain_words(client):
    answer = client.get("/api/items", params={"limit": "1e3"})
    assert (answer.status_code, answer.json()["detail"]) == (422, "limit: must be a whole number.")


def test_accepting_by_confidence_keeps_the_surest_predictions_apart_from_given_labels(labeled, settled):
    items = labeled.get("/api/items", params={"origin": "predicted"}).json()["items"]
    limit = float(np.median([item["confidence"] for item in items]))
    sure = labeled.get("/api/indices", params={"origin": "predicted", "min_confidence": limit}).json()["indices"]
    answer = labeled.post("/api/accept", json={"min_confidence": limit}).json()
    assert f"confidence {100 * limit:g}% or more" in answer["action"]["summary"]
    assert answer["action"]["kind"] == "accept"
    counts = answer["state"]["counts"]
    assert (counts["given"], counts["accepted"]) == (4, len(sure))
    item = labeled.get(f"/api/items/{sure[0]}").json()
    assert (item["how"], item["origin"]) == ("accepted", "accepted")
    rows = labeled.get("/api/export").text.splitlines()
    assert sum(row.split(",")[3] == "accepted" for row in rows) == len(sure)
    undone = labeled.post("/api/undo", json={}).json()
    assert undone["state"]["counts"]["accepted"] == 0
    assert settled(labeled)["counts"]["predicted"] == 56


def test_accepting_some_items_or_one_class_leaves_the_others(labeled):
    labeled.post("/api/accept", json={"items": [5, 6, 6, 0]})
    assert labeled.get("/api/state").json()["counts"]["accepted"] == 2
    left = class_id(labeled, "left")
    labeled.post("/api/accept", json={"min_confidence": 0, "class": left})
    groups = {g["class"]: g for g in labeled.get("/api/groups").json()["groups"]}
    assert (groups[left]["given"], groups[left]["accepted"], groups[left]["predicted"]) == (2, 28, 0)
    assert groups[class_id(labeled, "right")]["predicted"] == 28
    assert labeled.post("/api/accept", json={"min_confidence": 0, "class": left}).status_code == 409


def test_classes_are_renamed_merged_deleted_and_all_of_it_undone(labeled, settled):
    left, right = class_id(labeled, "left"), class_id(labeled, "right")
    assert labeled.patch(f"/api/classes/{left}", json={"name": "west"}).status_code == 200
    assert labeled.post("/api/classes", json={"name": "third"}).status_code == 200
    assert labeled.post(f"/api/classes/{right}/merge", json={"into": left}).status_code == 200
    state = settled(labeled)
    assert [c["name"] for c in state["classes"]] == ["west", "third"]
    assert state["counts"]["predicted"] == 0
    assert labeled.delete(f"/api/classes/{left}").json()["state"]["counts"]["given"] == 0
    assert labeled.post("/api/undo", json={"steps": 4}).status_code == 200
    state = settled(labeled)
    assert [(c["id"], c["name"], c["given"]) for c in state["classes"]] == [(left, "left", 2), (right, "right", 2)]
    assert state["counts"]["predicted"] == 56
    kinds = [a["kind"] for a in labeled.get("/api/history").json()["actions"]]
    assert kinds[:8] == ["undo"] * 4 + ["delete-class", "merge-classes", "add-class", "rename-class"]


def test_a_label_can_be_corrected_and_taken_away(labeled):
    right = class_id(labeled, "right")
    labeled.post("/api/label", json={"items": [2], "class": right})
    assert labeled.get("/api/items/2").json()["class"] == right
    labeled.post("/api/label", json={"items": [2], "class": None})
    assert labeled.get("/api/items/2").json()["origin"] == "predicted"


def test_an_item_tells_its_classes_and_neighbors(labeled):
    item = labeled.get("/api/items/7").json()
    assert item["probabilities"][0]["class"] == item["class"]
    assert sum(p["probability"] for p in item["probabilities"]) == pytest.approx(1, abs=1e-4)
    assert 7 not in item["neighbors"]
    assert all(0 <= near < 30 for near in item["neighbors"])


def test_pages_make_up_the_whole_and_indices_and_groups_agree(labeled):
    query = {"sort": "-confidence", "origin": "predicted"}
    whole = labeled.get("/api/indices", params=query).json()["indices"]
    pages = [labeled.get("/api/items", params={**query, "offset": o, "limit": 13}).json() for o in range(0, 65, 13)]
    assert [item["index"] for page in pages for item in page["items"]] == whole
    assert {page["total"] for page in pages} == {len(whole)}
    confidence = [item["confidence"] for page in pages for item in page["items"]]
    assert confidence == sorted(confidence, reverse=True)
    assert sum(g["total"] for g in labeled.get("/api/groups", params=query).json()["groups"]) == len(whole)
    named = labeled.get("/api/items", params={"index": [5, 3, 3]}).json()
    assert [item["index"] for item in named["items"]] == [5, 3, 3]


def test_the_map_and_its_labels_are_arrays_of_all_items(labeled):
    places = np.frombuffer(labeled.get("/api/map").content, "<f4").reshape(-1, 2)
    assert places.shape == (60, 2)
    assert np.abs(places).max() <= 1
    content = labeled.get("/api/map/labels").content
    classes, confidence = np.frombuffer(content[:240], "<i4"), np.frombuffer(content[240:480], "<f4")
    origins, flags = np.frombuffer(content[480:540], np.uint8), np.frombuffer(content[540:], np.uint8)
    items = labeled.get("/api/items").json()["items"]
    assert classes.tolist() == [item["class"] for item in items]
    assert confidence == pytest.approx([item["confidence"] for item in items], abs=1e-6)
    assert [origins[i] for i in (0, 2)] == [3, 2]
    assert ((flags >> 1) == [item["novel"] for item in items]).all()


def test_the_expected_accuracy_is_that_of_the_command(labeled, settled, two_groups):
    label(labeled, [2, 3, 4], "left")
    label(labeled, [32, 33], "right")
    found = settled(labeled)["accuracy"]
    labels = {str(i): "left" for i in range(5)} | {str(i): "right" for i in range(30, 34)}
    expected = label_source(two_groups, labels).expected_accuracy.to_dict()
    assert found["source"] == expected["source"]
    assert "9 given labels" in found["source"]
    for name in ("estimate", "low", "high"):
        assert found[name] == pytest.approx(expected[name], abs=0.01)


def test_a_project_that_is_opened_again_goes_on(user_cache_here, client_of, two_groups, settled):
    seen = []
    for _ in range(2):
        with open_session(open_source(two_groups)) as session:
            client = client_of(session)
            if not seen:
                for index in (0, 1, 30):
                    label(client, index, "left" if index < 30 else "right")
                client.post("/api/undo", json={})
                client.post("/api/redo", json={})
            state, history = settled(client), client.get("/api/history").json()
            seen.append([history, *(state[key] for key in ("version", "classes", "counts", "undo", "redo"))])
    assert seen[0] == seen[1]


def test_a_project_is_open_once_at_a_time(opened, two_groups):
    opened(two_groups)
    with pytest.raises(ProjectError, match=r"the studio of .* --project DIR\.$"), open_session(open_source(two_groups)):
        pass


def test_a_full_disk_is_reported_and_nothing_is_half_done(opened, client_of, two_groups):
    session = opened(two_groups)
    client = client_of(session)
    label(client, 0, "left")
    session.log._database.execute("PRAGMA max_page_count = 1")  # sqlite keeps it at the pages that are in use
    many = "x" * 190
    answers = [client.post("/api/label", json={"items": [i], "name": f"{many} {i}"}).status_code for i in range(1, 60)]
    full = answers.index(503)
    assert set(answers[full:]) == {503}
    state = client.get("/api/state").json()
    assert (state["version"], state["counts"]["given"]) == (1 + full, 1 + full)
    session.log._database.execute("PRAGMA max_page_count = 100000")
    label(client, 59, "right")
    assert replayed(session.log).labels == session.log.state.labels


def test_digits_are_pictures_of_a_few_pixels(opened, client_of):
    client = client_of(opened(digit_source()))
    source = client.get("/api/state").json()["source"]
    assert (source["kind"], source["total"], source["tiny"]) == ("pictures", 1797, True)
    picture = client.get("/api/items/0/thumbnail")
    assert picture.headers["content-type"] == "image/png"
    tag = picture.headers["etag"]
    assert client.get("/api/items/0/thumbnail", headers={"if-none-match": tag}).status_code == 304
    kept = client.get("/api/items/0/thumbnail", params={"v": source["key"]})
    assert "immutable" in kept.headers["cache-control"]
    assert client.get("/api/items/1797").status_code == 404


def test_sentences_are_searched_by_their_words(opened, client_of, tmp_path):
    table = tmp_path / "texts.csv"
    table.write_text("id,text,label\na,Where is my card?,card\nb,I lost my CARD,\nc,Pay in euros,pay\nd,Exchange,\n")
    client = client_of(opened(table))
    items = client.get("/api/items", params={"search": "my card"}).json()["items"]
    assert [(item["id"], item["text"]) for item in items] == [("a", "Where is my card?"), ("b", "I lost my CARD")]
    state = client.get("/api/state").json()
    assert [c["name"] for c in state["classes"]] == ["card", "pay"]
    assert client.get("/api/items/0").json()["how"] == "source"
    assert client.get("/api/items/0/thumbnail").status_code == 404


def test_the_labels_of_folders_are_removed_by_one_request(opened, client_of, tmp_path):
    pictures(tmp_path / "archive", *(f"{name}/{i}.png" for name in ("2023", "misc") for i in range(3)))
    client = client_of(opened(open_source(tmp_path / "archive", classes_from_folders=True)))
    assert client.get("/api/state").json()["folder_labels"] == 6
    done = client.delete("/api/folder-labels").json()
    assert (done["state"]["folder_labels"], done["state"]["classes"]) == (0, [])
    assert client.delete("/api/folder-labels").status_code == 409
    assert client.post("/api/undo", json={}).json()["state"]["folder_labels"] == 6
