from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import cosine_similarity

from laplacianshot.baselines import PseudoLabels, TaskBatch


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
