import json

import numpy as np
import pytest

from laplacianshot import LaplacianShot
from laplacianshot.scale import checkpoint as checkpoint_module
from laplacianshot.scale import fit_large


@pytest.fixture
def searches(monkeypatch):
    """How often neighbours were sought."""
    made = []

    def search(*args, **options):
        made.append(options)
        return original(*args, **options)

    original = checkpoint_module.search_neighbors
    monkeypatch.setattr(checkpoint_module, "search_neighbors", search)
    return made


def test_neighbours_are_taken_up_again(digits, large, searches, tmp_path):
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
    (folder,) = tmp_path.iterdir()
    (folder / "report.json").unlink()
    (folder / "indices.npy").write_bytes(b"half of it")
    (folder / ".partial-x.npy").write_bytes(b"")
    second = fit_large(LaplacianShot(), X, y, checkpoint=tmp_path)
    assert len(searches) == 2
    np.testing.assert_array_equal(first.label_distributions_, second.label_distributions_)
    assert not list(folder.glob(".partial-*"))


@pytest.mark.parametrize("change", ["rows", "labels", "neighbours", "reduce", "transform", "dtype"])
def test_anything_that_the_neighbours_depend_on_makes_a_folder_of_its_own(digits, large, searches, tmp_path, change):
    X, truth, y = digits
    fit_large(LaplacianShot(), X, y, checkpoint=tmp_path)
    options = {"neighbours": {"n_neighbors": 4}, "reduce": {"reduce": 20}, "transform": {"transform": "l2"}}
    if change == "rows":
        X = X.copy()
        X[-1, -1] += 1
    if change == "dtype":
        X = X.astype(np.float16)
    if change == "labels":  # they move the centre
        y = np.where(np.arange(len(y)) < 200, truth, -1)
    fit_large(LaplacianShot(**options.get(change, {})), X, y, checkpoint=tmp_path)
    assert len(searches) == 2
    assert len(list(tmp_path.iterdir())) == 2


def test_the_report_is_plain_json_and_arrays_are_no_pickles(digits, large, tmp_path):
    X, _, y = digits
    clf = fit_large(LaplacianShot(), X, y, checkpoint=tmp_path)
    (folder,) = tmp_path.iterdir()
    assert json.loads((folder / "report.json").read_text())["recall"] == clf.graph_recall_
    for path in folder.glob("*.npy"):
        np.load(path, allow_pickle=False)


def test_small_sets_keep_nothing(digits, tmp_path):
    X, _, y = digits
    fit_large(LaplacianShot(), X, y, checkpoint=tmp_path)
    assert list(tmp_path.iterdir()) == []
