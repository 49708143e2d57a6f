"""The page on methods: its code runs, and it leaves no method out."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from laplacianshot.baselines import BASELINES, NearestPrototype

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "guide" / "methods.md").read_text(encoding="utf-8")
CODE = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def names():
    """What is defined once all code of the page has run."""
    defined = {"__name__": "page"}
    for block in CODE:
        exec(block, defined)
    return defined


def test_the_method_of_the_page_takes_about_twenty_lines():
    (block,) = (block for block in CODE if "class SoftKMeans" in block)
    assert len(block.splitlines()) <= 22


def test_the_method_of_the_page_labels_and_is_evaluated(names):
    X, digits, y, found = (names[name] for name in ("X", "digits", "y", "found"))
    plain = NearestPrototype().fit(X, y).transduction_
    assert np.mean(found == digits) > np.mean(plain == digits) > 0.7
    ours, prototype = names["both"]
    assert ours.mean > prototype.mean > 0.5


def test_the_page_lists_every_method_and_says_which_are_slow():
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    listed = {name: row for row in rows for name in re.findall(r"`([a-z0-9-]+)`", row.split("|")[1])}
    assert set(listed) == set(BASELINES)
    assert {name for name, row in listed.items() if "; slow |" in row} == {
        name for name, entry in BASELINES.items() if entry.slow
    }


def test_the_page_shows_what_its_code_prints(names):
    # Times differ from machine to machine.
    printed = [line.rsplit("  ", 1)[0] for line in str(names["both"]).splitlines()]
    (shown,) = re.findall(r"^```text\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    assert [line.rsplit("  ", 1)[0] for line in shown.splitlines()] == printed
