"""Parts of the page, each as a person uses it: map, gallery, tabs, names, themes and narrow windows."""

from __future__ import annotations

import numpy as np
import pytest

from tests.studio.browser.person import Person

HOSTILE = [
    '<img src=x onerror="window.caught = 1">',
    "\"quotes\" & 'apostrophes'",
    "شمس \u202e right to left",
    "🐦\u200d⬛ emoji",
    "</script><script>window.caught = 1</script>",
]


@pytest.fixture
def vectors(tmp_path):
    """A file of 240 rows in four clusters far apart."""
    rng = np.random.default_rng(0)
    centers = 8 * np.eye(4, 12)
    path = tmp_path / "vectors.npy"
    np.save(path, (np.repeat(centers, 60, axis=0) + rng.normal(size=(240, 12))).astype(np.float32))
    return path


def drag(page, points):
    page.mouse.move(*points[0])
    page.mouse.down()
    for point in points[1:]:
        page.mouse.move(*point, steps=6)
    page.mouse.up()


def around(box, share=1.0):
    """Corners of a box, or of its left part."""
    left, top, width, height = box["x"] + 3, box["y"] + 3, (box["width"] - 6) * share, box["height"] - 6
    return [(left, top), (left + width, top), (left + width, top + height), (left, top + height), (left, top)]


def test_a_lasso_on_the_map_selects_what_it_encloses_and_a_key_labels_it(studio, visit, vectors):
    person = Person(visit.open(studio(vectors).address))
    page = person.page
    person.add_class("north")
    person.add_class("south")
    person.view("Map")
    person.wait("async () => (await import('/page/js/store.js')).store.places !== null")
    page.get_by_role("button", name="Lasso").click()
    canvas = page.locator("#map")
    drag(page, around(canvas.bounding_box()))
    page.locator("#selection", has_text="240 selected").wait_for()
    page.keyboard.press("Escape")
    page.locator("#selection").wait_for(state="hidden")

    # Each cluster is far from the others: half of the map holds some of them and not all.
    drag(page, around(canvas.bounding_box(), 0.5))
    page.locator("#selection").wait_for()
    some = int(page.locator("#selection b").text_content().split()[0])
    assert 0 < some < 240
    page.keyboard.press("1")
    page.locator("#selection").wait_for(state="hidden")
    # After the two classes.
    person.knows(3)
    assert person.state()["counts"]["given"] == some

    # The wheel brings the map nearer: less of it is in sight, and under a lasso. Then all of it is shown again.
    selected = "async () => (await import('/page/js/store.js')).store.selection.size"
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 3, box["y"] + box["height"] / 2)
    page.mouse.wheel(0, -600)
    person.wait("async () => (await import('/page/js/mapview.js')).drawing.look.zoom > 1")
    drag(page, around(box))
    person.wait(f"async () => await ({selected})() > 0")
    assert page.evaluate(selected) < 240
    page.get_by_role("button", name="Show all").click()
    drag(page, around(box))
    person.wait(f"async () => await ({selected})() === 240")


def test_two_tabs_stay_in_step(demo, visit):
    one = Person(visit.open(demo.address))
    other = Person(visit.open(demo.address))
    one.add_class("seen in both")
    row = ".class-row:has-text('seen in both')"
    other.page.locator(row).wait_for()
    name = one.on_desk()
    one.page.keyboard.press(str(list(one.counts()).index("seen in both") + 1))
    one.on_desk(name)
    given = "document.querySelector('.class-row:last-child .count').title"
    other.wait(f"{given}.startsWith('1 given')")
    other.page.keyboard.press("Control+z")
    one.wait(f"{given}.startsWith('0 given')")
    other.rename("seen in both", "renamed elsewhere")
    one.page.locator(".class-row", has_text="renamed elsewhere").wait_for()


@pytest.mark.slow
def test_names_are_text_and_nothing_but_text(studio, visit, vectors):
    person = Person(visit.open(studio(vectors).address))
    page = person.page
    for name in HOSTILE:
        person.add_class(name)
    assert list(person.counts()) == HOSTILE
    for key in "12345":
        name = person.on_desk()
        page.keyboard.press(key)
        person.on_desk(name)
    for view in ("Gallery", "Map", "Label"):
        person.view(view)
    person.view("Gallery")
    page.locator(".group-head", has_text=HOSTILE[0]).wait_for()
    page.locator(".tile").first.click()
    page.get_by_role("button", name="History").click()
    page.locator(".drawer li").nth(4).wait_for()
    page.keyboard.press("Escape")
    person.rename(HOSTILE[0], "<svg onload='window.caught = 1'>")
    person.menu_of(HOSTILE[1], "Merge into")
    page.get_by_role("combobox", name="Merge").fill("emoji")
    page.get_by_role("combobox", name="Merge").press("Enter")
    page.locator(".class-row", has_text="quotes").wait_for(state="detached")
    person.menu_of(HOSTILE[2], "Delete")
    page.get_by_role("button", name="Delete class").click()
    page.locator(".class-row", has_text="right to left").wait_for(state="detached")
    assert len(person.counts()) == 3
    assert page.evaluate("window.caught === undefined && !document.querySelector('main img, aside img, .toast img')")


@pytest.mark.slow
def test_the_gallery_is_worked_by_keys_mouse_and_search(studio, visit):
    person = Person(visit.open(studio("--demo").address))
    page = person.page
    person.add_class("a")
    person.add_class("b")
    person.view("Gallery")
    tiles = page.locator(".tile")
    tiles.nth(20).wait_for()
    # Of 1,797 items only what is seen is in the page.
    assert tiles.count() < 500
    assert page.locator("#gallery").evaluate("node => node.scrollHeight") > 5_000
    page.locator("#gallery").evaluate("node => { node.scrollTop = node.scrollHeight }")
    page.locator("#item-1796").wait_for()

    page.keyboard.press("/")
    page.locator("#search").fill("0123")
    page.locator("#summary", has_text="1 picture").wait_for()
    page.locator("#item-123").click()
    page.locator("#selection", has_text="1 selected").wait_for()
    page.keyboard.press("2")
    page.locator("#item-123.given").wait_for()
    page.get_by_role("button", name="Show everything").first.click()
    page.locator("#summary", has_text="1,797 pictures").wait_for()

    # Arrows go on, space selects, shift selects a range, a key labels it.
    page.locator("#sort").select_option("source")
    page.locator("#grouped").uncheck()
    page.locator("#gallery").evaluate("node => { node.scrollTop = 0 }")
    page.locator("#item-0").click()
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    page.locator("#selection", has_text="3 selected").wait_for()
    page.locator('#items[aria-activedescendant="item-3"]').wait_for()
    page.keyboard.press("1")
    page.locator("#selection").wait_for(state="hidden")
    page.locator("#item-3.given").wait_for()

    # Dragged onto a class.
    page.locator("#item-8").drag_to(page.locator(".class-row").nth(1))
    page.locator("#item-8.given").wait_for()
    # Two classes, one label, three, and this one.
    person.knows(5)
    state = person.state()
    assert [one["given"] for one in state["classes"]] == [3, 2]
    page.locator("#pick").select_option("given")
    page.locator("#summary", has_text="5 pictures").wait_for()


@pytest.mark.slow
def test_what_is_under_the_hand_stays_there_while_labels_change(studio, visit):
    running = studio("--demo")
    person, other = Person(visit.open(running.address)), Person(visit.open(running.address))
    page = person.page
    for name in ("a", "b"):
        person.add_class(name)
    known = {one["name"]: one["id"] for one in other.state()["classes"]}

    def someone_else_labels(item, name):
        sent = other.page.request.post(f"{other.origin}/api/label", data={"items": [item], "class": known[name]})
        assert sent.ok, sent.text()
        state = other.state()
        other.sees(state)
        return state

    def news_waits():
        """The page has heard of a change, and does not show it while the mouse is pressed."""
        person.wait("async () => (await import('/page/js/hand.js')).isNewsWaiting()")

    person.sees(someone_else_labels(1790, "a"))
    person.view("Gallery")
    row, tile = page.locator(".class-row").nth(1), page.locator(".tile").first
    tile.hover()
    page.mouse.down()
    item = tile.get_attribute("id")
    row.hover()
    row.hover()
    state = someone_else_labels(1791, "b")
    news_waits()
    page.mouse.up()
    page.locator(f"#{item}.given").wait_for()
    person.sees(state)

    row.hover()
    page.mouse.down()
    state = someone_else_labels(1792, "a")
    news_waits()
    page.mouse.up()
    page.locator(".class-row.chosen", has_text="b").wait_for()
    person.sees(state)


def test_labels_are_imported_and_a_bad_file_is_reported(demo, visit, tmp_path):
    person = Person(visit.open(demo.address))
    before = person.state()["counts"]["given"]
    page = person.page
    good, bad = tmp_path / "labels.csv", tmp_path / "bad.csv"
    good.write_text("id,label\ndigit-0000,zero\ndigit-0001,one\ndigit-0002,two\n", encoding="utf-8")
    bad.write_text("these,are\nno,labels\n", encoding="utf-8")
    visit.allowed.append("422")
    for file in (bad, good):
        page.get_by_role("button", name="Import labels").click()
        page.locator("#import-file").set_input_files(file)
        page.get_by_role("dialog").get_by_role("button", name="Import").click()
        page.locator(".toast.bad" if file is bad else ".toast:has-text('3 labels imported')").first.wait_for()
    state = person.state()
    assert [one["name"] for one in state["classes"]][-3:] == ["zero", "one", "two"]
    assert state["counts"]["given"] == before + 3


def test_dark_and_light_can_be_chosen_and_a_narrow_window_shows_everything(demo, visit):
    person = Person(visit.open(demo.address))
    page = person.page
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.get_by_role("button", name="Theme").click()
    page.get_by_role("menuitem", name="Dark").click()
    person.wait(f"(light) => {paper} !== light", light)
    page.reload()
    person.wait("document.documentElement.dataset.theme === 'dark'")
    page.set_viewport_size({"width": 420, "height": 900})
    for name, place in (("Classes", "#side"), ("Map", "#map"), ("Gallery", "#gallery"), ("Label", "#label-view .card")):
        person.view(name)
        page.locator(place).wait_for()
        person.wait("document.documentElement.scrollWidth <= innerWidth")
