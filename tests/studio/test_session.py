from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from laplacianshot.labeling.sources import open_source
from laplacianshot.studio import view
from laplacianshot.studio.change_log import ActionError
from laplacianshot.studio.engine import Engine
from laplacianshot.studio.server import open_session
from laplacianshot.studio.session import Session
from tests.labeling.files import pictures

PATIENCE = 300.0


@pytest.fixture
def idle(two_groups, tmp_path):
    """A session whose background work has not begun."""
    session = Session(open_source(two_groups), None, tmp_path, None)
    yield session
    session.close()


@pytest.mark.parametrize("seed", range(4))
def test_the_labels_of_items_follow_every_action_and_its_undoing(idle, seed):
    rng = np.random.default_rng(seed)
    for _ in range(60):
        some = rng.integers(0, 60, 5).tolist()
        ids = [*idle.log.state.classes, 99]
        one, other = (int(rng.choice(ids)) for _ in range(2))
        kind = rng.integers(0, 8)
        try:
            if kind <= 2:
                idle.label_by_name(some, f"class {rng.integers(0, 4)}")
            elif kind == 3:
                idle.label(some, None)
            elif kind == 4:
                idle.act(lambda state, one=one, other=other: state.merging(one, other))
            elif kind == 5:
                idle.act(lambda state, one=one: state.deleting(one))
            else:
                idle.turn_back(int(rng.integers(1, 4)), redo=kind == 7)
        except ActionError:
            continue
        fresh = idle._read_given(idle.log.state)
        np.testing.assert_array_equal(idle.given.classes, fresh.classes)
        np.testing.assert_array_equal(idle.given.accepted, fresh.accepted)
        assert idle.given.version == idle.log.version
        given = idle.view().origins == view.GIVEN
        assert {idle.source.ids[i] for i in np.flatnonzero(given)} == set(idle.log.state.labels)


def test_items_without_a_vector_wait_and_can_be_labeled(idle):
    idle.label_by_name([3], "left")
    counts = idle.view().counts()
    assert (counts["waiting"], counts["given"]) == (59, 1)
    with pytest.raises(ActionError, match="none of these items"):
        idle.accept([3, 4])


def test_whoever_listens_hears_of_every_action(idle):
    heard = []
    idle.listen(lambda: heard.append(idle.log.version))
    idle.label_by_name([3], "left")
    idle.turn_back(1)
    assert heard == [1, 2]


def test_a_class_that_has_gone_is_predicted_no_more(opened, two_groups):
    session = opened(two_groups)
    for index in (0, 1, 30, 31, 59):
        session.label_by_name([index], "left" if index < 30 else "right")
    assert session.engine.wait_until_settled(PATIENCE)
    right = session.log.state.class_named("right")
    assert right in session.view().classes
    session.act(lambda state: state.deleting(right))
    assert right not in session.view().classes
    assert session.engine.wait_until_settled(PATIENCE)
    assert session.view().counts()["predicted"] == 0
    session.turn_back(1)
    assert session.engine.wait_until_settled(PATIENCE)
    assert (session.view().classes == right).sum() == 30


def test_an_item_that_left_the_source_keeps_its_label_for_when_it_is_back(tmp_path):
    path = tmp_path / "source.npz"
    rows = np.arange(20.0).reshape(10, 2)
    (tmp_path / "project").mkdir()
    for kept in ([0, 1, 2, 3], [1, 2], [3, 2, 1, 0]):
        np.savez(path, features=rows[kept], ids=np.array([f"item {i}" for i in kept]))
        session = Session(open_source(path), None, tmp_path / "project", None)
        if session.log.version == 0:
            session.label_by_name([3], "last")
        held = session.given.classes >= 0
        assert [session.source.ids[i] for i in np.flatnonzero(held)] == (["item 3"] if 3 in kept else [])
        session.close()


@dataclass
class LettersEncoder:
    """Texts to the counts of their letters. After the first batch it waits to be let on."""

    name: str = "letters"
    kind: str = "texts"
    dim: int = 26
    key: str = "letters" * 8
    batch_size: int = 16
    parallel: int = 1
    enough: int | None = None
    go_on: threading.Event = field(default_factory=threading.Event)
    n_encoded: int = 0

    def prepare(self, item: str) -> str:
        return item

    def encode(self, prepared: list[str]) -> Any:
        if self.n_encoded >= 64 and not self.go_on.wait(PATIENCE):
            raise RuntimeError("nobody has let it on.")
        self.n_encoded += len(prepared)
        return np.array([[text.count(chr(97 + k)) for k in range(26)] for text in prepared], dtype=np.float32)


def test_the_first_batch_can_be_worked_with_while_the_others_come(tmp_path, monkeypatch):
    monkeypatch.setattr("laplacianshot.studio.engine._PAUSE", 0.02)
    rng = np.random.default_rng(0)
    words = [("aab" if i % 2 else "xyy") * int(rng.integers(1, 4)) + f" {i}" for i in range(200)]
    table = tmp_path / "texts.csv"
    table.write_text("text\n" + "\n".join(words))
    encoder = LettersEncoder()
    session = Session(open_source(table), encoder, tmp_path, None)  # type: ignore[arg-type]
    published = threading.Condition()

    def wait_for(predicate) -> bool:
        with published:
            return published.wait_for(predicate, PATIENCE)

    def tell() -> None:
        with published:
            published.notify_all()

    session.listen(tell)
    session.start()
    try:
        assert wait_for(lambda: session.view().counts()["suggested"] > 0)
        counts = session.view().counts()
        assert (counts["unlabeled"], counts["waiting"]) == (64, 136)
        queue = np.flatnonzero(session.view().suggestions)
        for kind in (0, 1):
            session.label_by_name([int(i) for i in queue if i % 2 == kind][:2], f"kind {kind}")
        assert wait_for(lambda: session.view().counts()["predicted"] == 60)
        encoder.go_on.set()
        assert session.engine.wait_until_settled(PATIENCE)
        classes = session.view().classes
        assert len(set(classes[::2])) == len(set(classes[1::2])) == 1
        assert session.view().counts()["predicted"] == 196
    finally:
        encoder.go_on.set()
        session.close()


def test_a_fault_in_the_background_is_reported_and_nobody_waits_forever(idle, monkeypatch):
    def fail(*_: Any, **__: Any) -> None:
        raise MemoryError("no room for the neighbors")

    monkeypatch.setattr("laplacianshot.studio.engine.build_cache", fail)
    idle.start()
    assert idle.engine.wait_until_settled(PATIENCE)
    assert idle.engine.progress.problem == "MemoryError: no room for the neighbors"
    assert isinstance(idle.engine, Engine)
    idle.label_by_name([0], "still kept")
    assert idle.log.version == 1


@pytest.fixture
def overlapping(opened, tmp_path):
    """A session on 300 vectors of three groups that overlap, two labels each."""
    rng = np.random.default_rng(3)
    X = np.repeat(np.eye(3, 8), 100, axis=0) + 0.38 * rng.standard_normal((300, 8))
    np.save(tmp_path / "overlapping.npy", X)
    session = opened(tmp_path / "overlapping.npy")
    for index in (0, 1, 100, 101, 200, 201):
        session.label_by_name([index], f"class {index // 100}")
    assert session.engine.wait_until_settled(PATIENCE)
    return session


def press(session, times, surer=0.8):
    """Accept what is surer, with a pause after each press; return how many labels each press accepted."""
    counts = []
    for _ in range(times):
        before = len(session.log.state.labels)
        with contextlib.suppress(ActionError):
            session.accept_confident(surer, None)
        counts.append(len(session.log.state.labels) - before)
        assert session.engine.wait_until_settled(PATIENCE)
    return counts


def test_accepting_again_and_again_accepts_no_more_than_once(overlapping):
    first, *rest = press(overlapping, 6)
    assert first > 30
    # The last digits of a confidence may move it over the limit, as an update descends a little further.
    assert sum(rest) <= 3


def test_accepted_labels_are_kept_apart_and_teach_nothing(overlapping):
    before = overlapping.view()
    chosen = (before.origins == view.PREDICTED) & (before.confidence >= np.float32(0.8))
    press(overlapping, 1)
    after = overlapping.view()
    np.testing.assert_array_equal(after.origins == view.ACCEPTED, chosen)
    np.testing.assert_array_equal(after.classes[chosen], before.classes[chosen])
    np.testing.assert_allclose(after.confidence, before.confidence, atol=0.02)
    assert (after.classes != before.classes).sum() <= 3
    assert after.counts()["given"] == 6


def test_what_is_accepted_says_how_many_are_expected_to_be_wrong(overlapping):
    before = overlapping.view()
    chosen = (before.origins == view.PREDICTED) & (before.confidence >= np.float32(0.8))
    wrong = (1 - before.confidence[chosen]).sum()
    assert wrong > 2
    summary = overlapping.accept_confident(0.8, None).summary
    assert summary.endswith(f"confidence 80% or more; about {wrong:.0f} expected to be wrong")


def test_one_item_that_is_accepted_counts_as_looked_at(overlapping):
    item = int(np.flatnonzero(overlapping.view().origins == view.PREDICTED)[0])
    overlapping.accept([item])
    assert overlapping.log.state.labels[overlapping.source.ids[item]].how == "person"
    assert overlapping.view().origins[item] == view.GIVEN
    # So does one that was accepted with others before.
    press(overlapping, 1)
    accepted = int(np.flatnonzero(overlapping.view().origins == view.ACCEPTED)[0])
    overlapping.accept([accepted])
    assert overlapping.view().origins[accepted] == view.GIVEN
    with pytest.raises(ActionError, match="no predicted label"):
        overlapping.accept([accepted])


def test_an_accepted_label_is_disputed_once_the_predictions_say_otherwise(overlapping):
    press(overlapping, 1)
    now = overlapping.view()
    item = int(np.flatnonzero((now.origins == view.ACCEPTED) & (now.classes == overlapping.given.classes[0]))[0])
    near = overlapping.engine.progress.predictions.cache.neighbors.indices[item, :25].tolist()
    overlapping.label_by_name([i for i in near if i != item], "class 1")
    assert overlapping.engine.wait_until_settled(PATIENCE)
    now = overlapping.view()
    assert now.origins[item] == view.ACCEPTED
    assert now.disputes[item] == overlapping.log.state.class_named("class 1")
    assert now.confidence[item] < 0.5


@pytest.fixture
def archive(tmp_path):
    """Twelve pictures in folders that are not classes."""
    names = [f"{folder}/{i}.png" for folder in ("2023", "2024", "misc") for i in range(4)]
    pictures(tmp_path / "archive", *names)
    return tmp_path / "archive"


def test_a_project_is_freed_of_the_labels_of_its_folders(opened, archive):
    notes = []
    with open_session(open_source(archive, classes_from_folders=True)) as session:
        session.label_by_name([0], "heron")
        session.label_by_name([1], "misc")
        assert session.folder_labels == 10
    # Without a word the project stays as it is, and says how to be rid of them.
    with open_session(open_source(archive), note=notes.append) as session:
        assert session.folder_labels == 10
    assert "10 labels of this project are names of folders" in notes[-1]
    assert "--folders-are-paths" in notes[-1]
    with open_session(open_source(archive), classes_from_folders=False, note=notes.append) as session:
        assert session.folder_labels == 0
        state = session.log.state
        # What a person said stays, also of a class that has the name of a folder.
        assert sorted(entry.name for entry in state.classes.values()) == ["heron", "misc"]
        assert len(state.labels) == 2
        session.turn_back(1)
        assert session.folder_labels == 10
        session.free_of_folders()
        with pytest.raises(ActionError, match="no label"):
            session.free_of_folders()
    assert "10 items: label of the source removed" in notes[-1]
    # And back, where it is asked for.
    again = opened(open_source(archive, classes_from_folders=True), classes_from_folders=True)
    assert again.folder_labels == 10
    assert again.log.state.name_of(again.given.classes[0]) == "heron"
