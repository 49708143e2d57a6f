"""The map of a label report in Chromium: its script runs under the page's own policy and shows the item pointed at."""

from __future__ import annotations

from dataclasses import replace

import pytest

from laplacianshot.reports.label_page import label_page
from tests.reports.labels_made_up import HOSTILE, of_pictures, of_texts, result

# Milliseconds. Far more than anything takes on an idle machine: a busy one must not fail a test.
PATIENCE = 300_000


@pytest.fixture
def show(chromium, tmp_path):
    """Open a page in a browser and wait until its map is drawn; at the end nothing may have gone wrong in it."""
    faults = []
    context = chromium.new_context(viewport={"width": 1200, "height": 900})

    def open_page(html):
        path = tmp_path / "page.html"
        path.write_text(html, encoding="utf-8")
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("dialog", lambda dialog: (faults.append(dialog.message), dialog.dismiss()))
        page.goto(path.as_uri())
        # The script sets the bitmap's size when it draws for the first time.
        page.locator("#map-canvas[width]").wait_for()
        return page

    yield open_page
    context.close()
    assert faults == []


def test_the_script_runs_under_the_policy_of_the_page(show):
    page = show(label_page(result(60, HOSTILE[:3])))
    canvas = page.locator("#map-canvas")
    assert int(canvas.get_attribute("width")) > 600
    assert int(canvas.get_attribute("height")) > 300
    drawn = "node => new Set(node.getContext('2d').getImageData(0, 0, node.width, node.height).data).size"
    assert canvas.evaluate(drawn) > 10


def test_arrow_keys_go_from_item_to_item_and_say_what_is_there(show, tmp_path):
    found = of_texts(tmp_path, 60, HOSTILE)
    page = show(label_page(found))
    canvas = page.locator("#map-canvas")
    said = []
    for key in ("+", "ArrowRight", "ArrowRight", "ArrowUp", "ArrowLeft", "ArrowDown"):
        canvas.press(key)
        said.append(page.locator("#map-said").text_content())
    said = [text for text in said if text]
    assert len(said) >= 3
    assert len(set(said)) >= 2
    assert any(name in said[0] for name in (*found.classes, "fits no class"))
    canvas.press("Escape")
    page.locator("#map-tip").wait_for(state="hidden")


def test_a_class_is_shown_alone_and_pointing_shows_an_item(show):
    found = result()
    page = show(label_page(found))
    page.locator('#map-view [data-class="1"]').click()
    # As a mouse that moves over all of the map, in one go: 10,000 moves of a real one would take minutes.
    seen = page.locator("#map-canvas").evaluate(
        """(map) => {
          const box = map.getBoundingClientRect();
          const tip = document.getElementById("map-tip");
          const seen = new Set();
          for (let x = 4; x < box.width; x += 8)
            for (let y = 4; y < box.height; y += 8) {
              const [clientX, clientY] = [box.left + x, box.top + y];
              map.dispatchEvent(new PointerEvent("pointermove", { clientX, clientY, pointerId: 1 }));
              if (!tip.hidden) seen.add(tip.querySelector(".map-text").textContent);
            }
          return [...seen];
        }"""
    )
    assert {int(item) for item in seen} == {item for item in range(60) if found.codes[item] == 1}
    pressed = page.locator('#map-view [aria-pressed="true"]')
    assert [button.get_attribute("data-class") for button in pressed.all()] == ["1"]


def test_a_mouse_points_zooms_and_moves_the_map(show):
    page = show(label_page(result()))
    box = page.locator("#map-canvas").bounding_box()
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.locator("#map-canvas").press("ArrowRight")
    page.locator("#map-tip").wait_for()
    for _ in range(3):
        page.locator("#map-in").click()
    before = page.locator("#map-canvas").screenshot()
    page.mouse.move(*middle)
    page.mouse.down()
    page.mouse.move(middle[0] + 120, middle[1] + 60, steps=4)
    page.mouse.up()
    assert page.locator("#map-canvas").screenshot() != before


def test_an_item_is_opened_and_its_neighbors_by_keyboard_alone(show, tmp_path):
    found = of_texts(tmp_path, 60)
    page = show(label_page(found))
    card = page.locator("[data-look]").first
    card.focus()
    page.keyboard.press("Enter")
    page.locator("#look[open]").wait_for()
    name, item = page.locator("#look-name"), int(card.get_attribute("data-look"))
    assert name.text_content() == found.ids[item]
    assert page.locator("#look .reading").text_content() == str(found.source.preview(int(found.rows[item])))
    neighbor = page.locator("#look-near button").first
    neighbor.focus()
    page.keyboard.press("Enter")
    other = name.text_content()
    assert other != found.ids[item]
    page.keyboard.press("ArrowLeft")
    assert name.text_content() == found.ids[item]
    page.keyboard.press("ArrowRight")
    assert name.text_content() != found.ids[item]
    page.keyboard.press("Escape")
    page.locator("#look").wait_for(state="hidden")
    assert page.evaluate("document.activeElement.dataset.look") == str(item)


def test_an_item_of_the_map_is_opened_by_enter(show):
    page = show(label_page(result()))
    canvas = page.locator("#map-canvas")
    canvas.press("ArrowRight")
    said = page.locator("#map-text, .map-text").first.text_content()
    canvas.press("Enter")
    page.locator("#look[open]").wait_for()
    assert page.locator("#look-name").text_content() == said


@pytest.mark.parametrize("width", [390, 1200])
def test_no_name_is_broken_inside_a_word_and_nothing_is_wider_than_the_screen(show, tmp_path, width):
    names = ("Black_throated_Sparrow", "Grasshopper_Sparrow", "Great_Grey_Shrike")
    found = replace(of_pictures(tmp_path, 60, ("IMG_0001_original_export",)), classes=names)
    page = show(label_page(found))
    page.set_viewport_size({"width": width, "height": 900})
    page.locator("[data-look]").first.click()
    broken = page.evaluate(
        """() => [...document.querySelectorAll(".says bdi, .path bdi")].flatMap((name) => {
          const walk = document.createTreeWalker(name, NodeFilter.SHOW_TEXT);
          const found = [];
          while (walk.nextNode()) {
            const range = document.createRange();
            range.selectNodeContents(walk.currentNode);
            // A piece between two places to break is on one line, unless it has spaces.
            const tops = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
            if (tops.size > 1 && !/\\s/.test(walk.currentNode.data)) found.push(walk.currentNode.data);
          }
          return found;
        })"""
    )
    assert broken == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
