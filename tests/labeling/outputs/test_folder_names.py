from __future__ import annotations

import os

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from laplacianshot.labeling.outputs.sorting import folder_names


def test_plain_names_stay_as_they_are():
    names = ["cat", "Black-footed Albatross", "001.Gull", "süß", "чайка", "🐦", "a.b", "-rf"]
    assert folder_names(names) == {name: name for name in names}


def test_what_systems_do_not_take_is_replaced():
    expected = {
        "a/b": "a_b",
        "a\\b": "a_b-2",
        "../etc": "_._etc",
        ".": "_",
        "..": "_-2",
        ".hidden": "_hidden",
        "two\nlines": "two_lines",
        'what?*:<>|"': "what_______",
        "ends. ": "ends",
        "CON": "CON_",
        "nul.txt": "_nul.txt",
        "\u202eevil": "_evil",
    }
    assert folder_names(expected) == expected


def test_names_that_differ_in_case_alone_get_a_number():
    assert folder_names(["Cat", "cat", "CAT"]) == {"Cat": "Cat", "cat": "cat-2", "CAT": "CAT-3"}


def test_a_class_called_unlabeled_is_not_taken_for_unlabeled_pictures():
    assert folder_names(["Unlabeled"]) == {"Unlabeled": "Unlabeled-2"}


def test_long_names_are_cut_and_stay_apart():
    names = folder_names(["é" * 300, "é" * 301])
    assert len(set(names.values())) == 2
    assert all(len(name.encode()) <= 200 for name in names.values())


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sets(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), max_size=8))
def test_every_class_gets_a_folder_of_its_own_that_can_be_made(tmp_path_factory, labels):
    root = tmp_path_factory.mktemp("classes")
    names = folder_names(sorted(labels))
    assert len({name.casefold() for name in names.values()}) == len(labels)
    for name in names.values():
        (root / name).mkdir()
        assert os.path.dirname(os.path.realpath(root / name)) == os.path.realpath(root)  # noqa: PTH120
        assert not name.startswith(".")
