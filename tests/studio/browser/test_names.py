"""Someone who knows what the classes are called, and has labeled nothing yet."""

from __future__ import annotations

import pytest

from tests.studio.browser.person import Person

SAID = {
    "weather": ["Will it rain tomorrow?", "How cold is it in Oslo today?", "Is a storm coming this weekend?"],
    "restaurant": ["Book a table for two tonight.", "Find me a place for dinner.", "Reserve a bistro for lunch."],
    "music": ["Play some jazz.", "I want to hear a song by Abba.", "Turn on my rock playlist."],
}


@pytest.fixture
def requests(tmp_path):
    """A table of nine requests, three of each kind."""
    path = tmp_path / "requests.csv"
    path.write_text("text\n" + "\n".join(text for said in SAID.values() for text in said) + "\n", encoding="utf-8")
    return path


def test_typed_names_label_everything_before_the_first_click_and_a_label_corrects_it(studio, visit, requests):
    person = Person(visit.open(studio(requests).address))
    page = person.page
    person.on_desk()
    page.locator("#class-names").fill("weather: questions on the weather\nrestaurant")
    page.get_by_role("button", name="Label everything").click()
    page.locator(".start").wait_for(state="hidden")
    page.get_by_text("Labeled by names alone.").wait_for()
    state = person.state()
    assert (state["counts"]["predicted"], state["counts"]["given"]) == (9, 0)
    person.sees(state)
    assert sum(person.counts().values()) == 9

    # A class that was forgotten; names that are there stay.
    page.get_by_role("button", name="Paste a list").click()
    page.locator("#more-names").fill("music\nrestaurant")
    page.get_by_role("button", name="Label everything").last.click()
    page.locator(".class-row", has_text="music").wait_for()
    state = person.state()
    person.sees(state)
    assert person.counts() == {"weather": 3, "restaurant": 3, "music": 3}

    item = person.on_desk()
    page.keyboard.press("1")
    person.on_desk(item)
    person.knows(state["version"] + 1)
    assert person.state()["counts"]["given"] == 1
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    page.locator(".start").wait_for()
    assert person.state()["classes"] == []


def test_a_page_whose_items_nothing_reads_says_why_names_do_not_count(demo, visit):
    page = visit.open(demo.address)
    page.locator(".start").get_by_text("The names themselves tell nothing here").wait_for()
    page.get_by_role("button", name="Add classes").wait_for()
