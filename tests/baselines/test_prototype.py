from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import cosine_similarity

from laplacianshot import LaplacianShot
from laplacianshot.baselines import (
    NearestPrototype,
    PseudoLabels,
    RectifiedPrototype,
    TaskBatch,
)
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


def test_the_nearest_prototype_is_the_reference_recipe_without_graph_and_rectification(clusters):
    X, _, y = clusters(4, 25, 3, spread=1.5)
    ours = LaplacianShot.reference(lam=0, rectify=False).fit(X, y)
    np.testing.assert_array_equal(NearestPrototype().fit(X, y).transduction_, ours.transduction_)


def test_the_nearest_prototype_on_a_line_splits_at_the_midpoint():
    X = np.array([[0.0], [2.0], [10.0], [5.9], [6.1]])
    fitted = NearestPrototype("none").fit(X, [0, 0, 1, -1, -1])
    # The means are 1 and 10, the midpoint is 5.5.
    assert fitted.transduction_.tolist() == [0, 0, 1, 1, 1]


@pytest.mark.parametrize("center", ["pooled", "support"])
def test_the_center_can_be_given_by_name_or_as_a_vector(center, clusters):
    X, _, y = clusters(3, 20, 2, spread=1.5)
    mean = X.mean(axis=0) if center == "pooled" else X[y >= 0].mean(axis=0)
    by_name = NearestPrototype(center=center).fit(X, y).transduction_
    np.testing.assert_array_equal(by_name, NearestPrototype(center=mean).fit(X, y).transduction_)


def label_slowly(support, labels, query, n_classes, rounds, share):
    rows, given = support, labels
    for r in range(rounds + 1):
        means = np.array([rows[given == c].mean(axis=0) for c in range(n_classes)])
        scores = cosine_similarity(query, means)
        count = min(len(query), max(1, round((r + 1) * share * len(query))))
        surest = sorted(range(len(query)), key=lambda q: -scores[q].max())[:count]
        rows = np.concatenate([support, query[surest]])
        given = np.concatenate([labels, scores[surest].argmax(axis=1)])
    return scores


@pytest.mark.parametrize(("rounds", "share"), [(2, 35 / 75), (0, 0.5), (1, 1.0), (3, 0.2)])
def test_scores_are_those_of_rounds_in_the_features(rounds, share, tasks):
    found = PseudoLabels(rounds=rounds, share=share).scores(tasks.batch)
    for task, labels in enumerate(tasks.labels):
        expected = label_slowly(tasks.support[task], labels, tasks.query[task], tasks.n_classes, rounds, share)
        np.testing.assert_allclose(found[task], expected, atol=1e-9)


def test_a_sure_query_pulls_the_prototype_towards_itself():
    # Class 0 points along (1, 0); its query at 30 degrees is surest and moves the mean to 15 degrees.
    thirty = np.array([np.cos(np.pi / 6), np.sin(np.pi / 6)])
    X = np.array([[1.0, 0.0], [0.0, -1.0], thirty, [0.0, 1.0]])
    fitted = PseudoLabels(space="none", rounds=1, share=0.5).fit(X, [0, 1, -1, -1])
    assert fitted.transduction_.tolist() == [0, 1, 0, 0]
    batch = TaskBatch((X @ X.T)[None], np.array([[0, 1]]), 2)
    found = PseudoLabels(rounds=1, share=0.5).scores(batch)
    assert found[0, 0, 0] == pytest.approx(np.cos(np.pi / 12))


def test_seventy_five_queries_give_thirty_five_and_then_seventy_candidates(make_tasks):
    tasks = make_tasks((1,) * 5, 75)
    exact = PseudoLabels(share=35 / 75).scores(tasks.batch)
    np.testing.assert_array_equal(PseudoLabels().scores(tasks.batch), exact)
    for task, labels in enumerate(tasks.labels):
        support, query = tasks.support[task], tasks.query[task]
        for count in (35, 70):
            means = np.array([support[labels == c].mean(axis=0) for c in range(5)])
            scores = cosine_similarity(query, means)
            surest = np.argsort(-scores.max(axis=1))[:count]
            support = np.concatenate([tasks.support[task], query[surest]])
            labels = np.concatenate([tasks.labels[task], scores[surest].argmax(axis=1)])
        means = np.array([support[labels == c].mean(axis=0) for c in range(5)])
        np.testing.assert_allclose(exact[task], cosine_similarity(query, means), atol=1e-9)
