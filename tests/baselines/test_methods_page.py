"""The pages on methods: the code runs, and no method is left out."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from laplacianshot.baselines import NearestPrototype
from laplacianshot.episodes.methods import METHODS

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide"
LIST = (GUIDE / "methods.md").read_text(encoding="utf-8")
PAGE = (GUIDE / "new-method.md").read_text(encoding="utf-8")
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
    rows = [line for line in LIST.splitlines() if line.startswith("| `")]
    listed = {name: row for row in rows for name in re.findall(r"`([a-z0-9-]+)`", row.split("|")[1])}
    assert set(listed) == set(METHODS)
    assert {name for name, row in listed.items() if "; slow |" in row} == {
        name for name, entry in METHODS.items() if entry.slow
    }


def test_the_readme_counts_the_names_that_there_are():
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"\[(\d+) names, all on one page\]\(docs/guide/methods.md\)", readme) == [str(len(METHODS))]


def test_the_page_shows_what_its_code_prints(names):
    (shown,) = re.findall(r"^```text\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    number = r"[+-]?\d+\.\d+"
    for line, printed in zip(shown.splitlines(), str(names["both"]).splitlines(), strict=True):
        assert re.sub(number, "#", line).split() == re.sub(number, "#", printed).split()
        # Rounding may turn a label, and times are a machine's own.
        values = [[float(value) for value in re.findall(number, text)[:-1]] for text in (line, printed)]
        assert values[0] == pytest.approx(values[1], abs=0.1)
