"""Start from names: classes that are typed or given at the start label everything before the first click."""

import numpy as np
import pytest

from laplacianshot.labeling.classes import typed_classes
from laplacianshot.labeling.sources import open_source
from laplacianshot.studio.relabel import NamedClasses, build_cache, columns_of, relabel, update
from laplacianshot.studio.server import open_session

SAID = {
    "weather": ["Will it rain tomorrow?", "How cold is it in Oslo today?", "Is a storm coming this weekend?"],
    "restaurant": ["Book a table for two tonight.", "Find me a place for dinner.", "Reserve a bistro for lunch."],
}


@pytest.fixture
def texts(tmp_path):
    """A table of six requests, three of each kind."""
    path = tmp_path / "texts.csv"
    path.write_text("text\n" + "\n".join(text for said in SAID.values() for text in said) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def named(clusters):
    """Items of three classes, their truth, and vectors of the names of the classes 4, 7 and 9."""
    X, truth, _ = clusters(n_classes=3, per_class=40)
    X = X - X.mean(axis=0)
    names = np.stack([X[truth == c].mean(axis=0) for c in range(3)])
    names /= np.linalg.norm(names, axis=1, keepdims=True)
    return build_cache(np.arange(len(X)), X, named=True), truth, NamedClasses(np.array([4, 7, 9]), names)


def classes_of(client, n):
    state = client.get("/api/state").json()
    names = {one["id"]: one["name"] for one in state["classes"]}
    return [names.get(one["class"]) for one in client.get("/api/items", params={"limit": n}).json()["items"]]


@pytest.mark.parametrize(
    ("text", "names", "said"),
    [
        ("ant, bee,  cat", ("ant", "bee", "cat"), ((), (), ())),
        ("ant\n\nbee: it stings, flies\n", ("ant", "bee"), ((), ("it stings, flies",))),
        ("ant: small\nant: red\nbee", ("ant", "bee"), (("small", "red"), ())),
    ],
)
def test_classes_are_typed_in_lines_or_with_commas(text, names, said):
    assert (typed_classes(text).names, typed_classes(text).texts) == (names, said)


def test_names_label_every_item_before_the_first_label(named):
    cache, truth, names = named
    found = relabel(cache, np.full(len(cache), -1), names)
    assert found.class_ids.tolist() == [4, 7, 9]
    assert (found.codes == truth).mean() > 0.95
    # What to label next, and what fits nothing, is known from the start.
    assert (found.suggestions > 0).sum() == 30
    assert found.novel.any()
    assert np.isfinite(found.confidence).all()
    assert found.confidence.max() < 1


def test_the_quick_answer_to_a_first_label_keeps_what_names_said(named):
    cache, truth, names = named
    given = np.full(len(cache), -1)
    last = relabel(cache, given, names)
    given[0] = names.class_ids[truth[0]]
    quick, whole = update(last, given, names), relabel(cache, given, names)
    assert (quick.codes == whole.codes).mean() > 0.97
    assert quick.confidence[0] == 1.0
    # Other names, or none: everything is to be made again.
    assert update(last, given) is None
    assert update(last, given, NamedClasses(names.class_ids, names.vectors[::-1])) is None


def test_a_class_with_labels_only_joins_those_with_names(named):
    cache, truth, names = named
    given = np.full(len(cache), -1)
    given[np.flatnonzero(truth == 2)[:3]] = 11
    some = NamedClasses(names.class_ids[:2], names.vectors[:2])
    assert columns_of(given, some)[0].tolist() == [4, 7, 11]
    found = relabel(cache, given, some)
    assert (found.codes == truth).mean() > 0.9


def test_typed_names_label_texts_and_labels_correct_them(opened, client_of, texts, settled):
    client = client_of(opened(texts))
    assert client.get("/api/state").json()["names"] == {"usable": True, "reason": None, "counted": 0}
    reply = client.post("/api/names", json={"text": "weather: questions on the weather\nrestaurant"})
    assert reply.status_code == 200, reply.text
    assert reply.json()["action"]["kind"] == "name-classes"
    state = settled(client)
    assert [one["named"] for one in state["classes"]] == [True, True]
    assert state["counts"]["predicted"] == 6
    assert state["counts"]["suggested"] > 0
    assert state["hint"] is None
    assert classes_of(client, 6) == ["weather"] * 3 + ["restaurant"] * 3

    client.post("/api/label", json={"items": [0], "class": 2})
    state = settled(client)
    assert classes_of(client, 1) == ["restaurant"]
    assert state["counts"]["given"] == 1
    # Undone, nothing is named and nothing is known.
    client.post("/api/undo", json={"steps": 2})
    state = settled(client)
    assert (state["classes"], state["counts"]["predicted"], state["names"]["counted"]) == ([], 0, 0)


def test_names_are_there_again_when_the_project_is_opened_again(user_cache_here, client_of, texts, settled, tmp_path):
    for classes in ("weather, restaurant", "weather, restaurant", None):
        with open_session(open_source(texts), project=tmp_path / "project", classes=classes) as session:
            assert session.log.version == 1
            assert settled(client_of(session))["counts"]["predicted"] == 6


def test_vectors_take_vectors_of_names(opened, client_of, two_groups, settled, tmp_path):
    np.savez(tmp_path / "names.npz", names=np.eye(2, 6), class_names=np.array(["left", "right"]))
    client = client_of(opened(two_groups, classes=tmp_path / "names.npz"))
    assert settled(client)["counts"]["predicted"] == 60
    assert classes_of(client, 60) == ["left"] * 30 + ["right"] * 30


def test_where_nothing_reads_names_the_classes_are_added_and_the_reason_is_given(
    opened, client_of, two_groups, settled
):
    notes = []
    client = client_of(opened(two_groups, classes="left, right", note=notes.append))
    state = settled(client)
    assert [one["name"] for one in state["classes"]] == ["left", "right"]
    assert [one["named"] for one in state["classes"]] == [False, False]
    assert state["names"]["usable"] is False
    assert "vectors of the names" in state["names"]["reason"]
    assert state["counts"]["predicted"] == 0
    assert "count for nothing" in notes[-1]


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ({"text": "ant\nant"}, 422, "twice"),
        ({"text": "ant\n: no name"}, 422, "has no name"),
        ({"text": ",,"}, 422, "no class"),
        ({"text": "a\x01b, c"}, 409, "control characters"),
        ({"text": ""}, 422, ""),
        ({"text": 7}, 422, ""),
    ],
)
def test_a_list_that_is_none_is_refused_in_one_line(client, body, code, words):
    reply = client.post("/api/names", json=body)
    assert reply.status_code == code, reply.text
    detail = reply.json()["detail"]
    assert words in detail if isinstance(detail, str) else True
    assert client.get("/api/state").json()["classes"] == []


def test_names_that_are_there_already_are_said_to_be(client):
    assert client.post("/api/names", json={"text": "ant, bee"}).status_code == 200
    reply = client.post("/api/names", json={"text": "ant, bee"})
    assert (reply.status_code, reply.json()["detail"]) == (409, "all of these classes are there already.")
