from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import laplacianshot
from laplacianshot.studio.change_log import (
    FILE_NAME,
    ActionError,
    Change,
    ChangeLog,
    ClassEntry,
    Given,
    LabelState,
    ProjectError,
    checked_name,
)

ITEMS = [f"item {i}" for i in range(6)]
NAMES = ["cat", "dog", "<b>owl</b>", 'a "quoted" one', "\u202eright to left", "🦊", "ä"]

# What people do, as data: which action, on what.
steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "list", "rename", "merge", "delete", "label", "name", "clear"]),
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
        "list": lambda: state.naming({name: ("said of it",) * first, "owl": ()}, counted=second > 0),
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
        assert Change.from_json(change.to_json()) == change


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


def test_names_that_are_there_already_are_no_change_and_new_ones_are_added():
    state = LabelState().after(LabelState().naming({"cat": (), "dog": ("barks",)}))
    assert state.classes == {1: ClassEntry("cat", 0, ()), 2: ClassEntry("dog", 1, ("barks",))}
    assert not state.naming({"cat": (), "dog": ("barks",)})
    after = state.after(state.naming({"dog": ("barks", "is a pet"), "owl": ()}))
    assert after.classes[2].said == ("barks", "is a pet")
    assert after.classes[3] == ClassEntry("owl", 2, ())


def test_a_class_that_is_added_counts_by_its_name_where_others_do():
    state = LabelState().after(LabelState().naming({"cat": ()}))
    assert state.adding("dog").classes[0].after.said == ()
    assert LabelState().adding("dog").classes[0].after.said is None


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


@pytest.fixture
def store(tmp_path):
    made = ChangeLog(tmp_path, "here")
    yield made
    made.close()


def label(store: ChangeLog, item: str, name: str) -> None:
    store.commit(store.state.labeling_by_name({item: name}))


def content(state: LabelState) -> tuple[object, ...]:
    return list(state.classes.items()), state.labels, state.next_id


def replayed(log: ChangeLog) -> LabelState:
    """The state that results from replaying the log from its start."""
    state = LabelState()
    for version in range(1, log.version + 1):
        state = state.after(log.change_of(version))
    return state


def some_work(store: ChangeLog) -> None:
    for item, name in [("a", "cat"), ("b", "dog"), ("c", "dog"), ("a", "dog")]:
        label(store, item, name)
    store.undo()
    store.commit(store.state.renaming(1, "lion"))
    store.commit(store.state.merging(2, 1))
    store.undo()
    store.undo()
    store.redo()
    store.commit(store.state.deleting(2))


def test_reading_the_log_from_its_start_gives_the_book(store):
    some_work(store)
    assert content(replayed(store)) == content(store.state)


def test_a_store_that_is_opened_again_is_as_it_was(store, tmp_path):
    some_work(store)
    before = (content(store.state), store.history(), store.next_undo, store.next_redo)
    store.close()
    again = ChangeLog(tmp_path, "here")
    assert (content(again.state), again.history(), again.next_undo, again.next_redo) == before
    again.close()


def test_every_action_can_be_undone_down_to_nothing_and_done_again(store):
    some_work(store)
    at_the_end = content(store.state)
    n = 0
    while store.next_undo is not None:
        store.undo()
        n += 1
    assert (store.state.labels, store.state.classes) == ({}, {})
    for _ in range(n):
        store.redo()
    assert content(store.state) == at_the_end
    with pytest.raises(ActionError, match="nothing to redo"):
        store.redo()


def test_a_new_action_ends_what_can_be_redone(store):
    label(store, "a", "cat")
    label(store, "b", "dog")
    store.undo()
    label(store, "c", "cat")
    assert store.next_redo is None
    assert [action.undone for action in store.history()] == [False, False, True, False]


def test_what_changes_nothing_is_no_action(store):
    label(store, "a", "cat")
    with pytest.raises(ActionError, match="nothing would change"):
        label(store, "a", "cat")
    assert store.version == 1


def test_a_store_belongs_to_one_source(store, tmp_path):
    store.close()
    with pytest.raises(ProjectError, match="holds the labels of here"):
        ChangeLog(tmp_path, "there")


def test_a_file_that_is_no_store_is_named(tmp_path):
    (tmp_path / FILE_NAME).write_bytes(b"not a database at all, but long enough to be looked at" * 40)
    with pytest.raises(ProjectError, match="cannot be read"):
        ChangeLog(tmp_path, "here")


WRITER = """
import sys
from pathlib import Path
from laplacianshot.studio.change_log import ChangeLog

store = ChangeLog(Path(sys.argv[1]), "here")
while True:
    n = store.version + 1
    item = f"item {n}"
    store.commit(store.state.labeling_by_name({item: f"class {n % 3}"}))
    print(n, flush=True)
"""


def test_what_was_acknowledged_is_there_after_a_kill(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(Path(laplacianshot.__file__).parents[1])}
    acknowledged = 0
    for kill in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True, env=environment
        )
        assert process.stdout is not None
        for _ in range(5 + 7 * kill):
            acknowledged = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        rest = process.stdout.read().split()
        process.wait(300)
        process.stdout.close()
        # A last line may be cut short by the kill.
        acknowledged = max([acknowledged, *(int(word) for word in rest[:-1])])
        store = ChangeLog(tmp_path, "here")
        assert store.version >= acknowledged
        assert len(store.state.labels) == store.version
        assert content(replayed(store)) == content(store.state)
        store.close()


# A project as version 0.1 wrote it: dumped from its database.
VERSION_0_1 = """
CREATE TABLE actions (
  version INTEGER PRIMARY KEY, at TEXT NOT NULL, kind TEXT NOT NULL, summary TEXT NOT NULL, target INTEGER,
  change TEXT NOT NULL
);
INSERT INTO actions VALUES(1,'2026-11-18T01:41:25Z','label','1 item: auk',NULL,
  '{"classes": [[1, null, ["auk", 0]]], "labels": [[["a.png"], null, [1, "person"]]]}');
INSERT INTO actions VALUES(2,'2026-11-18T01:41:26Z','label','1 item: coot',NULL,
  '{"classes": [[2, null, ["coot", 1]]], "labels": [[["b.png"], null, [2, "person"]]]}');
INSERT INTO actions VALUES(3,'2026-11-18T01:41:27Z','accept','1 item accepted: auk',NULL,
  '{"classes": [], "labels": [[["c.png"], null, [1, "accepted"]]]}');
INSERT INTO actions VALUES(4,'2026-11-18T01:41:28Z','rename-class','coot is now heron',NULL,
  '{"classes": [[2, ["coot", 1], ["heron", 1]]], "labels": []}');
INSERT INTO actions VALUES(5,'2026-11-18T01:41:29Z','clear','1 item: label taken away',NULL,
  '{"classes": [], "labels": [[["a.png"], [1, "person"], null]]}');
INSERT INTO actions VALUES(6,'2026-11-18T01:41:30Z','undo','Undo: 1 item: label taken away',5,
  '{"classes": [], "labels": [[["a.png"], null, [1, "person"]]]}');
CREATE TABLE classes (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, colour INTEGER NOT NULL);
INSERT INTO classes VALUES(1,'auk',0);
INSERT INTO classes VALUES(2,'heron',1);
CREATE TABLE labels (item TEXT PRIMARY KEY, class INTEGER NOT NULL, how TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO labels VALUES('a.png',1,'person');
INSERT INTO labels VALUES('b.png',2,'person');
INSERT INTO labels VALUES('c.png',1,'accepted');
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO meta VALUES('format','1');
INSERT INTO meta VALUES('source','/birds');
INSERT INTO meta VALUES('next_id','3');
"""


@pytest.fixture
def old(tmp_path):
    """A project of version 0.1, opened by this version."""
    folder = tmp_path / "old"
    folder.mkdir()
    with contextlib.closing(sqlite3.connect(folder / FILE_NAME)) as database:
        database.executescript("PRAGMA journal_mode=WAL;" + VERSION_0_1)
    log = ChangeLog(folder, "/birds")
    yield log
    log.close()


def test_a_project_of_version_0_1_is_read_in_full(old):
    assert old.state.classes == {1: ClassEntry("auk", 0), 2: ClassEntry("heron", 1)}
    assert old.state.labels == {"a.png": Given(1), "b.png": Given(2), "c.png": Given(1, "accepted")}
    assert old.state.next_id == 3
    assert content(replayed(old)) == content(old.state)
    assert [action.kind for action in old.history()] == ["undo", "clear", "rename-class", "accept", "label", "label"]
    assert (old.next_undo.version, old.next_redo.version) == (4, 5)


def test_a_label_that_version_0_1_accepted_alone_was_looked_at(old):
    assert old.confirmed() == {"c.png": Given(1, "accepted")}
    old.commit(old.state.accepting({"e.png": 1}, ", confidence 90% or more; hardly any expected to be wrong"))
    old.commit(old.state.accepting({"f.png": 1, "g.png": 1}, ""))
    assert set(old.confirmed()) == {"c.png"}


def test_a_project_of_version_0_1_goes_on_and_is_found_again(old, tmp_path):
    label(old, "d.png", "gull")
    while old.next_undo is not None:
        old.undo()
    assert (old.state.classes, old.state.labels) == ({}, {})
    while old.next_redo is not None:
        old.redo()
    old.close()
    again = ChangeLog(tmp_path / "old", "/birds")
    assert again.state.labels["d.png"] == Given(3)
    assert [entry.name for entry in again.state.classes.values()] == ["auk", "heron", "gull"]
    assert content(replayed(again)) == content(again.state)
    again.close()


def test_names_are_found_again_and_classes_without_are_written_as_in_version_0_1(old, tmp_path):
    label(old, "d.png", "gull")
    assert '"gull", 2]' in old._database.execute("SELECT change FROM actions ORDER BY version DESC").fetchone()[0]
    old.commit(old.state.naming({"auk": ("black and white",), "owl": ()}))
    old.undo()
    old.redo()
    old.close()
    again = ChangeLog(tmp_path / "old", "/birds")
    assert again.state.classes[1] == ClassEntry("auk", 0, ("black and white",))
    assert again.state.classes[3].said is None
    assert again.state.classes[4].said == ()
    assert content(replayed(again)) == content(again.state)
    # What version 0.1 reads of it.
    rows = again._database.execute("SELECT * FROM classes ORDER BY id").fetchall()
    assert [row[:2] for row in rows] == [(1, "auk"), (2, "heron"), (3, "gull"), (4, "owl")]
    again.close()
