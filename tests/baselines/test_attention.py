from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import cosine_similarity

from laplacianshot.baselines import MatchingAttention


@pytest.mark.parametrize("temperature", [1.0, 10.0])
def test_a_query_takes_the_labels_of_the_support_in_the_share_it_attends_to_them(temperature, tasks):
    found = MatchingAttention(temperature=temperature).scores(tasks.batch)
    for task in range(len(tasks.rows)):
        attention = np.exp(temperature * cosine_similarity(tasks.query[task], tasks.support[task]))
        expected = attention @ tasks.one_hot(task) / attention.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(found[task], expected, atol=1e-12)


def test_shares_sum_to_one(tasks):
    np.testing.assert_allclose(MatchingAttention().scores(tasks.batch).sum(axis=2), 1)


def test_without_attention_the_class_with_most_support_wins(make_tasks):
    found = MatchingAttention(temperature=0).scores(make_tasks((1, 3, 2), 5).batch)
    np.testing.assert_allclose(found, np.broadcast_to([1 / 6, 3 / 6, 2 / 6], found.shape))
