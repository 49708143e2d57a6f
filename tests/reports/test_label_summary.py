from dataclasses import replace

import numpy as np

from laplacianshot.reports.label_summary import LabelSummary
from tests.reports import labels_made_up as made_up

TEXTS = tuple(f"sentence {n} on\nbirds" for n in range(60))


def suggestions(result):
    (table,) = (table for table in LabelSummary(result).tables() if table.title == "What to label next")
    return [row.cells[0].text for row in table.rows]


def test_texts_to_label_next_can_be_read_and_others_have_their_id(tmp_path):
    first = int(made_up.of_texts(tmp_path, texts=TEXTS).suggested[0])
    assert f"1. {first}: sentence {first} on\\nbirds" in suggestions(made_up.of_texts(tmp_path, texts=TEXTS))[0]
    assert f"1. {first}" in suggestions(made_up.result())[0]
    assert "sentence" not in suggestions(made_up.result())[0]


def test_what_is_rejected_is_told_so_and_without_labels_there_is_no_class_to_tell():
    found = made_up.result()
    item = int(found.suggested[0])
    codes, origins = found.codes.copy(), list(found.origins)
    codes[item], origins[item] = -1, "rejected"
    following = LabelSummary(replace(found, codes=codes, origins=tuple(origins))).tables()[1]
    assert [cell.text for cell in following.rows[0].cells][1:] == ["rejected", ""]
    none = np.full(len(found), -1)
    nothing = replace(found, classes=(), codes=none, disputes=none, origins=("",) * len(found))
    first = LabelSummary(nothing).tables()[0]
    assert (first.title, first.head) == ("What to label first", ("Item",))
    assert all(len(row.cells) == 1 for row in first.rows)


def test_neighbors_that_were_sought_approximately_are_told():
    found = made_up.result()
    exact = LabelSummary(found).tables()[0].notes
    assert not any("approximately" in note for note in exact)
    settings = {**found.settings, "graph": "cells", "graph_recall": 0.971}
    told = LabelSummary(replace(found, settings=settings)).tables()[0].notes
    assert "Neighbors were searched approximately: 97.1% of the true ones were found." in told


def test_what_is_nearly_certain_is_not_told_as_certain():
    found = made_up.result()
    confidence = np.where(np.asarray(found.origins) == "predicted", 0.9999, found.confidence)
    classes, following = LabelSummary(replace(found, confidence=confidence)).tables()[:2]
    assert {row.cells[-1].text for row in classes.rows} == {">99.9%"}
    assert {row.cells[-1].text for row in following.rows} == {">99%"}


def test_what_the_user_should_know_comes_before_lists_of_items():
    result = replace(made_up.result(), notes=("Folders were taken for classes.",))
    notes = LabelSummary(result).tables()[-1].notes
    assert notes[0] == "Folders were taken for classes."
    assert notes[1].startswith("Given labels that the neighbors dispute: 2")
