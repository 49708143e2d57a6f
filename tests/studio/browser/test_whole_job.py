"""The whole job, as a person does it: a few labels by keys, the rest from the graph, and everything found again."""

from __future__ import annotations

import csv

import pytest
from sklearn.datasets import load_digits

from tests.studio.browser.person import Person

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
HOSTILE = " <img src=x onerror=alert(1)>"
# Things of each subject, and phrases that they fit into.
SUBJECTS = {
    "weather": ("rain|a storm|snow|thick fog|bright sunshine|hail|a warm wind|black ice", (
        "The forecast says there will be {} tomorrow.",
        "We had {} over the hills all week.",
        "Expect {} and low temperatures.",
    )),
    "cooking": ("tomato soup|fried onions|fresh bread|a chocolate cake|roast chicken|noodles|a salad|pancakes", (
        "The recipe for {} takes half an hour.",
        "Add salt and pepper to {} before serving.",
        "I cooked {} for dinner in the oven.",
    )),
    "football": ("the keeper|the striker|the referee|a free kick|the penalty|the coach|the midfield|the final", (
        "The match was decided by {}.",
        "Fans in the stadium cheered {}.",
        "The team talked about {} after the league game.",
    )),
}  # fmt: skip


def the_job(person, truth, total, least_right):
    """Label five, see the rest labeled, accept, correct, undo, rename, export, come back. Gives the exported rows."""
    page = person.page
    person.state()
    person.wait("async () => (await import('/page/js/store.js')).store.queue.length > 0")
    said = person.label_by_keys(truth, 5)
    assert len(said) == 5
    classes = list(dict.fromkeys(said.values()))
    assert len(classes) >= 2
    state = person.state()
    assert state["counts"]["given"] == 5
    assert state["counts"]["predicted"] == total - 5
    person.sees(state)
    assert sum(person.counts().values()) == total

    # Accept what is sure enough: the number on the button is the number of labels that are accepted.
    page.locator("#accept-least").fill("50")
    person.wait("() => !document.querySelector('#accept-all').disabled")
    text = page.locator("#accept-all").text_content()
    number = int("".join(mark for mark in text if mark.isdigit()))
    assert 0 < number <= total - 5
    assert "expected to be wrong" in page.locator("#accept-offer").text_content()
    page.locator("#accept-all").click()
    page.locator(".toast", has_text="Accepted").first.wait_for()
    state = person.state()
    assert (state["counts"]["given"], state["counts"]["accepted"]) == (5, number)

    # Correct one: the first of the gallery gets the label of another class.
    person.view("Gallery")
    person.sees(state)
    tile = page.locator(".tile").first
    item = int(tile.get_attribute("data-item"))
    tile.click()
    before = page.request.get(f"{person.origin}/api/items/{item}").json()
    other = next(one for one in state["classes"] if one["id"] != before["class"])
    page.keyboard.press(str(state["classes"].index(other) + 1))
    page.locator("#selection").wait_for(state="hidden")
    person.knows(state["version"] + 1)
    after = page.request.get(f"{person.origin}/api/items/{item}").json()
    assert (after["class"], after["origin"]) == (other["id"], "given")

    # And take that back.
    page.keyboard.press("Control+z")
    page.locator(".toast", has_text="Undone").first.wait_for()
    undone = page.request.get(f"{person.origin}/api/items/{item}").json()
    assert (undone["class"], undone["origin"]) == (before["class"], before["origin"])

    person.rename(classes[0], f"{classes[0]} 🎉")
    person.state()
    rows = person.exported()
    assert len(rows) == total
    assert {row["label"] for row in rows} == {f"{classes[0]} 🎉", *classes[1:]}
    assert sum(row["origin"] == "given" for row in rows) == 5
    assert sum(row["origin"] == "accepted" for row in rows) == number
    plain = {row["id"]: row["label"].removesuffix(" 🎉") for row in rows}
    assert all(plain[name] == label for name, label in said.items())
    # Of those whose class was met, most are right.
    known = [name for name in plain if truth(name) in classes]
    right = sum(plain[name] == truth(name) for name in known) / len(known)
    assert right >= least_right
    return rows


def found_again(person, rows):
    """Everything is there: names, counts and history."""
    labels = [row["label"] for row in rows]
    person.sees(person.state())
    assert person.counts() == {name: labels.count(name) for name in dict.fromkeys(person.counts())}
    assert set(person.counts()) == set(labels)
    person.page.get_by_role("button", name="History").click()
    lines = person.page.locator(".drawer li")
    lines.nth(6).wait_for()
    # Five labels, as many classes, the accepted ones, the correction that was undone, the new name.
    assert person.page.locator(".drawer li.undone").count() == 1
    person.page.keyboard.press("Escape")


def test_five_pictures_labeled_by_keys_label_the_rest_and_all_is_found_again(studio, visit):
    digits = load_digits().target
    here = studio("--demo")
    page = visit.open(here.address)
    person = Person(page)
    # Pictures of eight pixels are shown large enough to be read.
    person.wait("() => document.querySelector('.stage img')?.clientHeight > 150")
    rows = the_job(person, lambda name: WORDS[digits[int(name.removeprefix("digit-"))]], len(digits), 0.75)
    page.reload()
    found_again(Person(page), rows)
    # The studio is killed without a word, and started again.
    visit.allowed += ["ERR_", "Failed to load"]
    here.kill()
    page.locator("#banner", has_text="does not answer").wait_for()
    page.close()
    found_again(Person(visit.open(here.start().address)), rows)


@pytest.mark.slow
def test_five_sentences_labeled_by_keys_label_the_rest_and_all_is_found_again(studio, visit, tmp_path):
    table = tmp_path / "sentences.csv"
    truth = {}
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text"])
        for subject, (things, phrases) in SUBJECTS.items():
            for phrase in phrases:
                for thing in things.split("|"):
                    # Texts are shown as they are, whatever they hold.
                    name = f"<b>{len(truth)}</b>"
                    truth[name] = subject
                    writer.writerow([name, phrase.format(thing) + (HOSTILE if len(truth) % 24 == 0 else "")])
    page = visit.open(studio(table).address)
    rows = the_job(Person(page), truth.__getitem__, len(truth), 0.85)
    page.reload()
    found_again(Person(page), rows)
