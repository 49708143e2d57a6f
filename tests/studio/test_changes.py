from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laplacianshot.studio.changes import ActionError, Change, Given, LabelState, checked_name, from_json, to_json

ITEMS = [f"item {i}" for i in range(6)]
NAMES = ["cat", "dog", "<b>owl</b>", 'a "quoted" one', "\u202eright to left", "🦊", "ä"]

# What people do, as data: which action, on what.
steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "rename", "merge", "delete", "label", "name", "clear"]),
        st.lists(st.sampled_from(ITEMS), min_size=1, max_size=4),
        st.integers(0, 5),
        st.integers(0, 5),
        st.sampled_from(NAMES),
    ),
    max_size=12,
)


def change_of(state: LabelState, step) -> Change | None:
    """The change of a step, None where it cannot be done."""
    kind, items, first, second, name = step
    ids = list(state.classes)
    one, other = (ids[first % len(ids)], ids[second % len(ids)]) if ids else (1, 1)
    make = {
        "add": lambda: state.adding(name),
        "rename": lambda: state.renaming(one, name),
        "merge": lambda: state.merging(one, other),
        "delete": lambda: state.deleting(one),
        "label": lambda: state.labeling(items, one),
        "name": lambda: state.labeling_by_name(dict.fromkeys(items, name)),
        "clear": lambda: state.clearing(items),
    }[kind]
    try:
        return make()
    except ActionError:
        return None


def books(steps) -> list[tuple[LabelState, Change]]:
    """Each state on the way, with the change that was made to it."""
    state, found = LabelState(), []
    for step in steps:
        change = change_of(state, step)
        if change:
            found.append((state, change))
            state = state.after(change)
    return found


@given(steps)
def test_the_inverse_of_every_action_gives_back_what_was_before(steps):
    for state, change in books(steps):
        back = state.after(change).after(change.inverse)
        assert back.labels == state.labels
        assert list(back.classes.items()) == list(state.classes.items())


@given(steps)
def test_an_inverse_taken_back_is_the_action_again(steps):
    for state, change in books(steps):
        after = state.after(change)
        again = after.after(change.inverse).after(change)
        assert (again.labels, again.classes) == (after.labels, after.classes)
        assert change.inverse.inverse == change


@given(steps)
def test_a_change_survives_being_written_down(steps):
    for _, change in books(steps):
        assert from_json(json.loads(json.dumps(to_json(change)))) == change


@given(steps)
def test_labels_are_always_of_classes_that_are_there_and_names_are_all_different(steps):
    for state, change in books(steps):
        after = state.after(change)
        assert {label.class_id for label in after.labels.values()} <= set(after.classes)
        names = [entry.name for entry in after.classes.values()]
        assert len(set(names)) == len(names)
        colors = [entry.color for entry in after.classes.values()]
        assert len(set(colors)) == len(colors)


@given(steps)
def test_the_number_of_a_class_never_comes_back(steps):
    made: list[int] = []
    for state, change in books(steps):
        made += [one.id for one in change.classes if one.before is None]
        assert all(one.id not in state.classes for one in change.classes if one.before is None)
    assert made == sorted(set(made))


def test_labels_that_are_there_already_are_no_change():
    state = LabelState().after(LabelState().labeling_by_name({"a": "cat"}))
    assert not state.labeling(["a"], 1)
    assert not state.clearing(["b"])


def test_a_label_that_was_accepted_becomes_a_persons_when_it_is_given_again():
    state = LabelState().after(LabelState().labeling_by_name({"a": "cat"}, "accepted"))
    assert state.after(state.labeling(["a"], 1)).labels["a"] == Given(1, "person")


def test_merging_keeps_every_label_and_deleting_takes_them():
    state = LabelState().after(LabelState().labeling_by_name({"a": "cat", "b": "dog", "c": "dog"}))
    merged = state.after(state.merging(2, 1))
    assert {item: label.class_id for item, label in merged.labels.items()} == {"a": 1, "b": 1, "c": 1}
    assert set(state.after(state.deleting(2)).labels) == {"a"}


def test_a_change_to_something_that_has_changed_since_is_refused():
    state = LabelState().after(LabelState().labeling_by_name({"a": "cat"}))
    change = state.clearing(["a"])
    with pytest.raises(ActionError, match="changed since"):
        state.after(change).after(change)


@pytest.mark.parametrize("name", ["", "  ", "-1", "x" * 201, "two\nlines", "nul\x00"])
def test_names_that_are_none_are_refused(name):
    with pytest.raises(ActionError):
        checked_name(name)


@pytest.mark.parametrize("name", NAMES)
def test_odd_names_are_names(name):
    assert checked_name(f" {name} ") == name


def test_accents_are_composed_so_that_what_looks_the_same_is_the_same():
    assert checked_name("a\u0308") == "ä"


def test_a_taken_name_and_a_missing_class_are_refused():
    state = LabelState().after(LabelState().adding("cat"))
    with pytest.raises(ActionError, match="already"):
        state.adding("cat")
    with pytest.raises(ActionError, match="no class 7"):
        state.labeling(["a"], 7)
    with pytest.raises(ActionError, match="itself"):
        state.merging(1, 1)
