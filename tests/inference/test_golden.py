"""The authors' code, reproduced: every number of every golden task through ``LaplacianShot.reference``."""

from pathlib import Path

import numpy as np
import pytest

from laplacianshot import LaplacianShot

HERE = Path(__file__).resolve().parents[1] / "golden"
TRANSFORMS = {"UN": "none", "L2N": "l2", "CL2N": "cl2"}
OWN = ("task_04", "task_05", "task_19", "task_27")


@pytest.mark.parametrize("name", [f"task_{i:02d}" for i in range(28)])
def test_reference_matches_the_authors_code(name, shared):
    path = HERE / f"{name}.npz" if name in OWN else shared(f"golden/{name}.npz")
    with np.load(path, allow_pickle=False) as stored:
        golden = {key: stored[key] for key in stored.files}
    transform = TRANSFORMS[str(golden["norm"])]
    support, query = golden["support"], golden["query"]
    # Labels are arbitrary ids of which -1 may be one to us: shift them out of its way.
    labels = golden["support_labels"] + 1000
    clf = LaplacianShot.reference(
        lam=float(golden["lmd"]),
        n_neighbors=int(golden["knn"]),
        transform=transform,
        base_mean=golden["base_mean"] if transform == "cl2" else None,
        rectify=bool(golden["proto_rect"]),
    )
    clf.fit(np.concatenate([support, query]), np.concatenate([labels, np.full(len(query), -1)]))

    # Columns in the order of the golden arrays: of first appearance, or sorted.
    order = list(dict.fromkeys(labels.tolist()))
    order = order if str(golden["mode"]) == "train_lshot" else sorted(order)
    columns = [int(np.flatnonzero(clf.classes_ == label)[0]) for label in order]
    np.testing.assert_array_equal(clf.affinity_.indptr, golden["W_indptr"])
    for q in range(len(query)):
        row = slice(golden["W_indptr"][q], golden["W_indptr"][q + 1])
        np.testing.assert_array_equal(clf.affinity_.indices[row], np.sort(golden["W_indices"][row]))
    assert clf.n_iter_ == int(golden["n_iter"])
    np.testing.assert_allclose(clf.prototypes_[columns], golden["prototypes"], atol=1e-5)
    np.testing.assert_allclose(clf.unary_[:, columns], golden["unary"], rtol=1e-5)
    np.testing.assert_allclose(clf.objective_, golden["energies"], rtol=1e-4)
    distributions = clf.label_distributions_[len(support) :]
    np.testing.assert_allclose(distributions[:, columns], golden["Y_final"], atol=1e-3)
    sure = golden["label_margin"] > 1e-4
    np.testing.assert_array_equal(clf.transduction_[len(support) :][sure], golden["pred_labels"][sure] + 1000)
