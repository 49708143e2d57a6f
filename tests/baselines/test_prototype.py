from __future__ import annotations

import numpy as np
import pytest

from laplacianshot import LaplacianShot
from laplacianshot.baselines import NearestPrototype, RectifiedPrototype
from laplacianshot.baselines.prototype import shift_queries
from laplacianshot.episodes.methods import make_method


def test_the_score_is_the_squared_distance_to_the_mean_of_the_class(tasks):
    found = NearestPrototype().scores(tasks.batch)
    for task, labels in enumerate(tasks.labels):
        for c in range(tasks.n_classes):
            mean = tasks.support[task][labels == c].mean(axis=0)
            expected = -np.square(tasks.query[task] - mean).sum(axis=1)
            np.testing.assert_allclose(found[task, :, c], expected, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "space"),
    [("simpleshot-un", "none"), ("simpleshot-l2", "l2"), ("simpleshot-cl2", "cl2"), ("nearest-prototype", "cl2")],
)
def test_the_three_kinds_of_simpleshot_differ_in_their_space(name, space):
    assert make_method(name).get_params() == NearestPrototype(space).get_params()


@pytest.mark.parametrize("transform", ["cl2", "l2", "none"])
def test_rectified_prototypes_are_the_reference_recipe_without_its_graph(transform, tasks):
    method = RectifiedPrototype(space=transform)
    ours = LaplacianShot.reference(lam=0, rectify=True, transform=transform)
    for rows, y in zip(tasks.rows, tasks.targets, strict=True):
        expected = ours.fit(rows, y)
        np.testing.assert_array_equal(method.fit(rows, y).transduction_, expected.transduction_)


def test_rectified_scores_are_the_unary_terms_of_the_reference_recipe(tasks):
    found = RectifiedPrototype().scores(tasks.batch)
    ours = LaplacianShot.reference(lam=0, rectify=True, transform="none")
    for task, (rows, y) in enumerate(zip(tasks.rows, tasks.targets, strict=True)):
        np.testing.assert_allclose(-found[task], ours.fit(rows, y).unary_, atol=1e-8)


def test_a_class_that_no_row_is_grouped_to_keeps_its_plain_prototype(make_tasks):
    # Class 0 has the support rows (1, 0) and (-1, 0.1): by cosine all rows go to class 1 or 2.
    tasks = make_tasks((2, 1, 1), 4, dim=2, n_tasks=1)
    tasks.rows[0] = [[-3, 0.01], [3, 0.01], [2, 1], [-2, 1], [3, 0], [-3, 0.2], [4, 1], [-4, 0]]
    tasks.labels[0] = [0, 0, 1, 2]
    ours = LaplacianShot.reference(lam=0, rectify=True, transform="none").fit(tasks.rows[0], tasks.targets[0])
    np.testing.assert_allclose(ours.prototypes_[0], [0, 0.01], atol=1e-12)
    np.testing.assert_allclose(-RectifiedPrototype().scores(tasks.batch)[0], ours.unary_, atol=1e-8)


def test_shifted_queries_have_the_mean_of_the_support(tasks):
    shift = tasks.support.mean(axis=1, keepdims=True) - tasks.query.mean(axis=1, keepdims=True)
    rows = np.concatenate([tasks.support, tasks.query + shift], axis=1)
    np.testing.assert_allclose(shift_queries(tasks.batch).gram, rows @ np.swapaxes(rows, 1, 2), atol=1e-10)
