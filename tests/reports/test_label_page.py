"""The page of a labeled source, read as a browser reads it."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import scipy.sparse as sp
from PIL import Image

from laplacianshot.reports.label_items import choose
from laplacianshot.reports.label_look import NEIGHBORS, expected_confusion, large_side, neighbors_of
from laplacianshot.reports.label_page import label_page, map_block, map_data, places_of, write_label_report
from laplacianshot.reports.page import Section, render_page
from tests.reports.labels_made_up import HOSTILE, of_pictures, of_texts, result, unlabeled

VOID = {"meta", "img", "br", "wbr", "input", "link"}


class Elements(HTMLParser):
    """The elements of a page, checked to be closed in order; texts by the path of classes and tags they are in."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID and not ("svg" in self.open and tag in ("path", "use", "rect", "line")):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag in ("path", "use", "rect", "line") and self.open[-1] != tag:
            return
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.text += data

    def of(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return of_pictures(tmp_path_factory.mktemp("birds"))


@pytest.fixture(scope="module")
def page(pictures):
    return label_page(pictures)


def section(page, anchor):
    return page.split(f'id="{anchor}"')[1].split("<h2")[0]


def look_data(page):
    return json.loads(re.search(r'id="look-data">(.*?)</script>', page, re.DOTALL)[1])


def test_the_page_has_a_section_for_everything_there_is(page):
    Elements(page)
    titles = re.findall(r'<h2 id="([^"]+)"', page)
    assert titles == [
        "map", "next", "disputed", "least-confident", "most-confident", "rejected", "classes", "confusion",
        "confidence", "skipped", "run", "reading",
    ]  # fmt: skip


def test_every_number_on_top_is_that_of_the_result(page, pictures):
    tiles = dict(re.findall(r"<dt>([^<]+)</dt><dd>([^<]+)</dd>", page))
    sure = np.mean([c for c, o in zip(pictures.confidence, pictures.origins, strict=True) if o == "predicted"])
    low, high = pictures.expected_accuracy.low, pictures.expected_accuracy.high
    assert tiles == {
        "items": "60",
        "classes": "3",
        "labels given": "12",
        "labels predicted": "45",
        f"of them expected to be right ({100 * low:.0f}% to {100 * high:.0f}%)": f"{100 * sure:.0f}%",
        "fit no class": "3",
        "given labels disputed": "2",
        "to label next": "5",
        "skipped": "1",
    }


def test_the_page_says_where_the_expected_accuracy_comes_from(page):
    assert "It is made up." in page


def test_pictures_are_inside_the_page(page):
    images = Elements(page).of("img")
    assert len(images) > 30
    assert all(image["src"].startswith("data:image/") for image in images)
    assert "alt" in images[0]


def test_the_page_loads_nothing(page):
    outside = re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL)
    assert "http:" not in outside
    assert "https:" not in outside
    for tag, attributes in Elements(page).tags:
        for name in ("src", "href", "xlink:href", "action", "data"):
            target = attributes.get(name) or ""
            assert target.startswith(("#", "data:image/")) or not target, (tag, target)
    assert re.findall(r"url\((?!#)", page) == []
    assert "@import" not in page


def test_only_the_scripts_of_the_page_itself_may_run(page):
    policy = Elements(page).of("meta")[2]
    assert policy["http-equiv"] == "Content-Security-Policy"
    (script,) = re.findall(r'<script type="module">(.*?)</script>', page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy["content"]
    assert "default-src 'none'" in policy["content"]
    assert not any(name.startswith("on") for _, attributes in Elements(page).tags for name in attributes)


def test_links_have_a_target_and_ids_are_unique(page):
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)


def test_what_to_label_next_is_numbered_in_order(page, pictures):
    shown = section(page, "next")
    assert re.findall(r'class="badge">(\d+)<', shown) == ["1", "2", "3", "4", "5"]
    assert re.findall(r'<li class="item" title="([^"]+)"', shown) == [pictures.ids[i] for i in pictures.suggested]


def test_a_disputed_label_is_shown_with_what_the_neighbors_say(page, pictures):
    names = re.findall(r"<bdi>([^<]+)</bdi>", section(page, "disputed").replace("<wbr>", ""))
    said = {tuple(names[start : start + 3]) for start in (0, 3)}
    classes, ids = pictures.classes, pictures.ids
    assert said == {(classes[pictures.codes[i]], classes[pictures.disputes[i]], ids[i]) for i in (0, 1)}


def test_what_is_nearly_certain_is_not_shown_as_certain():
    found = result()
    confidence = np.where(np.asarray(found.origins) == "predicted", 0.9999, found.confidence)
    page = label_page(replace(found, confidence=confidence))
    assert re.search(r"\b100(\.0)?%", page.split("</style>")[1]) is None
    assert page.count("&gt;99.9%") >= 2 + len(found.classes)


def test_skipped_items_are_named_with_the_reason(page):
    shown = section(page, "skipped")
    assert "broken &lt;b&gt;.png" in shown
    assert "the file is empty" in shown


def test_hostile_names_of_files_and_classes_are_text(tmp_path):
    names = tuple(name.replace("/", "_") for name in HOSTILE)
    found = of_pictures(tmp_path, 60, names)
    harmless = Elements(label_page(found))
    found = replace(result(60, HOSTILE[:3]), source=found.source, ids=found.ids, rows=found.rows)
    elements = Elements(label_page(found))
    assert len(elements.of("script")) == len(harmless.of("script")) == 3
    assert HOSTILE[0] in elements.text
    titles = [item.get("title", "") for item in elements.of("li")]
    assert any("alert(1)" in title for title in titles)
    assert any("new␊line" in title for title in titles)


def test_a_file_name_that_is_no_text_can_be_shown(tmp_path):
    found = of_pictures(tmp_path, 60)
    odd = ("\udcff\udcfe.png", *found.ids[1:])
    label_page(replace(found, ids=odd)).encode("utf-8")


def test_files_of_one_name_in_several_folders_can_be_told_apart(tmp_path):
    found = of_pictures(tmp_path, 60)
    deep = "a folder with a long name/another one/and one more"
    ids = tuple(f"{deep}/{i}/and the last of them/IMG_0001.jpg" if i % 2 else f"{i}/IMG_0001.jpg" for i in range(60))
    shown = section(label_page(replace(found, ids=ids)), "least-confident")
    shown = shown.replace("<wbr>", "")
    cards = re.findall(
        r'<li class="item" title="([^"]+)">.*?<p class="quiet path"><bdi>([^<]+)</bdi>', shown, re.DOTALL
    )
    assert len(cards) == 24
    assert len({path for _, path in cards}) == 24
    assert {title for title, _ in cards} <= set(ids)
    assert all(path == title for title, path in cards if len(title) < 20)


def test_sentences_are_shown_as_text(tmp_path):
    found = of_texts(tmp_path, 60, ('A "quoted"\n<b>sentence</b>', "x" * 5000))
    elements = Elements(label_page(found))
    assert 'A "quoted" <b>sentence</b>' in elements.text
    assert "x" * 270 in elements.text
    assert "x" * 290 not in elements.text
    assert elements.of("img") == []


def test_rows_of_numbers_are_shown_by_their_names():
    page = label_page(result())
    assert 'class="items rows"' in page
    assert Elements(page).of("img") == []


def test_before_the_first_label_there_is_what_to_label_first():
    page = label_page(unlabeled())
    Elements(page)
    assert re.findall(r'<h2 id="([^"]+)"', page) == ["map", "next", "skipped", "run", "reading"]
    assert "%</dd>" not in page


def test_without_vectors_there_is_no_map_and_items_can_still_be_opened():
    page = label_page(result(with_vectors=False))
    elements = Elements(page)
    assert elements.of("canvas") == []
    data = look_data(page)
    assert {int(button["data-look"]) for button in elements.of("button") if "data-look" in button} <= {
        int(item) for item in data["items"]
    }
    assert data["near"] == {}


def test_notes_and_a_graph_that_did_not_settle_are_told():
    page = label_page(replace(result(), converged=False, notes=("No item of <x> can be read.",)))
    assert "stopped before it converged" in page
    assert '<p class="warning">No item of &lt;x&gt; can be read.</p>' in page


def test_the_report_is_one_file_and_the_same_each_time(tmp_path, pictures):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_label_report(pictures, tmp_path / name)
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["index.html"]
    assert (tmp_path / "one" / "index.html").read_bytes() == (tmp_path / "two" / "index.html").read_bytes()


def test_whoever_waits_is_told_what_is_done(pictures):
    told = []

    def watch(what):
        told.append(what)
        return lambda done, total: told.append((done, total))

    label_page(pictures, watch=watch)
    assert told[:2] == ["Map", "Pictures"]
    assert (60, 60) in told
    assert told[-1] == "Page"


def test_many_items_of_many_classes_make_a_page_of_bounded_length():
    classes = tuple(f"class {c}" for c in range(1000))
    found = result(20_000, classes, with_vectors=False)
    texts = label_page(found)
    assert len(texts) < 2_000_000
    assert "The 240 largest of 1,000 classes." in texts


def test_of_more_items_than_a_map_can_show_all_that_are_listed_are_on_it(monkeypatch, pictures):
    monkeypatch.setattr("laplacianshot.reports.label_page.MAX_ON_MAP", 50)
    page = label_page(pictures)
    assert "50 of the 60 items, including all items listed below." in page
    data = json.loads(re.search(r'id="map-data">(.*?)</script>', page, re.DOTALL)[1])
    assert len(data["texts"]) == 50
    assert set(data["sheet"]["items"]) <= set(range(50))
    assert len(data["suggested"]) == 5
    assert [data["texts"][item] for item in data["suggested"]] == [pictures.ids[item] for item in pictures.suggested]


def test_sparse_probabilities_make_the_same_page(pictures):
    sparse = replace(pictures, probabilities=sp.csr_array(pictures.probabilities))
    assert label_page(sparse) == label_page(pictures)


def unpacked(text, dtype):
    return np.frombuffer(base64.b64decode(text), dtype)


def map_html(found, data, classes):
    """The map as it is in a page."""
    return render_page("Map", [Section("map", "Map", (map_block(found, data, classes),))])


def test_the_data_hold_what_the_result_holds():
    found = result()
    places = places_of(found)
    data = map_data(found, places, None, None)
    grid = unpacked(data["places"], "<u2").reshape(-1, 2)
    np.testing.assert_allclose(grid / 32767.5 - 1, places, atol=2e-5)
    np.testing.assert_array_equal(unpacked(data["codes"], "<i4"), found.codes)
    np.testing.assert_allclose(unpacked(data["confidence"], "u1") / 200, found.confidence, atol=0.003)
    origins = unpacked(data["origins"], "u1")
    assert [("predicted", "given", "rejected")[o] for o in origins] == list(found.origins)
    np.testing.assert_array_equal(data["suggested"], found.suggested)
    assert data["disputes"] == [[0, 1], [1, 2]]
    assert data["texts"] == list(found.ids)
    assert len(data["light"]) == len(data["dark"]) == 4


def test_only_what_is_certain_is_drawn_as_certain():
    found = replace(result(), confidence=np.resize([0.0, 1e-5, 0.5, 0.994, 0.99999, 1.0], 60))
    data = map_data(found, np.zeros((60, 2)), None, None)
    assert unpacked(data["confidence"], "u1").tolist()[:6] == [0, 1, 100, 199, 199, 200]


def test_no_name_ends_the_data_or_begins_an_element():
    found = result(60, HOSTILE)
    page = map_html(found, map_data(found, places_of(found), HOSTILE * 9, None), choose(found).classes)
    inside = re.search(r'<script type="application/json" id="map-data">(.*?)</script>', page, re.DOTALL)[1]
    assert "<" not in inside
    assert json.loads(inside)["texts"][0] == HOSTILE[0]
    assert page.count("<script") == 1
    assert "<!--" not in page


@pytest.mark.parametrize("texts", [False, True])
def test_a_hundred_thousand_items_of_a_thousand_classes_are_a_few_megabytes(texts):
    n = 100_000
    found = result(n, tuple(f"class {c} with a rather long name" for c in range(1000)), with_vectors=False)
    long = tuple(f"a/folder/with/a/long/name/{'é' * 40}/{i:06d}.jpg" for i in range(n))
    object.__setattr__(found, "ids", long)
    places = np.random.default_rng(0).uniform(-1, 1, (n, 2))
    data = map_data(found, places, long if texts else None, None)
    page = map_html(found, data, choose(found).classes)
    assert len(page.encode()) < 5_000_000
    assert all(len(text) <= 20 for text in data["texts"])


def test_without_vectors_there_is_no_map():
    assert places_of(result(with_vectors=False)) is None


def test_before_the_first_label_the_map_is_gray():
    found = unlabeled()
    places = places_of(found)
    assert places.shape == (30, 2)
    data = map_data(found, places, None, None)
    assert data["light"] == ["#9aa3ad"]
    page = map_html(found, data, ())
    assert "Color by" not in page
    assert "to label next" in page


@pytest.mark.parametrize("n_classes", [12, 30])
def test_classes_are_listed_as_people_count(n_classes):
    """Up to two dozen as buttons, more in a list too."""
    found = result(20 * n_classes, tuple(sorted(f"c{i}" for i in range(n_classes))))
    html = map_html(found, map_data(found, places_of(found), None, None), choose(found).classes)
    pressed = [int(code) for code in re.findall(r'data-class="(\d+)"', html)]
    names = [int(found.classes[code][1:]) for code in pressed]
    assert names == sorted(names)
    assert len(names) == min(n_classes, 24)
    listed = [int(name) for name in re.findall(r"<option value=\"\d+\">c(\d+)</option>", html)]
    assert listed == (list(range(n_classes)) if n_classes > 24 else [])


def test_every_item_on_the_page_can_be_opened_with_its_path_picture_and_nearest_items(page, pictures):
    data = look_data(page)
    buttons = [button for button in Elements(page).of("button") if "data-look" in button]
    opened = {int(button["data-look"]) for button in buttons}
    assert len(buttons) > 30
    assert all(button["aria-label"].startswith("Look closer: ") for button in buttons)
    for item in opened:
        assert data["items"][str(item)]["name"] == pictures.ids[item]
        near = data["near"][str(item)]
        assert 0 < len(near) <= NEIGHBORS
        assert item not in near
        assert all(str(other) in data["items"] for other in near)


def test_a_large_picture_is_larger_than_that_of_its_card_and_within_the_room_of_the_page(tmp_path):
    found = of_pictures(tmp_path, 60)
    for name in found.ids[:20]:
        noise = np.random.default_rng(0).integers(0, 255, (700, 900, 3), dtype=np.uint8)
        Image.fromarray(noise).save(tmp_path / name)
    large = look_data(label_page(found))["large"]
    sizes = {Image.open(io.BytesIO(base64.b64decode(src.partition(",")[2]))).size for src in large.values()}
    assert sizes == {(640, 498)}
    # The others are small as they are.
    assert set(map(int, large)) <= set(range(20))
    assert [large_side(n) for n in (1, 100, 200, 400, 5000)] == [640, 640, 480, 320, 224]


def test_the_nearest_items_are_the_nearest_by_their_vectors():
    found = result(60)
    near = neighbors_of(found, np.arange(60))
    X = found.vectors - (0 if found.center is None else found.center)
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    for item, others in near.items():
        edges = found.affinity[[item]].toarray().ravel().nonzero()[0]
        cosines = X[edges] @ X[item]
        assert others == edges[np.argsort(-cosines)][:NEIGHBORS].tolist()


def test_the_mixed_up_classes_are_those_that_the_probabilities_name():
    found = result(60)
    predicted = [i for i in range(60) if found.origins[i] == "predicted"]
    expected = np.zeros((3, 3))
    for i in predicted:
        expected[found.codes[i]] += found.probabilities[i]
    np.testing.assert_allclose(expected_confusion(found), expected, rtol=1e-5)
    sparse = replace(found, probabilities=sp.csr_array(found.probabilities))
    np.testing.assert_allclose(expected_confusion(sparse), expected, rtol=1e-5)
    shown = section(label_page(found), "confusion")
    wrong = expected.sum() - np.trace(expected)
    assert f"About {wrong:.0f} of the {len(predicted)} predicted labels are expected to be wrong." in shown
    cells = re.findall(r'<td class="(\w+)"[^>]*>(\d*)</td>', shown)
    assert [int(n or 0) for _, n in cells] == np.rint(expected).astype(int).ravel().tolist()
    assert [kind for kind, _ in cells] == ["same", "other", "other", "other"] * 2 + ["same"]


def test_sure_predictions_mix_nothing_up():
    found = result(60)
    sure = np.eye(3, dtype=np.float32)[np.maximum(found.codes, 0)]
    assert "Hardly any of the 45 predicted labels" in label_page(replace(found, probabilities=sure))


def test_all_suggestions_are_on_the_page():
    found = result(600)
    order = np.flatnonzero(np.asarray(found.origins, dtype=object) == "predicted")[:400]
    suggestions = np.zeros(600, dtype=np.int64)
    suggestions[order] = np.arange(1, 401)
    shown = section(label_page(replace(found, suggestions=suggestions)), "next")
    assert "<summary>All 400 suggestions</summary>" in shown
    ranks = [int(n) for n in re.findall(r'<span class="badge">(\d+)</span>', shown)]
    rows = [int(n) for n in re.findall(r'<th scope="row">(\d+)\. ', shown)]
    assert ranks + rows == list(range(1, 401))


def test_names_may_break_between_words_and_nowhere_else(tmp_path):
    found = replace(of_pictures(tmp_path), classes=("Black_throated-Sparrow", "Grasshopper Sparrow", "a.b/c"))
    shown = label_page(found)
    assert "<bdi>Black_<wbr>throated-<wbr>Sparrow</bdi>" in shown
    assert "<bdi>Grasshopper Sparrow</bdi>" in shown
    style = re.search(r"<style>(.*?)</style>", shown, re.DOTALL)[1]
    for rule in (r"\.says \{[^}]*", r"\.item \.path \{[^}]*"):
        assert "overflow-wrap: normal" in re.search(rule, style)[0]
