import json
import os

import numpy as np
import pytest
import scipy.sparse as sp

from laplacianshot import LaplacianShot
from laplacianshot.engine import checkpoint as checkpoint_module
from laplacianshot.engine.checkpoint import content_of
from laplacianshot.estimator import fit_large
from laplacianshot.neighbors.rows import Rows


@pytest.fixture(scope="module")
def digits(vectors):
    return vectors


@pytest.fixture
def searches(monkeypatch):
    """How often neighbors were sought."""
    made = []

    def search(*args, **options):
        made.append(options)
        return original(*args, **options)

    original = checkpoint_module.knn
    monkeypatch.setattr(checkpoint_module, "knn", search)
    return made


def test_neighbors_are_taken_up_again(digits, large, searches, tmp_path):
    X, _, y = digits
    first = fit_large(LaplacianShot(), X, y, checkpoint=tmp_path)
    second = fit_large(LaplacianShot(), X, y, checkpoint=tmp_path)
    assert len(searches) == 1
    np.testing.assert_array_equal(first.label_distributions_, second.label_distributions_)
    np.testing.assert_array_equal(first.objective_, second.objective_)
    assert first.graph_report_ == second.graph_report_
    np.testing.assert_array_equal(first.predict_proba(X[:50] + 1), second.predict_proba(X[:50] + 1))


def test_a_graph_that_was_not_finished_is_made_again(digits, large, searches, tmp_path):
    X, _, y = digits
    first = fit_large(LaplacianShot(), X, y, checkpoint=tmp_path)
    folder = next(tmp_path.glob("neighbors-*"))
    (folder / "facts.json").unlink()
    (folder / "indices.npy").write_bytes(b"half of it")
    abandoned = folder / ".partial-x.npy"
    abandoned.write_bytes(b"")
    os.utime(abandoned, (0, 0))
    second = fit_large(LaplacianShot(), X, y, checkpoint=tmp_path)
    assert len(searches) == 2
    np.testing.assert_array_equal(first.label_distributions_, second.label_distributions_)
    assert not list(folder.glob(".partial-*"))


def test_finished_updates_are_taken_up_again(digits, large, tmp_path, monkeypatch):
    X, _, y = digits
    first = fit_large(LaplacianShot(), X, y, checkpoint=tmp_path)

    def fail(*args, **options):
        raise AssertionError("updates were made again")

    monkeypatch.setattr("laplacianshot.engine.large.descend", fail)
    second = fit_large(LaplacianShot(), X, y, checkpoint=tmp_path)
    np.testing.assert_array_equal(first.label_distributions_, second.label_distributions_)
    np.testing.assert_array_equal(first.predict_proba(X[:50] + 1), second.predict_proba(X[:50] + 1))
    assert (first.converged_, first.n_iter_, first.dropped_mass_) == (
        second.converged_,
        second.n_iter_,
        second.dropped_mass_,
    )
    with pytest.raises(AssertionError, match="made again"):
        fit_large(LaplacianShot(lam=1.5), X, y, checkpoint=tmp_path)


def test_sparse_updates_are_taken_up_again(digits, large, tmp_path, monkeypatch):
    for module in ("runtime.limits", "engine.plan"):
        monkeypatch.setattr(f"laplacianshot.{module}.LARGE_ASSIGNMENTS", 5000)
    X, _, y = digits
    first, second = (fit_large(LaplacianShot(), X, y, checkpoint=tmp_path) for _ in range(2))
    assert sp.issparse(second.label_distributions_)
    assert abs(first.label_distributions_ - second.label_distributions_).max() == 0


@pytest.mark.parametrize("damage", ["array", "facts"])
def test_what_is_damaged_counts_as_absent(digits, large, searches, tmp_path, damage):
    X, _, y = digits
    first = fit_large(LaplacianShot(), X, y, checkpoint=tmp_path)
    folder = next(tmp_path.glob("neighbors-*"))
    (folder / ("indices.npy" if damage == "array" else "facts.json")).write_bytes(b"\x93NUMPY")
    second = fit_large(LaplacianShot(), X, y, checkpoint=tmp_path)
    assert len(searches) == 2
    np.testing.assert_array_equal(first.label_distributions_, second.label_distributions_)


def test_a_folder_that_cannot_be_written_costs_a_warning(digits, large, tmp_path):
    X, _, y = digits
    (tmp_path / "file").write_text("")
    with pytest.warns(UserWarning, match="could not be kept"):
        clf = fit_large(LaplacianShot(), X, y, checkpoint=tmp_path / "file")
    assert clf.transduction_.shape == y.shape


def test_only_the_last_stages_are_kept(digits, large, tmp_path):
    X, _, y = digits
    for k in range(3, 9):
        fit_large(LaplacianShot(n_neighbors=k, max_iter=1), X, y, checkpoint=tmp_path)
    assert len(list(tmp_path.glob("neighbors-*"))) == len(list(tmp_path.glob("updates-*"))) == 4


@pytest.mark.parametrize("change", ["rows", "labels", "neighbors", "recall", "transform", "dtype"])
def test_anything_that_the_neighbors_depend_on_makes_a_folder_of_its_own(digits, large, searches, tmp_path, change):
    X, truth, y = digits
    fit_large(LaplacianShot(), X, y, checkpoint=tmp_path)
    options = {"neighbors": {"n_neighbors": 4}, "recall": {"target_recall": 0.5}, "transform": {"transform": "l2"}}
    if change == "rows":
        X = X.copy()
        X[-1, -1] += 1
    if change == "dtype":
        X = X.astype(np.float16)
    if change == "labels":  # they move the center
        y = np.where(np.arange(len(y)) < 200, truth, -1)
    fit_large(LaplacianShot(**options.get(change, {})), X, y, checkpoint=tmp_path)
    assert len(searches) == 2
    assert len(list(tmp_path.glob("neighbors-*"))) == 2


def test_facts_are_plain_json_and_arrays_are_no_pickles(digits, large, tmp_path):
    X, _, y = digits
    clf = fit_large(LaplacianShot(), X, y, checkpoint=tmp_path)
    folder = next(tmp_path.glob("neighbors-*"))
    assert json.loads((folder / "facts.json").read_text())["report"]["recall"] == clf.graph_recall_
    for path in tmp_path.glob("*/*.npy"):
        np.load(path, allow_pickle=False)


def test_small_sets_keep_nothing(digits, tmp_path):
    X, _, y = digits
    fit_large(LaplacianShot(), X, y, checkpoint=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_prototypes_that_were_held_are_remembered(digits, large, tmp_path, monkeypatch):
    monkeypatch.setattr("laplacianshot.inference.clues._COLLAPSE", -10.0)
    X, _, y = digits
    first, again = (fit_large(LaplacianShot(), X, y, checkpoint=tmp_path) for _ in range(2))
    for clf in (first, again):
        assert clf.solution_.answers.prototypes_held
        assert "held where the labels are" in clf.report_
    assert again.solution_.constants == first.solution_.constants
    np.testing.assert_array_equal(again.predict(X), first.predict(X))


def test_rows_of_roots_are_not_taken_for_the_rows_themselves():
    X = np.eye(4, dtype=np.float32) * 4
    as_they_are, roots = Rows.transformed(X), Rows.transformed(X, "power", np.zeros(4))
    assert content_of(as_they_are) != content_of(roots)
    np.testing.assert_array_equal(roots[:], np.eye(4))
