import numpy as np
import pytest
import scipy.sparse as sp

from laplacianshot import LaplacianShot
from laplacianshot.inference.affinity import knn_affinity, normalize
from laplacianshot.inference.transforms import base_mean, transform_features
from laplacianshot.labeling import suggestions
from laplacianshot.labeling.suggestions import cover_affinity, suggest


def unlabeled(n):
    return np.full(n, -1)


def unsure(n, n_classes=3):
    return np.full((n, n_classes), 1 / n_classes)


def suggest_first(rows, requested):
    n = len(rows)
    return suggest(np.zeros((n, 1)), unlabeled(n), requested, affinity=cover_affinity(rows, requested))


def test_without_a_label_one_item_of_each_cluster_comes_first(clusters):
    X, truth, _ = clusters(6, 30, dim=16, spread=0.2)
    first = suggest_first(transform_features(X, "cl2", base_mean(X)), 6)
    assert sorted(truth[first]) == list(range(6))


@pytest.mark.parametrize("seed", range(5))
def test_variations_of_a_few_items_do_not_hide_the_other_topics(seed):
    """Groups of four near-copies are cliques of their three nearest neighbors: all alike, whatever their topic."""
    rng = np.random.default_rng(seed)
    topic = np.repeat(np.arange(3), 5)
    originals = 2 * rng.standard_normal((3, 32))[topic] + rng.standard_normal((15, 32))
    rows = np.repeat(originals, 4, axis=0) + 0.05 * rng.standard_normal((60, 32))
    first = suggest_first(transform_features(rows, "cl2", base_mean(rows)), 5)
    assert set(np.repeat(topic, 4)[first]) == {0, 1, 2}


def test_the_largest_cluster_comes_first():
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], [15, 60, 25])
    rows = np.eye(8)[truth] + 0.05 * rng.standard_normal((100, 8))
    assert truth[suggest_first(rows, 3)].tolist() == [1, 2, 0]


def test_clusters_without_a_label_come_before_those_with_one_however_sure_the_labels_are(clusters):
    X, truth, y = clusters(6, 30, 1, dim=16, spread=0.2)
    y[truth >= 4] = -1
    model = LaplacianShot().fit(X, y)
    certain = np.eye(4)[model.transduction_]
    found = suggest(certain, y, 2, affinity=model.affinity_)
    assert set(truth[found]) == {4, 5}


def test_of_clusters_alike_the_uncertain_one_comes_first():
    rng = np.random.default_rng(0)
    part = 0.1 * rng.standard_normal((20, 4))
    rows = np.concatenate([np.hstack([part, np.eye(3)[[c] * 20]]) for c in range(3)])
    probabilities = np.tile([1.0, 0.0], (60, 1))
    probabilities[20:40] = 0.5
    assert 20 <= suggest(probabilities, unlabeled(60), 3, affinity=cover_affinity(rows, 3))[0] < 40


def test_of_many_copies_of_an_item_one_is_suggested():
    rng = np.random.default_rng(1)
    rows = np.concatenate([np.ones((12, 5)), np.eye(5).repeat(12, axis=0) + 0.01 * rng.standard_normal((60, 5))])
    first = suggest_first(rows, 6)
    assert np.sum(first < 12) == 1


def greedy_by_hand(K, need, free, requested):
    """The definition: ``sum_j K_ij need_j`` is computed again for each choice."""
    need = need * np.prod(1 - np.minimum(K[~free], 1 - 1e-6), axis=0)
    chosen = []
    for _ in range(requested):
        gain = np.where([free[i] and i not in chosen for i in range(len(K))], K @ need, -np.inf)
        chosen.append(int(gain.argmax()))
        need = need * (1 - np.minimum(K[chosen[-1]], 1 - 1e-6))
    return chosen


@pytest.mark.parametrize(
    ("labels", "floor"),
    [([], 0.5), ([0], 0.5), ([0, 0, 1], 0.5), ([0, 0, 1, 1, 2, 2, 3, 3, 4], 0.3), ([0, 0, 0], 0.02)],
)
def test_suggestions_are_the_greedy_cover_by_definition(labels, floor):
    rng = np.random.default_rng(len(labels))
    rows = rng.standard_normal((60, 3))
    probabilities = rng.dirichlet([0.5] * 4, size=60)
    codes = unlabeled(60)
    codes[rng.permutation(60)[: len(labels)]] = labels
    affinity = normalize(knn_affinity(rows, 5))

    W = affinity.toarray()
    K = np.minimum(1, suggestions.REACH / np.median(affinity.data) * (W + W @ W))
    np.fill_diagonal(K, 1)
    need = np.where(codes < 0, floor + (1 - floor) * (1 - probabilities.max(axis=1)), 0)
    expected = greedy_by_hand(K, need, codes < 0, 20)
    np.testing.assert_array_equal(suggest(probabilities, codes, 20, affinity=affinity), expected)


@pytest.mark.parametrize("requested", [0, 1, 5, 56, 57, 1000])
def test_suggestions_are_unlabeled_and_different_and_their_number_is_limited(clusters, requested):
    X, _, y = clusters(3, 20, 1)
    found = suggest(unsure(60), y, requested, affinity=cover_affinity(X, requested))
    assert len(found) == len(set(found.tolist())) == min(requested, 57)
    assert np.all(y[found] == -1)


def test_more_suggestions_begin_with_the_same_ones_on_the_same_graph(clusters):
    X, _, y = clusters(3, 20, 1)
    affinity = normalize(knn_affinity(X, 4))
    few, many = (suggest(unsure(60), y, requested, affinity=affinity) for requested in (5, 30))
    np.testing.assert_array_equal(many[:5], few)


def test_a_graph_too_dense_to_square_is_thinned_and_still_covers_every_cluster(clusters, monkeypatch):
    X, truth, _ = clusters(4, 50, dim=16, spread=0.2)
    affinity = normalize(knn_affinity(X, 20))
    monkeypatch.setattr(suggestions, "MAX_PAIRS", 20_000)
    thin = suggestions._thinned(affinity)
    assert thin.nnz**2 / 200 < 1.3 * 20_000 < affinity.nnz**2 / 200
    assert abs(thin - thin.T).max() == 0
    assert set(truth[suggest(unsure(200), unlabeled(200), 4, affinity=affinity)]) == {0, 1, 2, 3}


def test_what_is_given_is_left_as_it_is(clusters):
    X, _, y = clusters(3, 20, 1)
    affinity = normalize(knn_affinity(X, 4))
    probabilities = unsure(60)
    given = probabilities, y, affinity.data, affinity.indices
    before = [array.copy() for array in given]
    suggest(probabilities, y, 10, affinity=affinity)
    for array, copy in zip(given, before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_all_items_labeled_leaves_nothing_to_suggest():
    assert suggest(unsure(4), np.arange(4), 3, affinity=cover_affinity(np.eye(4), 3)).tolist() == []


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_a_handful_of_items_are_all_suggested(n):
    rows = np.random.default_rng(0).standard_normal((n, 4)).astype(np.float32)
    assert sorted(suggest_first(rows, 10)) == list(range(n))
    assert sorted(suggest(unsure(n), unlabeled(n), 10, affinity=cover_affinity(rows, 10))) == list(range(n))


@pytest.mark.parametrize("rows", [np.zeros((40, 3)), np.ones((40, 3), np.float32), np.eye(40)], ids=str)
def test_items_that_are_all_alike_or_all_apart_still_get_suggestions(rows):
    assert len(set(suggest_first(rows, 12).tolist())) == 12
    found = suggest(unsure(40), unlabeled(40), 12, affinity=cover_affinity(rows, 12))
    assert len(set(found.tolist())) == 12


def test_a_graph_without_edges_ranks_by_uncertainty():
    probabilities = np.array([[0.9, 0.1], [0.5, 0.5], [0.7, 0.3], [1.0, 0.0]])
    empty = sp.csr_array((4, 4))
    assert suggest(probabilities, unlabeled(4), 4, affinity=empty).tolist() == [1, 2, 0, 3]


def test_certain_and_covered_items_are_still_ranked():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((30, 3))
    codes = unlabeled(30)
    codes[:25] = 0
    found = suggest(np.tile([1.0, 0.0], (30, 1)), codes, 5, affinity=cover_affinity(rows, 5))
    assert sorted(found) == [25, 26, 27, 28, 29]


def accuracy_after(choose, X, truth, batches):
    """Share of right labels after some batches, the first of them by ``suggest_first`` or at random."""
    n_classes = truth.max() + 1
    labeled = np.zeros(len(X), dtype=bool)
    labeled[choose(None, unlabeled(len(X)), n_classes)] = True
    for _ in range(batches - 1):
        model = LaplacianShot().fit(X, np.where(labeled, truth, -1))
        codes = np.where(labeled, np.searchsorted(model.classes_, truth), -1)
        labeled[choose(model, codes, n_classes)] = True
    model = LaplacianShot().fit(X, np.where(labeled, truth, -1))
    return float((model.transduction_ == truth).mean())


def test_suggested_labels_are_worth_more_than_random_ones(shared):
    with np.load(shared("data/banking77/minilm_int8.npz"), allow_pickle=False) as arrays:
        keep = np.flatnonzero(arrays["is_test"])[::4]
        X, labels = arrays["features"][keep].astype(np.float32), arrays["labels"][keep]
    truth = np.unique(labels, return_inverse=True)[1]

    def suggested(model, codes, requested):
        if model is None:
            return suggest_first(transform_features(X, "cl2", base_mean(X)), requested)
        return suggest(model.label_distributions_, codes, requested, affinity=model.affinity_)

    def at_random(model, codes, requested, rng=np.random.default_rng(0)):  # noqa: B008
        return rng.permutation(np.flatnonzero(codes < 0))[:requested]

    for batches in (1, 3):
        chance = [accuracy_after(at_random, X, truth, batches) for _ in range(3)]
        assert accuracy_after(suggested, X, truth, batches) > max(chance) + 0.05
